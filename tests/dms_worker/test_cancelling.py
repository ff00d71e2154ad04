"""A person cancels a job that runs."""

import asyncio
from functools import partial
from uuid import UUID

import pytest

from dms_worker.job_types import DeadJob, JobContext
from dms_worker.worker import Worker
from nexarch import channels, jobs
from nexarch.db import Connection, connect
from nexarch.doorbell import Doorbell
from nexarch.jobs import JobError, NewJob
from support.acme_jobs import status_is, task
from support.waiting import eventually
from support.working import working

pytestmark = pytest.mark.database


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


async def test_a_cancel_that_was_told_while_the_bus_was_away_is_seen_when_it_is_back(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    entered = asyncio.Event()

    async def endless(_ctx: JobContext) -> None:
        entered.set()
        await asyncio.Event().wait()

    job_id = await jobs.enqueue(conn, "task", {})
    async with working([task(endless)], {"acme": tenant_dsn}, bus_dsn, stale_after_s=3600.0, grace_s=0.0) as worker:
        await asyncio.wait_for(entered.wait(), 10)
        await eventually(partial(is_connected, worker))
        await jobs.cancel(conn, job_id)  # and nobody hears of it

        bus = await connect(bus_dsn, application_name="tests")
        await bus.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'nexarch-worker-bus' AND datname = current_database()"
        )
        await bus.close()

        await status_is(conn, job_id, "failed")


async def is_connected(worker: Worker) -> bool:
    return worker.listener.connected


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
