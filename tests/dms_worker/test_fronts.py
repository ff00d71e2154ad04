"""What was claimed stands in the index until a vacuum, and neither a backlog nor lone jobs read it again and again."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from dms_worker.job_types import JobContext, JobType
from nexarch import jobs
from nexarch.db import Connection, connect
from nexarch.doorbell import Doorbell
from nexarch.jobs import NewJob
from support.acme_jobs import Entries, all_done, enqueue_and_ring, task
from support.waiting import eventually
from support.working import working

pytestmark = pytest.mark.database

LONG_AGO = datetime.now(UTC) - timedelta(hours=1)


async def nothing(_ctx: JobContext) -> None:
    pass


@asynccontextmanager
async def old_snapshot(dsn: str) -> AsyncIterator[None]:
    """A forgotten transaction: while it is open, no vacuum and no reader can take away what it might see."""
    conn = await connect(dsn, application_name="tests-old")
    async with conn.transaction(isolation="repeatable_read"):
        await conn.fetchval("SELECT count(*) FROM processing_jobs")
        yield
    await conn.close()


async def entries_read(conn: Connection) -> int:
    """How many entries of the index of due jobs were read, by sessions that have ended and by those at rest."""
    await conn.execute("SELECT pg_stat_clear_snapshot()")
    sql = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'processing_jobs_due'"
    number: int = await conn.fetchval(sql)
    return number


async def settled_entries_read(conn: Connection) -> int:
    """The same once it stands still: a session tells what it has read when it ends, or a second later."""
    seen = -1

    async def stands_still() -> bool:
        nonlocal seen
        before, seen = seen, await entries_read(conn)
        await asyncio.sleep(0.3)
        return seen == before

    await eventually(stands_still)
    return seen


async def test_a_claim_in_a_backlog_begins_where_the_one_before_ended_though_no_job_has_ended_yet(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    number, batch = 2000, 20
    entered = 0
    all_entered = asyncio.Event()

    async def wait_for_all(_ctx: JobContext) -> None:
        nonlocal entered
        entered += 1
        if entered == number:
            all_entered.set()
        await all_entered.wait()

    await jobs.enqueue_many(conn, [NewJob("task", {"place": place}) for place in range(number)])
    place = "SET available_at = now() - interval '1 day' + make_interval(secs => (payload ->> 'place')::int)"
    await conn.execute(f"UPDATE processing_jobs {place}")
    before = await settled_entries_read(conn)
    types = [task(wait_for_all, concurrency=number)]
    async with (
        old_snapshot(tenant_dsn),
        working(types, {"acme": tenant_dsn}, bus_dsn, concurrency=number, batch=batch),
    ):
        await all_done(conn)

    read = await settled_entries_read(conn) - before

    # From the first job each time they were number² / batch / 2: 100,000.
    assert number <= read < 15 * number


async def test_lone_jobs_read_what_was_claimed_before_them_once_a_second_at_most(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    number, lone = 2000, 40
    entries = Entries()
    async with old_snapshot(tenant_dsn):
        await jobs.enqueue_many(conn, [NewJob("task", {}, run_at=LONG_AGO) for _ in range(number)])
        await jobs.complete(conn, await jobs.claim(conn, "tests", {"task": number}))
        before = await settled_entries_read(conn)
        started = time.monotonic()
        async with working([task(entries)], {"acme": tenant_dsn}, bus_dsn):
            for _ in range(lone):
                await enqueue_and_ring(conn, bell)
                await entries.next()
            await all_done(conn)
        seconds = time.monotonic() - started

        read = await settled_entries_read(conn) - before

    # At the start a claim, a look and the count of all; a job that read all of it would do so twice.
    assert read < number * (4 + 3 * seconds)


async def test_what_comes_to_stand_where_nothing_waited_is_run_too(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    entries = Entries()
    async with working([task(entries)], {"acme": tenant_dsn}, bus_dsn):
        await enqueue_and_ring(conn, bell)
        first = await entries.next()
        async with conn.transaction():
            late = [await jobs.enqueue(conn, "task", {}, run_at=LONG_AGO, priority=priority) for priority in (5, 0, -5)]
            lone = await jobs.enqueue(conn, "task", {})
        bell.ring("acme")

        entered = {await entries.next() for _ in range(4)}

    assert first not in entered
    assert entered == {lone, *late}


async def test_what_comes_to_stand_where_nothing_waited_is_run_though_another_type_has_a_backlog(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    lone, in_backlog = Entries(), 0

    async def one_more(ctx: JobContext) -> None:
        nonlocal in_backlog
        in_backlog += 1
        async with ctx.pool.acquire() as own:
            await jobs.enqueue(own, "task", {})

    types = [task(one_more, concurrency=4), JobType(name="other", handler=lone)]
    async with working(types, {"acme": tenant_dsn}, bus_dsn):
        await jobs.enqueue(conn, "other", {})
        bell.ring("acme")
        await lone.next()
        async with conn.transaction():
            await jobs.enqueue_many(conn, [NewJob("task", {}) for _ in range(100)])
            await jobs.enqueue(conn, "other", {}, run_at=LONG_AGO)
        bell.ring("acme")

        await lone.next(within_s=5.0)  # a look is due after one

    assert in_backlog > 100


@pytest.mark.parametrize("others", [0, 6])
async def test_jobs_of_many_types_and_few_slots_read_what_was_claimed_before_them_once_a_second_at_most(
    conn: Connection, bus_dsn: str, tenant_dsn: str, others: int
) -> None:
    number, jobs_more = 2000, 300
    types = [task(nothing, concurrency=1 if not others else 4)]
    types += [JobType(name=f"other{place}", handler=nothing) for place in range(others)]
    async with old_snapshot(tenant_dsn):
        await jobs.enqueue_many(conn, [NewJob("task", {}, run_at=LONG_AGO) for _ in range(number)])
        await jobs.complete(conn, await jobs.claim(conn, "tests", {"task": number}))
        before = await settled_entries_read(conn)
        async with working(types, {"acme": tenant_dsn}, bus_dsn, concurrency=4, tenant_concurrency=3) as worker:
            for _ in range(jobs_more):
                await jobs.enqueue(conn, "task", {})
            started = time.monotonic()
            worker.look_at("acme")
            await all_done(conn)
        seconds = time.monotonic() - started

        read = await settled_entries_read(conn) - before

    # Each claim from the first job would read all of it.
    assert read < number * (10 + 4 * seconds) + jobs_more * jobs_more
