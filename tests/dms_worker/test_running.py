"""What a handler may ask for and what a person may do to it while it runs; keys and priorities in a real worker."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest

from dms_worker.job_types import DeadJob, JobContext, JobType, Snooze
from nexarch import channels, jobs
from nexarch.core_client import CoreApiAway
from nexarch.db import Connection, connect
from nexarch.doorbell import Doorbell
from nexarch.jobs import JobError, NewJob
from nexarch.storage import StorageAway
from support import database
from support.database import Cluster
from support.waiting import eventually
from support.working import working

pytestmark = pytest.mark.database


@pytest.fixture
async def conn(tenant_dsn: str) -> AsyncIterator[Connection]:
    """A producer's session in the tenant's database."""
    conn = await connect(tenant_dsn, application_name="tests")
    yield conn
    await conn.close()


@pytest.fixture
async def bell(bus_dsn: str) -> AsyncIterator[Doorbell]:
    async with Doorbell(bus_dsn, application_name="tests-bell") as bell:
        yield bell


def task(handler: Callable[[JobContext], Awaitable[None]], **more: Any) -> JobType:  # noqa: ANN401 - the other fields of JobType
    return JobType(name="task", handler=handler, **more)


async def status_is(conn: Connection, job_id: UUID, status: str) -> jobs.Job:
    async def reached() -> bool:
        return (await jobs.get_job(conn, job_id)).status == status

    await eventually(reached)
    return await jobs.get_job(conn, job_id)


async def test_a_snoozed_job_comes_back_as_often_as_it_likes_and_no_attempt_counts(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    entered: list[float] = []

    async def snooze(_ctx: JobContext) -> None:
        entered.append(time.monotonic())
        if len(entered) < 4:
            raise Snooze(0.2)

    job_id = await jobs.enqueue(conn, "task", {}, max_attempts=1)
    async with working([task(snooze)], {"acme": tenant_dsn}, bus_dsn):
        row = await status_is(conn, job_id, "succeeded")

    assert row.attempts == 1
    assert len(entered) == 4
    assert min(later - earlier for earlier, later in pairwise(entered)) > 0.19


@pytest.mark.parametrize("away", [StorageAway("away"), CoreApiAway("away"), ConnectionRefusedError("the database")])
async def test_a_job_is_put_off_while_something_is_away_that_every_job_needs_and_no_attempt_counts(
    conn: Connection, bus_dsn: str, tenant_dsn: str, away: Exception
) -> None:
    entered: list[float] = []

    async def needs_it(_ctx: JobContext) -> None:
        entered.append(time.monotonic())
        if len(entered) < 3:
            raise away

    job_id = await jobs.enqueue(conn, "task", {}, max_attempts=1)
    async with working([task(needs_it)], {"acme": tenant_dsn}, bus_dsn):
        row = await status_is(conn, job_id, "succeeded")

    assert (row.attempts, len(entered)) == (1, 3)
    first, second = (later - earlier for earlier, later in pairwise(entered))
    assert first > 0.4  # half a second to one
    assert second > 0.9  # one to two


async def test_a_job_that_was_put_off_for_a_day_uses_its_attempts_up(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    async def needs_it(_ctx: JobContext) -> None:
        raise StorageAway("this object cannot be read")

    job_id = await jobs.enqueue(conn, "task", {}, max_attempts=1)
    await conn.execute("UPDATE processing_jobs SET lease = 1500")
    async with working([task(needs_it)], {"acme": tenant_dsn}, bus_dsn):
        row = await status_is(conn, job_id, "dead_letter")

    assert row.last_error is not None
    assert row.last_error["code"] == "storage-away"


async def test_a_running_job_that_a_person_cancels_is_ended_by_its_worker(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    entered, told, given_up = asyncio.Event(), asyncio.Event(), list[tuple[str, bool]]()

    async def endless(_ctx: JobContext) -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.set()

    async def on_dead(dead: DeadJob, error: JobError) -> None:
        given_up.append((error.code, dead.conn.is_in_transaction()))

    job_id = await jobs.enqueue(conn, "task", {})
    async with working([task(endless, on_dead=on_dead)], {"acme": tenant_dsn}, bus_dsn, stale_after_s=0.6):
        await asyncio.wait_for(entered.wait(), 10)

        await jobs.cancel(conn, job_id)

        await asyncio.wait_for(told.wait(), 5)
        row = await status_is(conn, job_id, "failed")

    assert row.last_error is not None
    assert row.last_error["code"] == "cancelled"
    assert given_up == [("cancelled", True)]
    assert [each.error["code"] for each in await jobs.list_attempts(conn, job_id)] == ["cancelled"]


async def test_a_cancelled_job_is_ended_at_once_if_its_worker_is_told_and_the_others_go_on(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    entered: asyncio.Queue[UUID] = asyncio.Queue()

    async def endless(ctx: JobContext) -> None:
        entered.put_nowait(ctx.job.id)
        await asyncio.Event().wait()

    await jobs.enqueue_many(conn, [NewJob("task", {}), NewJob("task", {})])
    async with working([task(endless)], {"acme": tenant_dsn}, bus_dsn, stale_after_s=3600.0, grace_s=0.0):
        first, second = [await asyncio.wait_for(entered.get(), 10) for _ in range(2)]

        await jobs.cancel(conn, first)
        await bell.tell(channels.JOB_CANCELS, "acme")

        await status_is(conn, first, "failed")
        assert (await jobs.get_job(conn, second)).status == "processing"


async def test_a_job_that_is_overdue_is_not_kept_waiting_by_a_backlog_that_was_begun(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    entered: list[int] = []
    done = asyncio.Event()

    async def work(ctx: JobContext) -> None:
        entered.append(ctx.job.payload["place"])
        if len(entered) == 50:
            await jobs.enqueue(conn, "task", {"place": -1}, run_at=datetime.now(UTC) - timedelta(hours=1))
        if len(entered) == 1501:
            done.set()

    await jobs.enqueue_many(conn, [NewJob("task", {"place": place}) for place in range(1500)])
    async with working([task(work, concurrency=40)], {"acme": tenant_dsn}, bus_dsn, concurrency=40, batch=10):
        await asyncio.wait_for(done.wait(), 60)

    assert sorted(entered) == list(range(-1, 1500))
    assert entered.index(-1) < 1400


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


async def test_a_stop_while_a_claim_is_on_its_way_gives_all_of_it_back_and_no_attempt_is_burnt(
    conn: Connection, bus_dsn: str, tenant_dsn: str, tenant_owner_dsn: str
) -> None:
    entered: set[int] = set()

    async def endless(ctx: JobContext) -> None:
        entered.add(ctx.job.payload["place"])
        await asyncio.Event().wait()

    async def all_before_it_are_run() -> bool:
        return entered >= set(range(20))

    owner = await connect(tenant_owner_dsn, application_name="tests")
    await owner.execute("""
        CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(2); RETURN NEW; END $$;
        CREATE TRIGGER slow_claim BEFORE UPDATE ON processing_jobs FOR EACH ROW
            WHEN (NEW.status = 'processing' AND NEW.payload ->> 'place' = '25') EXECUTE FUNCTION dawdle();
    """)
    await owner.close()
    await jobs.enqueue_many(conn, [NewJob("task", {"place": place}) for place in range(40)])
    job_type = task(endless, concurrency=100)
    async with working([job_type], {"acme": tenant_dsn}, bus_dsn, concurrency=100, batch=10, grace_s=0.0):
        await eventually(all_before_it_are_run)

    rows = await conn.fetch("SELECT status, attempts, max(lease) AS lease FROM processing_jobs GROUP BY 1, 2")
    assert [(row["status"], row["attempts"], row["lease"]) for row in rows] == [("pending", 0, 1)]
    last = "SELECT max((payload ->> 'place')::integer) FROM processing_jobs WHERE lease > 0"
    assert await conn.fetchval(last) == 29  # the claim that was on its way, and none after it


async def test_a_job_that_was_cancelled_and_is_given_back_at_a_stop_is_not_run_again(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    entered, given_up = asyncio.Event(), list[str]()

    async def endless(_ctx: JobContext) -> None:
        entered.set()
        await asyncio.Event().wait()

    async def on_dead(_dead: DeadJob, error: JobError) -> None:
        given_up.append(error.code)

    job_id = await jobs.enqueue(conn, "task", {})
    # The heartbeat comes too late to tell the worker.
    async with working([task(endless, on_dead=on_dead)], {"acme": tenant_dsn}, bus_dsn, grace_s=0.0):
        await asyncio.wait_for(entered.wait(), 10)
        await jobs.cancel(conn, job_id)

    assert (await jobs.get_job(conn, job_id)).status == "failed"
    assert given_up == ["cancelled"]


async def test_what_is_enqueued_while_its_twin_runs_runs_exactly_once_more_and_sees_the_news(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    entered, go_on, seen = asyncio.Semaphore(0), asyncio.Event(), list[int]()

    async def read(ctx: JobContext) -> None:
        seen.append(ctx.job.payload["revision"])
        entered.release()
        await go_on.wait()

    await jobs.enqueue(conn, "task", {"revision": 1}, queued_key="document")
    async with working([task(read, concurrency=1)], {"acme": tenant_dsn}, bus_dsn):
        await asyncio.wait_for(entered.acquire(), 10)

        second = await jobs.enqueue(conn, "task", {"revision": 2}, queued_key="document")
        third = await jobs.enqueue(conn, "task", {"revision": 3}, queued_key="document")
        bell.ring("acme")
        go_on.set()
        await status_is(conn, second, "succeeded")

    assert second == third
    assert seen == [1, 2]


async def test_the_urgent_job_is_run_before_those_that_waited_longer(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    order: list[int] = []

    async def note(ctx: JobContext) -> None:
        order.append(ctx.job.payload["n"])

    *_, last = [
        await jobs.enqueue(conn, "task", {"n": n}, priority=priority) for n, priority in enumerate((0, 0, 10, -5))
    ]
    async with working([task(note, concurrency=1)], {"acme": tenant_dsn}, bus_dsn):
        await status_is(conn, last, "succeeded")

    assert order == [2, 0, 1, 3]


async def test_a_loop_that_is_blocked_for_half_the_stale_time_loses_no_job(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    attempts: list[int] = []
    stale_after_s = 5.0

    async def blocking(ctx: JobContext) -> None:
        attempts.append(ctx.job.attempts)
        # Begun just before a heartbeat is due, the worst moment.
        await asyncio.sleep(stale_after_s / 3 - 0.05)
        time.sleep(stale_after_s * 0.5)  # noqa: ASYNC251 - that is the fault that is tested
        await asyncio.sleep(stale_after_s / 2)

    job_id = await jobs.enqueue(conn, "task", {})
    async with working([task(blocking)], {"acme": tenant_dsn}, bus_dsn, stale_after_s=stale_after_s):
        row = await status_is(conn, job_id, "succeeded")

    assert attempts == [1]
    assert row.lease == 1


async def test_a_loop_that_is_blocked_beyond_the_stale_time_is_fenced_and_told(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    stolen: list[jobs.ClaimedJob] = []
    told = asyncio.Event()

    async def steal() -> None:
        """What another worker does as soon as the lock is stale."""
        thief = await connect(tenant_dsn, application_name="tests")

        async def stale() -> bool:
            return await jobs.reclaim(thief, ["task"], 1.0) == 1

        await eventually(stale)
        stolen.extend(await jobs.claim(thief, "other", {"task": 1}))
        await thief.close()

    async def blocking(ctx: JobContext) -> None:
        thread = threading.Thread(target=lambda: asyncio.run(steal()))
        thread.start()
        thread.join()
        try:
            async with ctx.pool.acquire() as own:
                assert not await ctx.complete(own)  # unless the heartbeat is faster and cancels
            await asyncio.Event().wait()
        finally:
            told.set()

    job_id = await jobs.enqueue(conn, "task", {})
    async with working([task(blocking)], {"acme": tenant_dsn}, bus_dsn, stale_after_s=1.0, grace_s=0.1):
        await asyncio.wait_for(told.wait(), 10)
        completed = await jobs.complete(conn, stolen)

    assert completed == {job_id}
    row = await jobs.get_job(conn, job_id)
    assert (row.status, row.attempts, row.lease) == ("succeeded", 2, 2)


async def test_a_tenant_with_long_jobs_leaves_a_slot_to_the_others(
    conn: Connection, bus_dsn: str, tenant_dsn: str, cluster: Cluster
) -> None:
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()
    go_on = asyncio.Event()

    async def run(ctx: JobContext) -> None:
        running[ctx.tenant] += 1
        most[ctx.tenant] = max(most[ctx.tenant], running[ctx.tenant])
        await go_on.wait()
        running[ctx.tenant] -= 1

    async def all_slots_are_taken() -> bool:
        return running.total() == 4

    ids = await jobs.enqueue_many(conn, [NewJob("task", {}) for _ in range(20)])
    async with database.own_tenant(cluster) as other:
        other_conn = await connect(other.dsn, application_name="tests")
        await jobs.enqueue(other_conn, "task", {})
        await other_conn.close()
        tenants = {"acme": tenant_dsn, "other": other.dsn}
        job_type = task(run, concurrency=10)
        async with working([job_type], tenants, bus_dsn, concurrency=4, tenant_concurrency=3):
            await eventually(all_slots_are_taken)
            at_first = dict(running)
            go_on.set()
            for job_id in ids:
                await status_is(conn, job_id, "succeeded")

    assert at_first == {"acme": 3, "other": 1}
    assert most["acme"] == 3


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


async def test_a_hook_that_fails_at_a_stop_keeps_back_only_its_own_tenants_jobs(
    conn: Connection, bus_dsn: str, tenant_dsn: str, cluster: Cluster
) -> None:
    running: set[UUID] = set()

    async def endless(ctx: JobContext) -> None:
        running.add(ctx.job.id)
        await asyncio.Event().wait()

    async def both_run() -> bool:
        return len(running) == 2

    async def on_dead(_dead: DeadJob, _error: JobError) -> None:
        raise RuntimeError("no")

    job_id = await jobs.enqueue(conn, "task", {})
    async with database.own_tenant(cluster) as other:
        other_conn = await connect(other.dsn, application_name="tests")
        other_id = await jobs.enqueue(other_conn, "task", {})
        tenants = {"acme": tenant_dsn, "other": other.dsn}
        async with working([task(endless, on_dead=on_dead)], tenants, bus_dsn, grace_s=0.0):
            await eventually(both_run)
            await jobs.cancel(conn, job_id)
        released = (await jobs.get_job(other_conn, other_id)).status
        await other_conn.close()

    assert released == "pending"
    assert (await jobs.get_job(conn, job_id)).status == "processing"
