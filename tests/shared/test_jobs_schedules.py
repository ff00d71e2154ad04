"""One job for each period, and finished jobs go in their time."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from uuid import UUID

import pytest

from nexarch import jobs
from nexarch.db import Connection, connect
from nexarch.jobs import NewJob

pytestmark = pytest.mark.database

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


@pytest.fixture
async def conn(tenant_conn: Connection) -> Connection:
    return tenant_conn


@pytest.fixture
async def committing(tenant_dsn: str) -> AsyncIterator[list[Connection]]:
    """Eight sessions that commit."""
    async with AsyncExitStack() as stack:
        conns = [await connect(tenant_dsn, application_name="tests") for _ in range(8)]
        for each in conns:
            stack.push_async_callback(each.close)
        yield conns


async def waiting(conn: Connection) -> int:
    number: int = await conn.fetchval("SELECT count(*) FROM processing_jobs WHERE status = 'pending'")
    return number


async def run_all(conn: Connection) -> None:
    await jobs.complete(conn, await jobs.claim(conn, "w1", {"round": 10}))


async def next_period(conn: Connection, seconds: float = HOUR_S) -> None:
    """Let the last job have been made a period ago."""
    await conn.execute("UPDATE job_schedules SET slot = slot - make_interval(secs => $1)", seconds)


@pytest.fixture
async def seen(conn: Connection) -> Connection:
    """A queue that a worker has looked at before, a period ago."""
    await jobs.begin_periods(conn, {"round": HOUR_S}, 0)
    await next_period(conn)
    return conn


async def test_a_period_has_one_job_however_often_workers_look(seen: Connection) -> None:
    for _ in range(3):
        await jobs.begin_periods(seen, {"round": HOUR_S}, 0)
        await run_all(seen)
    await next_period(seen)

    next_in_s = await jobs.begin_periods(seen, {"round": HOUR_S}, 0)

    assert 0 < next_in_s <= HOUR_S
    assert await waiting(seen) == 1
    assert await seen.fetchval("SELECT count(*) FROM processing_jobs") == 2


async def test_the_first_look_makes_no_job(conn: Connection) -> None:
    for _ in range(2):
        await jobs.begin_periods(conn, {"round": HOUR_S}, 0)

    assert await waiting(conn) == 0


async def test_eight_workers_that_look_at_the_same_moment_make_one_job(committing: list[Connection]) -> None:
    async def look(conn: Connection) -> None:
        await jobs.begin_periods(conn, {"round": HOUR_S}, 0)

    await look(committing[0])
    for _ in range(20):
        await next_period(committing[0])
        await asyncio.gather(*(look(each) for each in committing))
        await run_all(committing[0])

    assert await committing[0].fetchval("SELECT count(*) FROM processing_jobs") == 20


async def test_periods_that_no_worker_saw_begin_are_made_up_for_by_one_job(seen: Connection) -> None:
    await next_period(seen, 5 * HOUR_S)

    for _ in range(2):
        await jobs.begin_periods(seen, {"round": HOUR_S}, 0)

    assert await waiting(seen) == 1


async def test_a_job_that_waits_from_the_period_before_stands_for_both(seen: Connection) -> None:
    await jobs.begin_periods(seen, {"round": HOUR_S}, 0)
    await next_period(seen)

    await jobs.begin_periods(seen, {"round": HOUR_S}, 0)

    assert await waiting(seen) == 1


async def test_a_worker_that_dies_before_its_commit_leaves_the_period_to_the_next(
    committing: list[Connection],
) -> None:
    await jobs.begin_periods(committing[0], {"round": HOUR_S}, 0)
    await next_period(committing[0])
    transaction = committing[0].transaction()
    await transaction.start()
    await jobs.begin_periods(committing[0], {"round": HOUR_S}, 0)
    committing[0].terminate()

    await jobs.begin_periods(committing[1], {"round": HOUR_S}, 0)
    await jobs.begin_periods(committing[2], {"round": HOUR_S}, 0)

    assert await waiting(committing[1]) == 1


async def test_the_phase_says_when_in_the_period(conn: Connection) -> None:
    early = await jobs.begin_periods(conn, {"round": HOUR_S}, 0.0)
    late = await jobs.begin_periods(conn, {"round": HOUR_S}, 0.5)

    assert abs((late - early) % HOUR_S - HOUR_S / 2) < 1


# Pruning


async def finished(conn: Connection, status: str, age: timedelta, number: int = 1) -> None:
    """Jobs that ended so long ago, a minute after they were made."""
    sql = """
        INSERT INTO processing_jobs (id, job_type, payload, status, created_at, finished_at)
        SELECT uuidv7(-$2::interval - interval '1 minute'), 'task', '{}', $1, now() - $2, now() - $2
        FROM generate_series(1, $3)
    """
    await conn.execute(sql, status, age, number)


async def prune(conn: Connection, batch: int = 1000) -> int:
    deleted, after = 0, None
    while True:
        step = await jobs.prune(conn, finished_after_s=7 * DAY_S, dead_after_s=90 * DAY_S, after=after, batch=batch)
        deleted += step.deleted
        after = step.go_on_after
        if after is None:
            return deleted


async def test_what_ended_long_ago_goes_and_the_rest_stays(conn: Connection) -> None:
    for status in ("succeeded", "failed", "dead_letter"):
        for days in (6, 8, 91):
            await finished(conn, status, timedelta(days=days))
    old = await jobs.enqueue(conn, "task", {}, delay_s=DAY_S)
    await conn.execute("UPDATE processing_jobs SET id = uuidv7('-1 year') WHERE id = $1", old)

    deleted = await prune(conn, batch=2)

    left = await conn.fetch("SELECT status, count(*) FROM processing_jobs GROUP BY 1 ORDER BY 1")
    assert deleted == 5
    assert [tuple(row) for row in left] == [("dead_letter", 2), ("failed", 1), ("pending", 1), ("succeeded", 1)]


async def test_the_history_goes_with_its_job(conn: Connection) -> None:
    await jobs.enqueue(conn, "task", {})
    (job,) = await jobs.claim(conn, "w1", {"task": 1})
    await jobs.fail(conn, job, jobs.JobError("x", "x"), delay_s=0, permanent=True)
    age = "UPDATE processing_jobs SET finished_at = now() - interval '1 year'"
    await conn.execute(age)
    await conn.execute("INSERT INTO processing_jobs (id, job_type, payload) VALUES (uuidv7('-1 day'), 'task', '{}')")

    assert (await jobs.prune(conn, finished_after_s=1, dead_after_s=0)).deleted == 1

    assert await conn.fetchval("SELECT count(*) FROM job_attempts") == 0


async def test_two_hundred_thousand_rows_are_pruned_while_the_queue_is_at_work(committing: list[Connection]) -> None:
    await finished(committing[0], "succeeded", timedelta(days=8), 200_000)
    pruning = asyncio.create_task(prune(committing[1]))
    slowest, done = 0.0, set[UUID]()

    while not pruning.done():
        begun = time.monotonic()
        await jobs.enqueue_many(committing[2], [NewJob("task", {}) for _ in range(10)])
        done |= await jobs.complete(committing[3], await jobs.claim(committing[3], "w1", {"task": 10}))
        slowest = max(slowest, time.monotonic() - begun)

    assert await pruning == 200_000
    assert len(done) > 100
    assert slowest < 1.0
    assert await committing[0].fetchval("SELECT count(*) FROM processing_jobs") == len(done)
