"""Forks the workers that tests kill: `nursery_process.py`, with a line of JSON on stdin for each worker.

A fresh interpreter costs most of a second; a fork of one that has imported everything costs next to nothing, and a
test can afford fifty of them. On stdout: `started PID`, then `ready PID`, then `ended PID EXIT_CODE` (negative: the
signal). At the end of stdin all workers are killed.
"""

import asyncio
import json
import os
import select
import signal
import time
from contextlib import suppress
from dataclasses import dataclass

from dms_worker.job_types import JobContext, JobType
from nexarch import logs
from nexarch.jobs import RetryPolicy
from support.waiting import eventually
from support.working import NEVER_S, working

_STDIN, _STDOUT = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a worker is to be like; times in seconds."""

    bus_dsn: str
    tenant_dsn: str
    concurrency: int = 8
    stale_after_s: float = 60.0
    grace_s: float = 5.0
    sweep_interval_s: float = NEVER_S
    longest_transaction_s: float = 300.0
    clock_off_by_s: float = 0.0


async def record(ctx: JobContext) -> None:
    """Write that the job was entered, take the time it asks for, then write its result and its end in one go."""
    payload = ctx.job.payload
    async with ctx.pool.acquire() as conn:
        await conn.execute("INSERT INTO entered (job_id, lease, pid) VALUES ($1, $2, $3)", *_mark(ctx))
    await asyncio.sleep(payload.get("seconds", 0))
    if ctx.job.attempts <= payload.get("failures", 0):
        raise RuntimeError("as it was told to")
    async with ctx.pool.acquire() as conn, conn.transaction():
        if await ctx.complete(conn):
            await conn.execute("INSERT INTO results (job_id, lease, pid) VALUES ($1, $2, $3)", *_mark(ctx))
            await asyncio.sleep(payload.get("before_commit", 0))


async def plain(ctx: JobContext) -> None:
    """Take the time that the job asks for; its end is written with that of others."""
    payload = ctx.job.payload
    await asyncio.sleep(payload.get("seconds", 0))
    if ctx.job.attempts <= payload.get("failures", 0):
        raise RuntimeError("as it was told to")


async def die(_ctx: JobContext) -> None:
    """End the process at once, as the kernel does when memory is short."""
    os._exit(9)


def _mark(ctx: JobContext) -> tuple[object, ...]:
    return ctx.job.id, ctx.job.lease, os.getpid()


async def work(plan: Plan) -> None:
    """Work until SIGTERM."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)
    at_once = RetryPolicy(base_s=0.0)
    job_types = [
        JobType(name=handler.__name__, handler=handler, concurrency=1000, retry=at_once)
        for handler in (record, plain, die)
    ]
    async with working(
        job_types,
        {"acme": plan.tenant_dsn},
        plan.bus_dsn,
        armed=True,
        concurrency=plan.concurrency,
        stale_after_s=plan.stale_after_s,
        grace_s=plan.grace_s,
        sweep_interval_s=plan.sweep_interval_s,
        longest_transaction_s=plan.longest_transaction_s,
    ) as worker:

        async def it_listens() -> bool:
            return worker.listener.connected

        await eventually(it_listens, every_s=0.001)
        _say(f"ready {os.getpid()}")
        await told.wait()


def _set_clock_off_by(seconds: float) -> None:
    """Make this process believe in another time: the day's, and the one since the start."""
    for name in ("time", "monotonic"):
        true_clock = getattr(time, name)
        setattr(time, name, lambda true_clock=true_clock: true_clock() + seconds)


def _say(line: str) -> None:
    os.write(_STDOUT, f"{line}\n".encode())  # one short write: lines of several processes do not mix


def _be_a_worker(plan: Plan) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.close(_STDIN)
    status = 1
    try:
        _set_clock_off_by(plan.clock_off_by_s)
        asyncio.run(work(plan))
        status = 0
    finally:
        os._exit(status)


def _report_the_dead(living: set[int]) -> None:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            living.discard(ended[0])
            _say(f"ended {ended[0]} {os.waitstatus_to_exitcode(ended[1])}")


def main() -> None:
    """Fork a worker for each line, report the dead, until stdin ends."""
    logs.configure("dms-worker")
    wakeup, wakeup_end = os.pipe()
    os.set_blocking(wakeup_end, False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.set_wakeup_fd(wakeup_end)
    living: set[int] = set()
    lines = b""
    while True:
        ready, _, _ = select.select([_STDIN, wakeup], [], [])
        if wakeup in ready:
            os.read(wakeup, 4096)
        _report_the_dead(living)
        if _STDIN not in ready:
            continue
        if not (data := os.read(_STDIN, 65536)):
            break
        *whole, lines = (lines + data).split(b"\n")
        for line in whole:
            plan = Plan(**json.loads(line))
            pid = os.fork()
            if pid == 0:
                _be_a_worker(plan)
            living.add(pid)
            _say(f"started {pid}")
    for pid in living:
        os.kill(pid, signal.SIGKILL)
    for pid in living:
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
