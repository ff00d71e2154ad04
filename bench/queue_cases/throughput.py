"""How many jobs a second go in, and come out."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from prometheus_client import CollectorRegistry

from bench.queue_cases import floor, ours, pgqueuer_peer
from bench.queue_cases.report import median, ratio, report
from bench.queue_cases.stage import Stage, connected
from dms_worker.job_types import JobContext, JobType
from nexarch import jobs
from nexarch.db import Connection
from nexarch.jobs import NewJob

ROUNDS = 5


async def enqueue_single(stage: Stage, tenant: str, *, number: int) -> None:
    """One after the other, each in a transaction of its own."""

    async def ours_once(conn: Connection) -> None:
        await jobs.enqueue(conn, "noop", {})

    async with connected(stage.tenant_dsn(tenant)) as conn, connected(stage.tenant_dsn(tenant, owner=True)) as bare:
        await floor.prepare(bare)
        rates: list[float] = []
        floor_rates: list[float] = []
        # Short turns, many of them: the disk is as noisy as the processor.
        for _ in range(ROUNDS * 4):
            floor_rates.append(await _rate(floor.enqueue, bare, number // 4))
            rates.append(await _rate(ours_once, conn, number // 4))
    await clear(stage, tenant)
    report(
        "enqueue_single",
        ours_per_s=round(median(rates)),
        floor_per_s=round(median(floor_rates)),
        ratio=ratio(rates, floor_rates),
    )


async def enqueue_many(stage: Stage, tenant: str, *, number: int) -> None:
    """All in one statement."""
    new = [NewJob("noop", {}) for _ in range(number)]
    async with connected(stage.tenant_dsn(tenant)) as conn, connected(stage.tenant_dsn(tenant, owner=True)) as bare:
        await floor.prepare(bare)
        rates: list[float] = []
        floor_rates: list[float] = []
        for _ in range(ROUNDS):
            await floor.clear(bare)
            begin = time.perf_counter()
            await floor.enqueue_many(bare, number)
            floor_rates.append(number / (time.perf_counter() - begin))
            await clear(stage, tenant)
            begin = time.perf_counter()
            await jobs.enqueue_many(conn, new)
            rates.append(number / (time.perf_counter() - begin))
    await clear(stage, tenant)
    report(
        "enqueue_many",
        ours_per_s=round(median(rates)),
        floor_per_s=round(median(floor_rates)),
        ratio=ratio(rates, floor_rates),
    )


async def drain(stage: Stage, tenant: str, *, number: int) -> None:
    """A backlog of jobs that do nothing, by one worker process."""
    rates: list[float] = []
    floor_rates: list[float] = []
    peer_rates: list[float] = []
    await stage.add_tenant("peer")
    peer_dsn = stage.tenant_dsn("peer", owner=True)
    await pgqueuer_peer.install(peer_dsn)
    async with connected(stage.tenant_dsn(tenant, owner=True)) as bare:
        await floor.prepare(bare)
        for _ in range(ROUNDS):
            floor_rates.append(await _drain_floor(bare, number))
            await clear(stage, tenant)
            rates.append(await drain_per_s(stage, tenant, number))
            peer_rates.append(await pgqueuer_peer.drain_per_s(peer_dsn, number))
    report(
        "drain",
        ours_per_s=round(median(rates)),
        floor_per_s=round(median(floor_rates)),
        ratio=ratio(rates, floor_rates),
        pgqueuer_per_s=round(median(peer_rates)),
        pgqueuer_ratio=ratio(rates, peer_rates),
    )


async def clear(stage: Stage, tenant: str) -> None:
    """Remove all our jobs."""
    async with connected(stage.tenant_dsn(tenant, owner=True)) as conn:
        await conn.execute("TRUNCATE processing_jobs CASCADE")


async def _rate(once: Callable[[Connection], Awaitable[None]], conn: Connection, number: int) -> float:
    begin = time.perf_counter()
    for _ in range(number):
        await once(conn)
    return number / (time.perf_counter() - begin)


async def _drain_floor(conn: Connection, number: int) -> float:
    await floor.clear(conn)
    await floor.enqueue_many(conn, number)
    entered = 0

    def enter() -> None:
        nonlocal entered
        entered += 1

    begin = time.perf_counter()
    await floor.drain(conn, enter)
    seconds = time.perf_counter() - begin
    assert entered == number, (entered, number)
    return number / seconds


async def drain_per_s(stage: Stage, tenant: str, number: int) -> float:
    """Our rate from the first job's entry, so without the start of the process, until all are known as done.

    The worker counts a job when the commit of its end is answered; the rows are asked when the clock has stopped.
    """
    registry = CollectorRegistry()

    def ended() -> float:
        labels = {"job_type": "noop", "outcome": "succeeded"}
        return registry.get_sample_value("nexarch_jobs_finished_total", labels) or 0.0

    async with connected(stage.tenant_dsn(tenant)) as conn:
        await jobs.enqueue_many(conn, [NewJob("noop", {}) for _ in range(number)])
        entered = 0
        all_entered = asyncio.Event()

        begin = 0.0

        async def noop(_ctx: JobContext) -> None:
            nonlocal entered, begin
            begin = begin or time.perf_counter()
            entered += 1
            if entered == number:
                all_entered.set()

        noops = [JobType(name="noop", handler=noop, concurrency=2000)]
        async with ours.working(stage, [tenant], noops, registry=registry, concurrency=2000):
            await all_entered.wait()
            while ended() < number:  # noqa: ASYNC110 - a look at a counter costs less than an event a batch
                await asyncio.sleep(0.0005)
            seconds = time.perf_counter() - begin
            left = await conn.fetchval("SELECT count(*) FROM processing_jobs WHERE status IN ('pending', 'processing')")
        assert (entered, left) == (number, 0), (entered, left)
        return number / seconds
