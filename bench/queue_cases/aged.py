"""A queue that has seen a million jobs, next to one that has seen none."""

import asyncio
import time
from collections.abc import Sequence
from uuid import UUID

from bench.queue_cases import ours
from bench.queue_cases.report import median, percentile, ratio, report
from bench.queue_cases.stage import Stage, connected
from bench.queue_cases.throughput import ROUNDS, clear, drain_per_s
from bench.queue_cases.waking import our_worker
from dms_worker.job_types import JobContext, JobType
from nexarch import jobs
from nexarch.doorbell import Doorbell
from nexarch.jobs import NewJob

_CHUNK = 20_000  # jobs that are added at once
_KEPT_S = 5.0  # after so long a finished job is pruned
_VACUUMS = """
    SELECT autovacuum_count, EXISTS (SELECT FROM pg_stat_progress_vacuum WHERE datname = current_database())
    FROM pg_stat_user_tables
    WHERE relname = 'processing_jobs'
"""
_Both = tuple[Sequence[float], Sequence[float]]  # of the aged tenant, and of the fresh one


async def drain_after_1m(stage: Stage, *, run: int, drained: int, wakes: int) -> None:
    """So many jobs run in one tenant while those that ended are pruned; then it and a fresh one are used in turns.

    At once, while the rows that are no more still stand in the index, and once autovacuum has been there.
    """
    aged, fresh = await stage.add_tenants("age", 2)
    pruned = await _run(stage, aged, run)
    rates_at_once = await _rates(stage, aged, fresh, drained)
    waits_at_once = await _waits(stage, aged, fresh, wakes)
    async with connected(stage.tenant_dsn(aged, owner=True)) as conn:
        vacuums_before, _ = await conn.fetchrow(_VACUUMS) or (0, False)
    waited_s = await _autovacuumed(stage, aged)
    rates = await _rates(stage, aged, fresh, drained)
    waits = await _waits(stage, aged, fresh, wakes)
    async with connected(stage.tenant_dsn(aged, owner=True)) as conn:
        rows_left = await conn.fetchval("SELECT count(*) FROM processing_jobs")
        due_index = await conn.fetchval("SELECT pg_relation_size('processing_jobs_due')")
    await clear(stage, aged)
    report(
        "drain_after_1m",
        jobs_run=run,
        pruned=pruned,
        rows_left=rows_left,
        due_index_kb=due_index // 1024,
        vacuums_before=vacuums_before,
        autovacuum_after_s=round(waited_s),
        **_figures(rates_at_once, waits_at_once, "_at_once"),
        **_figures(rates, waits, ""),
    )


def _figures(rates: _Both, waits: _Both, when: str) -> dict[str, float]:
    return {
        f"aged{when}_per_s": round(median(rates[0])),
        f"fresh{when}_per_s": round(median(rates[1])),
        f"ratio{when}": ratio(*rates),
        f"wake{when}_p50_ms": round(median(waits[0]), 2),
        f"wake{when}_p99_ms": round(percentile(waits[0], 99), 2),
        f"fresh_wake{when}_p50_ms": round(median(waits[1]), 2),
        f"wake_ratio{when}_p50": round(median(waits[0]) / median(waits[1]), 2),
    }


async def _rates(stage: Stage, aged: str, fresh: str, number: int) -> _Both:
    """Jobs a second of the aged tenant and of the fresh one, round by round."""
    rates: list[float] = []
    fresh_rates: list[float] = []
    for _ in range(ROUNDS):
        await clear(stage, fresh)
        fresh_rates.append(await drain_per_s(stage, fresh, number))
        rates.append(await drain_per_s(stage, aged, number))
    return rates, fresh_rates


async def _waits(stage: Stage, aged: str, fresh: str, number: int) -> _Both:
    """Milliseconds of so many wakes of the aged tenant and of the fresh one, ten by ten."""
    await clear(stage, fresh)
    waits: list[float] = []
    fresh_waits: list[float] = []
    async with our_worker(stage, [aged, fresh]) as (aged_once, fresh_once):
        for _ in range(max(1, number // 10)):
            fresh_waits += [await fresh_once() for _ in range(10)]
            waits += [await aged_once() for _ in range(10)]
    return waits, fresh_waits


async def _autovacuumed(stage: Stage, tenant: str) -> float:
    """Wait until autovacuum has been at the tenant's jobs once more and is through; how long that took."""
    begin = time.monotonic()
    async with connected(stage.tenant_dsn(tenant, owner=True)) as conn:
        seen, _ = await conn.fetchrow(_VACUUMS) or (0, False)
        async with asyncio.timeout(600):
            while True:
                await asyncio.sleep(1)
                count, running = await conn.fetchrow(_VACUUMS) or (0, False)
                if count > seen and not running:
                    return time.monotonic() - begin


async def _run(stage: Stage, tenant: str, number: int) -> int:
    """Have a worker run so many jobs that do nothing, added while it runs; how many were pruned meanwhile."""
    done = 0
    waiting = asyncio.Semaphore(2)  # chunks that are not done yet

    async def noop(_ctx: JobContext) -> None:
        nonlocal done
        done += 1
        if not done % _CHUNK:
            waiting.release()

    async with (
        connected(stage.tenant_dsn(tenant)) as conn,
        Doorbell(stage.bus_dsn, application_name="bench-bell") as bell,
        ours.working(stage, [tenant], [JobType(name="noop", handler=noop, concurrency=2000)], concurrency=2000),
    ):
        pruning = asyncio.create_task(_prune(stage, tenant))
        for _ in range(number // _CHUNK):
            await waiting.acquire()
            await jobs.enqueue_many(conn, [NewJob("noop", {}) for _ in range(_CHUNK)])
            bell.ring(tenant)
        for _ in range(2):
            await waiting.acquire()
        pruning.cancel()
        await asyncio.gather(pruning, return_exceptions=True)
        left = await conn.fetchval("SELECT count(*) FROM processing_jobs")
    return number - int(left)


async def _prune(stage: Stage, tenant: str) -> None:
    """Delete what ended a while ago, a thousand rows at a time, until cancelled."""
    async with connected(stage.tenant_dsn(tenant)) as conn:
        after: UUID | None = None
        while True:
            pruned = await jobs.prune(conn, finished_after_s=_KEPT_S, dead_after_s=_KEPT_S, after=after)
            after = pruned.go_on_after
            await asyncio.sleep(0 if after else 0.2)
