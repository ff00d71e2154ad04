"""Locks are kept for as long as the worker lives, and what lost its lock is told and fenced off."""

import asyncio
import threading
import time

import pytest

from dms_worker.job_types import JobContext
from nexarch import jobs
from nexarch.db import Connection, connect
from support.acme_jobs import status_is, task
from support.proxy import proxied
from support.waiting import eventually
from support.working import working

pytestmark = pytest.mark.database


async def test_a_job_longer_than_the_stale_time_runs_once_and_shows_its_progress(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    entries = 0
    go_on = asyncio.Event()

    async def long(ctx: JobContext) -> None:
        nonlocal entries
        entries += 1
        ctx.progress(40)
        await go_on.wait()

    job_id = await jobs.enqueue(conn, "task", {})
    async with (
        working([task(long)], {"acme": tenant_dsn}, bus_dsn, stale_after_s=0.6),
        working([task(long)], {"acme": tenant_dsn}, bus_dsn, stale_after_s=0.6),
    ):
        claimed = (await status_is(conn, job_id, "processing")).locked_at
        assert claimed is not None

        async def three_stale_times_later() -> bool:
            row = await jobs.get_job(conn, job_id)
            return row.locked_at is not None and (row.locked_at - claimed).total_seconds() > 1.8

        await eventually(three_stale_times_later)
        during = await jobs.get_job(conn, job_id)
        go_on.set()
        after = await status_is(conn, job_id, "succeeded")

    assert entries == 1
    assert (during.progress, after.progress, after.attempts) == (40, 100, 1)


async def test_a_handler_is_cancelled_when_its_lock_is_lost_and_its_end_changes_nothing(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    cancelled = asyncio.Event()

    async def hang(_ctx: JobContext) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    job_id = await jobs.enqueue(conn, "task", {})
    async with working([task(hang)], {"acme": tenant_dsn}, bus_dsn, stale_after_s=0.6):
        await status_is(conn, job_id, "processing")
        # Another worker has reclaimed and claimed it.
        await conn.execute("UPDATE processing_jobs SET lease = lease + 1, locked_by = 'other', attempts = 2")

        await asyncio.wait_for(cancelled.wait(), 5)

    row = await jobs.get_job(conn, job_id)
    assert (row.status, row.locked_by) == ("processing", "other")


async def test_a_database_that_is_away_for_less_than_the_stale_time_costs_no_job(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    go_on, entered = asyncio.Event(), asyncio.Event()

    async def wait(_ctx: JobContext) -> None:
        entered.set()
        await go_on.wait()

    job_id = await jobs.enqueue(conn, "task", {})
    async with proxied(tenant_dsn) as (dsn, proxy), working([task(wait)], {"acme": dsn}, bus_dsn, stale_after_s=60):
        await entered.wait()
        await proxy.refuse()
        proxy.cut()
        go_on.set()
        await asyncio.sleep(0.3)

        await proxy.accept()

        row = await status_is(conn, job_id, "succeeded")
    assert row.attempts == 1


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
