"""Connections are cut, go deaf, and the server restarts: the same worker process goes on, soon."""

import asyncio
import time
from functools import partial
from uuid import UUID

import pytest

from dms_worker.job_types import JobContext, JobType
from nexarch import jobs
from nexarch.db import Connection, connect
from nexarch.doorbell import Doorbell
from nexarch.postgres import PostgresServer
from support import database
from support.database import Cluster
from support.proxy import proxied
from support.waiting import eventually
from support.working import working

pytestmark = pytest.mark.database


class Handler:
    """Tells which jobs were entered, and uses the tenant's pool as a real handler does."""

    def __init__(self) -> None:
        self.entered: asyncio.Queue[tuple[UUID, float]] = asyncio.Queue()
        self.times = 0

    async def __call__(self, ctx: JobContext) -> None:
        self.times += 1
        self.entered.put_nowait((ctx.job.id, time.monotonic()))
        async with ctx.pool.acquire() as conn:
            await conn.fetchval("SELECT pg_sleep($1)", ctx.job.payload.get("seconds", 0.0))

    async def next(self, within_s: float) -> tuple[UUID, float]:
        return await asyncio.wait_for(self.entered.get(), within_s)


def task(handler: Handler) -> list[JobType]:
    return [JobType(name="task", handler=handler)]


async def test_after_the_bus_was_cut_again_and_again_a_ring_is_heard_in_milliseconds(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str, cluster: Cluster
) -> None:
    handler = Handler()
    superuser = await connect(cluster.superuser_dsn, application_name="tests")
    async with working(task(handler), {"acme": tenant_dsn}, bus_dsn) as worker:
        for _ in range(5):
            job_id = await jobs.enqueue(conn, "task", {})
            await superuser.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name IN ('tests-bell', 'nexarch-worker-bus')"
            )
            bell.ring("acme")
            assert (await handler.next(within_s=15))[0] == job_id

        waits = []
        for _ in range(20):
            await jobs.enqueue(conn, "task", {})
            committed = time.monotonic()
            bell.ring("acme")
            waits.append((await handler.next(within_s=15))[1] - committed)

        assert worker.listener.connections >= 2
    await superuser.close()
    assert sorted(waits)[10] < 0.1


async def test_postgres_restarts_under_a_running_job_and_the_worker_goes_on(
    postgres: PostgresServer, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    handler = Handler()
    async with working(task(handler), {"acme": tenant_dsn}, bus_dsn):
        before = await connect(tenant_dsn, application_name="tests")
        first = await jobs.enqueue(before, "task", {})
        bell.ring("acme")
        await handler.next(within_s=15)
        await asyncio.to_thread(postgres.stop)
        bell.ring("acme")

        await asyncio.to_thread(postgres.start)

        started = time.monotonic()
        after = await connect(tenant_dsn, application_name="tests")
        second = await jobs.enqueue(after, "task", {})
        bell.ring("acme")
        while (await handler.next(within_s=15))[0] != second:
            pass  # the first one may have been cut off and tried again
        assert time.monotonic() - started < 15
        assert (await jobs.get_job(after, first)).attempts <= 2
        await after.close()


async def worker_is_idle(conn: Connection) -> bool:
    """Whether the worker's sessions in this database have answered all that they were asked, some time ago."""
    sql = """
        SELECT bool_and(state = 'idle' AND state_change < clock_timestamp() - interval '300 ms')
        FROM pg_stat_activity
        WHERE application_name = 'tests-worker' AND datname = current_database()
    """
    return await conn.fetchval(sql) is True


async def test_connections_to_bus_and_tenant_that_went_deaf_are_replaced_within_fifteen_seconds(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    handler = Handler()
    async with (
        proxied(bus_dsn) as (deaf_bus_dsn, bus),
        proxied(tenant_dsn) as (deaf_tenant_dsn, tenant),
        working(task(handler), {"acme": deaf_tenant_dsn}, deaf_bus_dsn),
    ):
        # So many at once that the pool holds several connections.
        await jobs.enqueue_many(conn, [jobs.NewJob("task", {"seconds": 0.2}) for _ in range(4)])
        bell.ring("acme")
        for _ in range(4):
            await handler.next(within_s=15)
        await eventually(partial(worker_is_idle, conn))
        bus.swallow_everything()
        tenant.swallow_everything()

        job_id = await jobs.enqueue(conn, "task", {})
        bell.ring("acme")

        assert (await handler.next(within_s=15))[0] == job_id


async def test_a_tenant_whose_database_went_silent_costs_no_job_of_another_its_lock(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str, cluster: Cluster
) -> None:
    entered: list[str] = []

    async def long(ctx: JobContext) -> None:
        entered.append(ctx.tenant)
        await asyncio.sleep(3)  # not a wait: the job lasts longer than twice the stale time

    async with (
        database.own_tenant(cluster) as other,
        proxied(other.dsn) as (silent_dsn, proxy),
        working(
            [JobType(name="task", handler=long)], {"acme": tenant_dsn, "silent": silent_dsn}, bus_dsn, stale_after_s=1.5
        ),
    ):
        silent_conn = await connect(other.dsn, application_name="tests")
        await jobs.enqueue(silent_conn, "task", {})
        job_id = await jobs.enqueue(conn, "task", {})
        bell.ring("silent")
        bell.ring("acme")

        async def both_run() -> bool:
            return sorted(entered) == ["acme", "silent"]

        await eventually(both_run)
        proxy.swallow_everything()

        async def it_is_done() -> bool:
            return (await jobs.get_job(conn, job_id)).status == "succeeded"

        await eventually(it_is_done)
        await silent_conn.close()

    assert (await jobs.get_job(conn, job_id)).attempts == 1


async def test_a_tenants_connections_that_went_deaf_are_replaced_within_fifteen_seconds(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    handler = Handler()
    async with (
        proxied(tenant_dsn) as (deaf_dsn, proxy),
        working(task(handler), {"acme": deaf_dsn}, bus_dsn),
    ):
        await jobs.enqueue_many(conn, [jobs.NewJob("task", {"seconds": 0.2}) for _ in range(4)])
        bell.ring("acme")
        for _ in range(4):
            await handler.next(within_s=15)
        await eventually(partial(worker_is_idle, conn))
        proxy.swallow_everything()

        job_id = await jobs.enqueue(conn, "task", {})
        bell.ring("acme")

        assert (await handler.next(within_s=15))[0] == job_id
