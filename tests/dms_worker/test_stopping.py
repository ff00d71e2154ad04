"""A worker that is told to stop loses no job, runs none twice, and ends in time."""

import asyncio
import time
from contextlib import suppress
from uuid import UUID

import pytest
from prometheus_client import CollectorRegistry

from dms_worker.job_types import DeadJob, JobContext
from nexarch import jobs
from nexarch.db import Connection, connect
from nexarch.doorbell import Doorbell
from nexarch.jobs import JobError, NewJob
from support import database
from support.acme_jobs import enqueue_and_ring, status_is, task
from support.database import Cluster
from support.proxy import proxied
from support.waiting import eventually
from support.working import working

pytestmark = pytest.mark.database


async def test_a_stop_gives_back_what_does_not_end_in_time_and_claims_nothing_more(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str
) -> None:
    entered = asyncio.Event()

    async def hang(_ctx: JobContext) -> None:
        entered.set()
        await asyncio.Event().wait()

    job_id = await jobs.enqueue(conn, "task", {})
    async with working([task(hang)], {"acme": tenant_dsn}, bus_dsn, grace_s=0.3) as worker:
        await entered.wait()
        stopping = asyncio.create_task(worker.stop())
        late = await enqueue_and_ring(conn, bell)
        started = time.monotonic()
        await stopping

    assert time.monotonic() - started < 2
    row = await jobs.get_job(conn, job_id)
    assert (row.status, row.attempts, row.locked_by) == ("pending", 0, None)
    assert (await jobs.get_job(conn, late)).attempts == 0


async def test_a_stop_lets_running_jobs_finish(conn: Connection, bus_dsn: str, tenant_dsn: str) -> None:
    entered = asyncio.Event()

    async def slow(_ctx: JobContext) -> None:
        entered.set()
        await asyncio.sleep(0.3)

    job_id = await jobs.enqueue(conn, "task", {})
    async with working([task(slow)], {"acme": tenant_dsn}, bus_dsn) as worker:
        await entered.wait()
        await worker.stop()

        assert (await jobs.get_job(conn, job_id)).status == "succeeded"


async def test_a_stop_ends_in_time_though_the_database_is_gone(conn: Connection, bus_dsn: str, tenant_dsn: str) -> None:
    entered = asyncio.Event()

    async def hang(_ctx: JobContext) -> None:
        entered.set()
        await asyncio.Event().wait()

    await jobs.enqueue(conn, "task", {})
    async with (
        proxied(tenant_dsn) as (dsn, proxy),
        working([task(hang)], {"acme": dsn}, bus_dsn, grace_s=0.3, turn_timeout_s=0.5) as worker,
    ):
        await entered.wait()
        proxy.swallow_everything()
        started = time.monotonic()

        await worker.stop()

        assert time.monotonic() - started < 3


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


async def test_a_stop_gives_back_what_is_done_but_could_not_be_written_and_writes_nothing_after_it(
    conn: Connection, bus_dsn: str, tenant_dsn: str, tenant_owner_dsn: str
) -> None:
    registry = CollectorRegistry()
    done = asyncio.Event()

    async def work(_ctx: JobContext) -> None:
        done.set()

    def ended(outcome: str) -> float | None:
        labels = {"job_type": "task", "outcome": outcome}
        return registry.get_sample_value("nexarch_jobs_finished_total", labels)

    owner = await connect(tenant_owner_dsn, application_name="tests")
    await owner.execute("""
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no end'; END $$;
        CREATE TRIGGER no_end BEFORE UPDATE ON processing_jobs FOR EACH ROW
            WHEN (NEW.status = 'succeeded') EXECUTE FUNCTION refuse();
    """)
    await owner.close()
    job_id = await jobs.enqueue(conn, "task", {})
    async with working([task(work)], {"acme": tenant_dsn}, bus_dsn, registry=registry, grace_s=0.3) as worker:
        await done.wait()

        await worker.stop()

        row = await jobs.get_job(conn, job_id)
        assert (row.status, row.attempts, row.locked_by) == ("pending", 0, None)
        assert (ended("released"), ended("succeeded"), ended("lost")) == (1, 0, 0)
        left = [each.get_name() for each in asyncio.all_tasks()]
        assert not [name for name in left if name.startswith("completions")]


async def test_a_handler_that_ignores_the_stop_keeps_its_job_so_that_nobody_runs_it_beside_it(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    entered, let_go = asyncio.Event(), asyncio.Event()

    async def stubborn(_ctx: JobContext) -> None:
        entered.set()
        with suppress(asyncio.CancelledError):
            await let_go.wait()
        await let_go.wait()

    job_id = await jobs.enqueue(conn, "task", {})
    async with working([task(stubborn)], {"acme": tenant_dsn}, bus_dsn, grace_s=0.0, turn_timeout_s=0.5) as worker:
        await entered.wait()

        await worker.stop()

        row = await jobs.get_job(conn, job_id)
        assert (row.status, row.attempts, row.locked_by) == ("processing", 1, worker.name)
        let_go.set()
        await status_is(conn, job_id, "succeeded")
