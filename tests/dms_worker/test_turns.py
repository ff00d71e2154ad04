"""A tenant's turn: it ends its long claims in time, and lets go of the pool whatever happens."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

import pytest
from prometheus_client import CollectorRegistry

from dms_worker.job_types import JobContext, JobType
from dms_worker.sweep import KnownTenant
from dms_worker.worker import Worker, WorkerOptions
from nexarch import jobs
from nexarch.db import Connection, Pool, connect, create_pool, open_pool
from nexarch.jobs import NewJob
from support import database
from support.acme_jobs import task
from support.database import Cluster
from support.waiting import eventually
from support.working import working

pytestmark = pytest.mark.database


async def test_what_a_dead_worker_held_is_taken_back_in_the_middle_of_one_long_turn(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    lost_ran = asyncio.Event()

    async def note(ctx: JobContext) -> None:
        if ctx.job.payload.get("lost"):
            lost_ran.set()

    async def keep_full() -> None:
        while True:
            waiting = await conn.fetchval("SELECT count(*) FROM processing_jobs WHERE status = 'pending'")
            if waiting < 5000:
                await jobs.enqueue_many(conn, [NewJob("task", {}, priority=-1) for _ in range(5000)])
            await asyncio.sleep(0)

    await jobs.enqueue(conn, "task", {"lost": True}, priority=10)
    await jobs.claim(conn, "dead", {"task": 1})
    await jobs.enqueue_many(conn, [NewJob("task", {}, priority=-1) for _ in range(5000)])
    filling = asyncio.create_task(keep_full())
    # Claims are short and slots plenty, so the turn goes on for as long as there are jobs: a lock that goes stale
    # meanwhile (it was good at the first look) is found only because the turn ends for it.
    types = [JobType(name="task", handler=note, concurrency=2000)]
    async with working(types, {"acme": tenant_dsn}, bus_dsn, concurrency=2000, batch=20, stale_after_s=1.5):
        try:
            await asyncio.wait_for(lost_ran.wait(), 20)
            filled_until_then = not filling.done()
        finally:
            filling.cancel()
            await asyncio.gather(filling, return_exceptions=True)

    assert filled_until_then


async def test_a_turn_that_gets_no_connection_lets_go_of_the_pool(bus_dsn: str) -> None:
    users = 0
    registry = CollectorRegistry()

    @asynccontextmanager
    async def pool_for(_tenant: str) -> AsyncIterator[Pool]:
        nonlocal users
        dsn = f"postgresql://nobody@127.0.0.1:{database.free_port()}/nowhere"
        async with create_pool(dsn, max_size=1, application_name="tests") as pool:
            users += 1
            try:
                yield pool
            finally:
                users -= 1

    async def directory() -> Sequence[KnownTenant]:
        return [KnownTenant("acme", None)]

    async def never(_ctx: JobContext) -> None:
        raise AssertionError("there is no job")

    async def failed_twice() -> bool:
        return (registry.get_sample_value("nexarch_jobs_failed_turns_total") or 0) >= 2

    worker = Worker(
        [JobType(name="task", handler=never)],
        bus_dsn=bus_dsn,
        pool_for=pool_for,
        directory=directory,
        ring=lambda _tenant: None,
        registry=registry,
    )
    async with worker:
        await eventually(failed_twice)

    assert users == 0


async def test_ends_that_neither_the_turn_nor_the_other_session_could_write_are_written_later(
    conn: Connection, bus_dsn: str, tenant_dsn: str, tenant_owner_dsn: str
) -> None:
    registry = CollectorRegistry()

    async def nothing(_ctx: JobContext) -> None:
        pass

    async def turns_failed() -> bool:
        return (registry.get_sample_value("nexarch_jobs_failed_turns_total") or 0) >= 2

    async def all_are_done() -> bool:
        return bool(await conn.fetchval("SELECT bool_and(status = 'succeeded') FROM processing_jobs"))

    owner = await connect(tenant_owner_dsn, application_name="tests")
    await owner.execute("""
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no end'; END $$;
        CREATE TRIGGER no_end BEFORE UPDATE ON processing_jobs FOR EACH ROW
            WHEN (NEW.status = 'succeeded') EXECUTE FUNCTION refuse();
    """)
    await jobs.enqueue_many(conn, [NewJob("task", {}) for _ in range(40)])
    types = [JobType(name="task", handler=nothing, concurrency=100)]
    async with working(types, {"acme": tenant_dsn}, bus_dsn, registry=registry, concurrency=100, batch=10):
        await eventually(turns_failed)
        await owner.execute("DROP TRIGGER no_end ON processing_jobs")

        await eventually(all_are_done)
    await owner.close()

    assert await conn.fetchval("SELECT max(attempts) FROM processing_jobs") == 1


async def test_a_database_that_did_not_answer_holds_up_one_slot_from_then_on(
    conn: Connection, bus_dsn: str, tenant_dsn: str, tenant_owner_dsn: str, cluster: Cluster
) -> None:
    registry = CollectorRegistry()
    entered = asyncio.Event()

    async def enter(_ctx: JobContext) -> None:
        entered.set()

    def failed_turns() -> float:
        return registry.get_sample_value("nexarch_jobs_failed_turns_total") or 0

    async def newest_claim_that_waits() -> datetime | None:
        sql = """
            SELECT max(query_start)
            FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'
        """
        at: datetime | None = await conn.fetchval(sql)
        return at

    async def a_claim_waits() -> bool:
        return await newest_claim_that_waits() is not None

    async def another_waits() -> bool:
        return failed_turns() > 0 and await newest_claim_that_waits() not in {None, first}

    owner = await connect(tenant_owner_dsn, application_name="tests-owner")
    types = [JobType(name="task", handler=enter, concurrency=2)]
    async with database.own_tenant(cluster) as other_tenant, owner.transaction():
        await owner.execute("LOCK TABLE processing_jobs")
        tenants = {"acme": tenant_dsn, "other": other_tenant.dsn}
        async with working(types, tenants, bus_dsn, registry=registry, concurrency=2, turn_timeout_s=3) as worker:
            await eventually(a_claim_waits)
            first = await newest_claim_that_waits()
            await eventually(another_waits)
            failed = failed_turns()
            other = await connect(other_tenant.dsn, application_name="tests")

            await jobs.enqueue(other, "task", {})
            worker.look_at("other")

            await asyncio.wait_for(entered.wait(), 10)
            failed_until_then = failed_turns()
            await other.close()
    await owner.close()

    assert failed_until_then == failed  # that claim was waiting still


async def test_a_turn_that_found_no_free_slot_is_no_answer_of_a_database_that_did_not_answer_before(
    conn: Connection, bus_dsn: str, tenant_dsn: str, cluster: Cluster
) -> None:
    visits = 0
    arriving, may_arrive, left, both_run = (asyncio.Event() for _ in range(4))
    entered: list[JobContext] = []

    async def work(ctx: JobContext) -> None:
        entered.append(ctx)
        if len(entered) == 2:
            both_run.set()
        await asyncio.Event().wait()

    async def directory() -> Sequence[KnownTenant]:
        return [KnownTenant("acme", None)]

    @asynccontextmanager
    async def pool_for(tenant: str) -> AsyncIterator[Pool]:
        nonlocal visits
        if tenant == "other":
            yield others
            return
        visits += 1
        if visits == 2:
            arriving.set()
            await may_arrive.wait()
        yield nowhere if visits == 1 else acmes
        if visits == 2:
            left.set()

    async def others_claim_waits() -> bool:
        sql = """
            SELECT EXISTS (
                SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
            )
        """
        return bool(await others.fetchval(sql))

    await jobs.enqueue_many(conn, [NewJob("task", {}) for _ in range(2)])
    nowhere_dsn = f"postgresql://nobody@127.0.0.1:{database.free_port()}/nowhere"
    async with (
        database.own_tenant(cluster) as other,
        open_pool(nowhere_dsn, max_size=1, application_name="tests") as nowhere,
        open_pool(tenant_dsn, max_size=4, application_name="tests") as acmes,
        open_pool(other.dsn, max_size=4, application_name="tests") as others,
        open_pool(other.owner_dsn, max_size=1, application_name="tests-owner") as owners,
        owners.acquire() as owner,
        Worker(
            [task(work)],
            bus_dsn=bus_dsn,
            pool_for=pool_for,
            directory=directory,
            ring=lambda _tenant: None,
            registry=CollectorRegistry(),
            options=WorkerOptions(concurrency=2, turn_timeout_s=20.0, grace_s=0.0),
        ) as worker,
    ):
        # Its first turn failed. In the second slots are free at the start, but taken when it has its connection: by the
        # claim of another tenant, which waits, finds nothing, and gives both back at once.
        await asyncio.wait_for(arriving.wait(), 20)
        async with owner.transaction():
            await owner.execute("LOCK TABLE processing_jobs")
            worker.look_at("other")
            await eventually(others_claim_waits)
            may_arrive.set()
            await asyncio.wait_for(left.wait(), 20)

        await asyncio.wait_for(both_run.wait(), 20)

        one_by_one = await conn.fetchval("SELECT count(DISTINCT locked_at) FROM processing_jobs")
    assert one_by_one == 2


async def test_the_jobs_of_a_claim_are_run_though_the_next_one_that_was_sent_ahead_of_them_fails(
    conn: Connection, bus_dsn: str, tenant_dsn: str, tenant_owner_dsn: str
) -> None:
    entered: set[int] = set()

    async def work(ctx: JobContext) -> None:
        entered.add(ctx.job.payload["place"])

    async def all_before_it_are_run() -> bool:
        return entered >= set(range(30))

    async def all_are_done() -> bool:
        return bool(await conn.fetchval("SELECT bool_and(status = 'succeeded') FROM processing_jobs"))

    owner = await connect(tenant_owner_dsn, application_name="tests")
    await owner.execute("""
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
        CREATE TRIGGER no_claim BEFORE UPDATE ON processing_jobs FOR EACH ROW
            WHEN (NEW.status = 'processing' AND NEW.payload ->> 'place' = '35') EXECUTE FUNCTION refuse();
    """)
    await jobs.enqueue_many(conn, [NewJob("task", {"place": place}) for place in range(40)])
    # The first turn claims once, and then looks at the locks; the second claims from place 10, ahead
    # from 20, and ahead from 30 together with the ends of those from 10.
    async with working([task(work, concurrency=100)], {"acme": tenant_dsn}, bus_dsn, concurrency=100, batch=10):
        await eventually(all_before_it_are_run)
        await owner.execute("DROP TRIGGER no_claim ON processing_jobs")

        await eventually(all_are_done)
    await owner.close()

    assert await conn.fetchval("SELECT max(attempts) FROM processing_jobs") == 1


@pytest.mark.parametrize("busy", ["acme", "both"])
async def test_what_a_dead_worker_held_is_taken_back_though_the_backlog_never_ends(
    conn: Connection, bus_dsn: str, tenant_dsn: str, cluster: Cluster, busy: str
) -> None:
    lost_ran = asyncio.Event()

    async def one_more(ctx: JobContext) -> None:
        if ctx.job.payload.get("lost"):
            lost_ran.set()
        await asyncio.sleep(0.01)
        async with ctx.pool.acquire() as own:
            await jobs.enqueue(own, "task", {}, priority=-1)

    await jobs.enqueue(conn, "task", {"lost": True}, priority=10)
    await jobs.claim(conn, "dead", {"task": 1})
    await conn.execute("UPDATE processing_jobs SET locked_at = now() - interval '1 hour'")
    async with database.own_tenant(cluster) as other:
        other_conn = await connect(other.dsn, application_name="tests")
        for each in [conn] if busy == "acme" else [conn, other_conn]:
            await jobs.enqueue_many(each, [NewJob("task", {}) for _ in range(300)])
        await other_conn.close()
        tenants = {"acme": tenant_dsn, "other": other.dsn}
        async with working([task(one_more)], tenants, bus_dsn, concurrency=1, stale_after_s=3.0):
            await asyncio.wait_for(lost_ran.wait(), 10)
