"""Tenants and job types share the slots: none waits for long because of another."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from dms_worker.job_types import JobContext, JobType
from nexarch import jobs
from nexarch.db import Connection, connect
from nexarch.doorbell import Doorbell
from nexarch.jobs import NewJob
from support import database
from support.acme_jobs import Entries, all_done, enqueue_and_ring, status_is, task
from support.database import Cluster
from support.waiting import eventually
from support.working import working

pytestmark = pytest.mark.database


async def test_a_tenant_with_a_thousand_jobs_does_not_delay_the_first_job_of_another(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str, cluster: Cluster
) -> None:
    done: list[str] = []
    quiet = asyncio.Event()

    async def note(ctx: JobContext) -> None:
        await asyncio.sleep(0.01)
        done.append(ctx.tenant)
        if ctx.tenant == "quiet":
            quiet.set()

    async with database.own_tenant(cluster) as other:
        quiet_conn = await connect(other.dsn, application_name="tests")
        tenants = {"busy": tenant_dsn, "quiet": other.dsn}
        async with working([task(note)], tenants, bus_dsn, concurrency=4, grace_s=0.1):
            await jobs.enqueue_many(conn, [NewJob("task", {}) for _ in range(1000)])
            bell.ring("busy")

            async def the_busy_one_is_under_way() -> bool:
                return len(done) > 20

            await eventually(the_busy_one_is_under_way)
            before = len(done)
            await jobs.enqueue(quiet_conn, "task", {})
            bell.ring("quiet")
            await asyncio.wait_for(quiet.wait(), 10)

        await quiet_conn.close()
    assert done.index("quiet") - before < 50


async def test_one_turn_at_a_time_goes_round_though_the_first_tenant_has_jobs_and_slots_left(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str, cluster: Cluster
) -> None:
    order: list[str] = []
    under_way, quiet = asyncio.Event(), asyncio.Event()

    async def note(ctx: JobContext) -> None:
        order.append(ctx.tenant)
        (quiet if ctx.tenant == "quiet" else under_way).set()

    async with database.own_tenant(cluster) as other:
        quiet_conn = await connect(other.dsn, application_name="tests")
        await jobs.enqueue_many(conn, [NewJob("task", {}) for _ in range(10_000)])
        async with working(
            [task(note, concurrency=20_000)],
            {"busy": tenant_dsn, "quiet": other.dsn},
            bus_dsn,
            concurrency=20_000,
            batch=10,
            turns_at_once=1,
        ):
            await asyncio.wait_for(under_way.wait(), 20)
            await jobs.enqueue(quiet_conn, "task", {})
            bell.ring("quiet")
            await asyncio.wait_for(quiet.wait(), 20)

        await quiet_conn.close()
    assert order.index("quiet") < 5_000


async def test_a_freed_slot_is_used_at_once(conn: Connection, bus_dsn: str, tenant_dsn: str) -> None:
    await jobs.enqueue_many(conn, [NewJob("task", {}) for _ in range(300)])
    async with working([task(Entries(), concurrency=1)], {"acme": tenant_dsn}, bus_dsn):
        # A look every 50 ms, which is the net below this, would take 15 s.
        await all_done(conn, within_s=10)


async def test_never_more_jobs_run_at_once_than_there_are_slots(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    running = {"task": 0, "other": 0}
    most = {"task": 0, "other": 0, "all": 0}

    async def count(ctx: JobContext) -> None:
        name = ctx.job.job_type
        running[name] += 1
        most[name] = max(most[name], running[name])
        most["all"] = max(most["all"], sum(running.values()))
        await asyncio.sleep(0.005)
        running[name] -= 1

    await jobs.enqueue_many(conn, [NewJob(name, {}) for name in ("task", "other") for _ in range(60)])
    types = [task(count, concurrency=2), JobType(name="other", handler=count, concurrency=5)]
    async with working(types, {"acme": tenant_dsn}, bus_dsn, concurrency=6):
        await all_done(conn)

    assert most["task"] == 2
    assert most["other"] <= 5
    assert most["all"] == 6


async def test_a_full_job_type_does_not_hold_up_another(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    go_on, entries = asyncio.Event(), Entries()

    async def wait(_ctx: JobContext) -> None:
        await go_on.wait()

    await jobs.enqueue_many(conn, [NewJob("slow", {}) for _ in range(5)])
    types = [task(entries), JobType(name="slow", handler=wait, concurrency=1)]
    async with working(types, {"acme": tenant_dsn}, bus_dsn):
        for _ in range(3):
            job_id = await enqueue_and_ring(conn, bell)
            assert await entries.next() == job_id
        go_on.set()

        await all_done(conn)


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
