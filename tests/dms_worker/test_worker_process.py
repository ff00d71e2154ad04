"""A worker as a process of its own: killed, told to stop, or brought down by its job."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dms_worker.job_types import DeadJob, JobType
from nexarch import jobs
from nexarch.db import Connection
from nexarch.doorbell import Doorbell
from nexarch.jobs import JobError
from support.acme_jobs import Entries, status_is
from support.working import working

pytestmark = pytest.mark.database


@asynccontextmanager
async def worker_process(bus_dsn: str, tenant_dsn: str, stale_after_s: float) -> AsyncIterator[Process]:
    """A worker in a process of its own, that has started."""
    tests = Path(__file__).parents[1]
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(tests / "support" / "worker_process.py"), bus_dsn, tenant_dsn, str(stale_after_s),
        stdout=PIPE, env={"PYTHONPATH": str(tests)},
    )  # fmt: skip
    try:
        assert await line(process) == "ready"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line(process: Process, within_s: float = 20.0) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), within_s)).decode().strip()


async def test_the_job_of_a_killed_worker_is_finished_by_another(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    async with worker_process(bus_dsn, tenant_dsn, 1.0) as victim:
        job_id = await jobs.enqueue(conn, "note", {"seconds": 3600})
        bell.ring("acme")
        assert await line(victim) == f"{job_id} 1"
        await conn.execute("""UPDATE processing_jobs SET payload = '{"seconds": 0}'""")
        async with worker_process(bus_dsn, tenant_dsn, 1.0) as heir:
            victim.kill()

            assert await line(heir) == f"{job_id} 2"
            row = await status_is(conn, job_id, "succeeded")

    assert row.attempts == 2


async def test_sigterm_in_the_middle_of_a_job_burns_no_attempt(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    job_id = await jobs.enqueue(conn, "note", {"seconds": 3600})
    for _ in range(3):
        async with worker_process(bus_dsn, tenant_dsn, 60.0) as process:
            assert await line(process) == f"{job_id} 1"
            process.send_signal(signal.SIGTERM)

            assert await asyncio.wait_for(process.wait(), 10) == 0
        assert (await jobs.get_job(conn, job_id)).attempts == 0


async def test_a_job_that_kills_its_worker_each_time_is_a_dead_letter(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    job_id = await jobs.enqueue(conn, "die", {}, max_attempts=2)
    for _ in range(2):
        async with worker_process(bus_dsn, tenant_dsn, 0.5) as process:
            await asyncio.wait_for(process.wait(), 10)
        assert process.returncode == 9

    async def on_dead(dead: DeadJob, error: JobError) -> None:
        await jobs.enqueue(dead.conn, "aftermath", {"code": error.code})

    survivor = JobType(name="die", handler=Entries(), on_dead=on_dead)
    async with working([survivor], {"acme": tenant_dsn}, bus_dsn, stale_after_s=0.5):
        row = await status_is(conn, job_id, "dead_letter")

    assert row.attempts == 2
    assert row.last_error is not None
    assert row.last_error["code"] == "worker-lost"
    (after,) = await jobs.claim(conn, "tests", {"aftermath": 10})
    assert after.payload == {"code": "worker-lost"}
