"""Many tenants, one worker: its connections, its rest, how fast it wakes, and that none of them waits for another."""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from bench.queue_cases import ours
from bench.queue_cases.report import percentile, report
from bench.queue_cases.stage import Stage, connected
from bench.queue_cases.throughput import clear
from bench.queue_cases.waking import Woken
from dms_worker.job_types import JobContext, JobType
from nexarch import jobs
from nexarch.doorbell import Doorbell
from nexarch.jobs import NewJob

_BURST_TIMEOUT_S = 120.0


async def tenants_1000(stage: Stage, *, tenants: int, wakes: int, idle_s: float) -> None:
    """As many tenant databases as that, and one worker process; the figures of its connections are the most seen."""
    slugs = await stage.add_tenants("many", tenants)
    woken = Woken()
    done: set[str] = set()
    all_done = asyncio.Event()

    async def noop(ctx: JobContext) -> None:
        done.add(ctx.tenant)
        if len(done) == tenants:
            all_done.set()
        woken.enter()

    registry = CollectorRegistry()
    async with (
        Doorbell(stage.bus_dsn, application_name="bench-bell") as bell,
        _watched(stage) as sessions,
        ours.working(stage, slugs, [JobType(name="noop", handler=noop, concurrency=8)], registry=registry),
    ):
        await _quiet(registry)
        await _let_disk_rest(stage)
        idle_cpu_pct = await _cpu_pct(idle_s)
        waits: list[float] = []
        floor: list[float] = []
        for slug in random.sample(slugs, wakes):
            begin = time.perf_counter()
            async with connected(stage.tenant_dsn(slug)) as conn:
                await jobs.enqueue(conn, "noop", {})
                committed = time.perf_counter()
                floor.append(1000 * (committed - begin))
                bell.ring(slug)
                waits.append(await woken.after(committed))
        done.clear()
        for slug in slugs:
            async with connected(stage.tenant_dsn(slug)) as conn:
                await jobs.enqueue(conn, "noop", {})
        begin = time.perf_counter()
        for slug in slugs:
            bell.ring(slug)
        await asyncio.wait_for(all_done.wait(), _BURST_TIMEOUT_S)
        burst_s = time.perf_counter() - begin
    report(
        "tenants_1000",
        tenants=tenants,
        connections=sessions.most,
        listeners=sessions.most_listening,
        idle_cpu_pct=round(idle_cpu_pct, 2),
        wake_p50_ms=round(percentile(waits, 50), 1),
        wake_p99_ms=round(percentile(waits, 99), 1),
        floor_p50_ms=round(percentile(floor, 50), 1),
        floor_p99_ms=round(percentile(floor, 99), 1),
        burst_s=round(burst_s, 2),
    )


async def fairness(stage: Stage, *, backlog: int, rounds: int) -> None:
    """One tenant has so many jobs of 10 ms; the single job of another comes while they run. The longest wait."""
    busy, quiet = await stage.add_tenants("fair", 2)
    woken = Woken()
    running = asyncio.Event()

    async def work(ctx: JobContext) -> None:
        if ctx.tenant == quiet:
            woken.enter()
        else:
            running.set()
            await asyncio.sleep(0.01)

    waits: list[float] = []
    async with AsyncExitStack() as stack:
        busy_conn = await stack.enter_async_context(connected(stage.tenant_dsn(busy)))
        quiet_conn = await stack.enter_async_context(connected(stage.tenant_dsn(quiet)))
        bell = await stack.enter_async_context(Doorbell(stage.bus_dsn, application_name="bench-bell"))
        await jobs.enqueue_many(busy_conn, [NewJob("work", {}) for _ in range(backlog)])
        await stack.enter_async_context(
            ours.working(stage, [busy, quiet], [JobType(name="work", handler=work, concurrency=8)], grace_s=1.0)
        )
        await asyncio.wait_for(running.wait(), 30)
        for _ in range(rounds):
            await asyncio.sleep(0.3)
            await jobs.enqueue(quiet_conn, "work", {})
            committed = time.perf_counter()
            bell.ring(quiet)
            waits.append(await woken.after(committed))
        left = await busy_conn.fetchval("SELECT count(*) FROM processing_jobs WHERE status = 'pending'")
        assert left > 0, "the backlog was too small to say anything"
    await clear(stage, busy)
    report("fairness", quiet_tenant_ms=round(max(waits), 1), backlog_left=left)


@dataclass(slots=True)
class Sessions:
    """The most sessions of the worker, and of those that listen, that were seen at once."""

    most: int = 0
    most_listening: int = 0


@asynccontextmanager
async def _watched(stage: Stage) -> AsyncIterator[Sessions]:
    """Count the worker's sessions every 50 ms."""
    seen = Sessions()
    sql = """
        SELECT count(*), count(*) FILTER (WHERE application_name = 'nexarch-worker-bus')
        FROM pg_stat_activity
        WHERE application_name IN ('bench-worker', 'bench-worker-bell', 'nexarch-worker-bus')
    """

    async def watch() -> None:
        async with connected(stage.cluster.superuser_dsn) as conn:
            while True:
                number, listening = await conn.fetchrow(sql) or (0, 0)
                seen.most = max(seen.most, number)
                seen.most_listening = max(seen.most_listening, listening)
                await asyncio.sleep(0.05)

    task = asyncio.create_task(watch())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _quiet(registry: CollectorRegistry) -> None:
    """The look at all tenants that comes with the start is over."""
    calm = 0
    await asyncio.sleep(1)
    async with asyncio.timeout(_BURST_TIMEOUT_S):
        while calm < 20:
            await asyncio.sleep(0.1)
            calm = 0 if registry.get_sample_value("nexarch_jobs_due_tenants") else calm + 1


async def _let_disk_rest(stage: Stage) -> None:
    """Bring the databases that were just made to the disk: else every commit waits for them now and then."""
    async with connected(stage.cluster.superuser_dsn) as conn:
        await conn.execute("CHECKPOINT")
    await asyncio.to_thread(os.sync)


async def _cpu_pct(seconds: float) -> float:
    """The share of one core that this process takes while nothing is to be done."""
    begin, used = time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    return 100 * (time.process_time() - used) / (time.perf_counter() - begin)
