"""How long a lone job waits: from its commit on an idle system until its handler is entered."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from bench.queue_cases import floor, ours
from bench.queue_cases.report import median, percentile, report
from bench.queue_cases.stage import Stage, connected
from bench.queue_cases.throughput import clear
from dms_worker.job_types import JobContext, JobType
from nexarch import jobs
from nexarch.db import Connection
from nexarch.doorbell import Doorbell

_PAUSE_S = 0.02  # between two jobs, so that the system is idle again
Once = Callable[[], Awaitable[float]]  # one job from its commit to its entry, in milliseconds


class Woken:
    """Who is woken says when; who waits for it gets the time."""

    def __init__(self) -> None:
        self._entered: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def enter(self) -> None:
        """The job has begun."""
        if not self._entered.done():
            self._entered.set_result(time.perf_counter())

    async def after(self, committed: float) -> float:
        """Milliseconds from the commit to the entry; for ever if there is none: a timer here would be measured too."""
        entered = await self._entered
        self._entered = asyncio.get_running_loop().create_future()
        await asyncio.sleep(_PAUSE_S)
        return (entered - committed) * 1000


async def wake(stage: Stage, tenant: str, *, case: str, number: int, finished: int = 0) -> None:
    """Ours by the doorbell, the floor by a NOTIFY in a second database; in turns of ten."""
    await clear(stage, tenant)
    if finished:
        await _fill_with_finished(stage, tenant, finished)
    waits: list[float] = []
    floor_waits: list[float] = []
    async with AsyncExitStack() as stack:
        bare = await stack.enter_async_context(_floor_worker(stage, tenant))
        (ours_once,) = await stack.enter_async_context(our_worker(stage, [tenant]))
        for _ in range(max(1, number // 10)):
            floor_waits += [await bare() for _ in range(10)]
            waits += [await ours_once() for _ in range(10)]
    await clear(stage, tenant)
    report(
        case,
        p50_ms=round(median(waits), 2),
        p99_ms=round(percentile(waits, 99), 2),
        floor_p50_ms=round(median(floor_waits), 2),
        floor_p99_ms=round(percentile(floor_waits, 99), 2),
        ratio_p50=round(median(waits) / median(floor_waits), 2),
    )


@asynccontextmanager
async def our_worker(stage: Stage, tenants: Sequence[str]) -> AsyncIterator[list[Once]]:
    """A worker at rest that serves these tenants; for each of them what wakes it once."""
    woken = Woken()

    async def noop(_ctx: JobContext) -> None:
        woken.enter()

    async with AsyncExitStack() as stack:
        bell = await stack.enter_async_context(Doorbell(stage.bus_dsn, application_name="bench-bell"))
        await stack.enter_async_context(ours.working(stage, tenants, [JobType(name="noop", handler=noop)]))

        async def once(tenant: str, conn: Connection) -> float:
            await jobs.enqueue(conn, "noop", {})
            committed = time.perf_counter()
            bell.ring(tenant)
            return await woken.after(committed)

        each: list[Once] = []
        for tenant in tenants:
            conn = await stack.enter_async_context(connected(stage.tenant_dsn(tenant)))
            await once(tenant, conn)
            each.append(partial(once, tenant, conn))
        yield each


@asynccontextmanager
async def _floor_worker(stage: Stage, tenant: str) -> AsyncIterator[Once]:
    woken = Woken()
    rung = asyncio.Event()

    async def work(conn: Connection) -> None:
        while True:
            await rung.wait()
            rung.clear()
            ids = await floor.claim(conn)
            if ids:
                woken.enter()
                await floor.complete(conn, ids)

    owner_dsn = stage.tenant_dsn(tenant, owner=True)
    async with (
        connected(owner_dsn) as conn,
        connected(owner_dsn) as working,
        connected(stage.floor_bus_dsn) as bell,
        connected(stage.floor_bus_dsn) as listening,
    ):
        await floor.prepare(working)
        await bell.execute("SET synchronous_commit = off")
        await listening.add_listener("floor", lambda *_: rung.set())
        task = asyncio.create_task(work(working))

        async def once() -> float:
            await floor.enqueue(conn)
            committed = time.perf_counter()
            await bell.execute("NOTIFY floor, 'acme'")
            return await woken.after(committed)

        await once()
        yield once
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _fill_with_finished(stage: Stage, tenant: str, number: int) -> None:
    """Rows of jobs that are done, in our table and in the floor's."""
    async with connected(stage.tenant_dsn(tenant, owner=True)) as conn:
        await floor.prepare(conn)
        await floor.fill_with_finished(conn, number)
        sql = """
            INSERT INTO processing_jobs (job_type, payload, status, finished_at)
            SELECT 'noop', '{}', 'succeeded', now()
            FROM generate_series(1, $1::integer)
        """
        await conn.execute(sql, number)
