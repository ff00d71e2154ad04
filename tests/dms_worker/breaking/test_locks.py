"""Sessions that lock the same rows neither deadlock nor cost anybody else a job."""

import asyncio
import os
import random
import time

import pytest

from dms_worker.job_types import JobContext, JobType
from nexarch import jobs
from nexarch.db import Connection, connect
from nexarch.doorbell import Doorbell
from nexarch.jobs import NewJob
from support.database import Cluster
from support.ledger import Ledger
from support.nursery import nursery
from support.waiting import eventually
from support.working import working

pytestmark = pytest.mark.database

# The full run takes a minute: NEXARCH_STRESS_S=60.
STRESS_S = float(os.environ.get("NEXARCH_STRESS_S", "8"))


async def test_eight_workers_that_beat_complete_fail_and_reclaim_all_the_time_never_deadlock(
    conn: Connection, bell: Doorbell, ledger: Ledger, bus_dsn: str, tenant_dsn: str, cluster: Cluster
) -> None:
    chance = random.Random()
    added = 0

    def some_jobs() -> list[NewJob]:
        return [
            NewJob(
                chance.choice(("record", "plain", "plain")),
                # In steps, so that many end in the same statement.
                {"seconds": chance.choice((0, 0.05, 0.1, 0.2, 0.4)), "failures": chance.choice((0, 0, 0, 1, 2))},
                idempotency_key=chance.choice((None, f"key-{chance.randrange(1_000_000)}")),
                max_attempts=1000,
            )
            for _ in range(100)
        ]

    async with nursery(bus_dsn, tenant_dsn, stale_after_s=0.6, concurrency=40) as workers:
        for _ in range(8):
            await workers.start()
        ends_at = time.monotonic() + STRESS_S
        async with asyncio.timeout(STRESS_S + 60):
            while time.monotonic() < ends_at or added <= 1000:  # eight processes may take long to start
                waiting = await conn.fetchval("SELECT count(*) FROM processing_jobs WHERE status = 'pending'")
                if waiting < 300:
                    added += len(await jobs.enqueue_many(conn, some_jobs()))
                bell.ring("acme")
                await asyncio.sleep(0.05)  # the pace of the producer; the end is waited for below
        await ledger.all_done()

    assert await ledger.faults() == []
    assert await deadlocks(cluster, conn) == 0


async def deadlocks(cluster: Cluster, conn: Connection) -> int:
    """How many deadlocks the server has seen in this database; sessions report when they end."""
    superuser = await connect(cluster.superuser_dsn, application_name="tests")
    database = await conn.fetchval("SELECT current_database()")

    async def the_workers_sessions_have_ended() -> bool:
        sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tests-worker' AND datname = $1"
        return not await superuser.fetchval(sql, database)

    await eventually(the_workers_sessions_have_ended)
    number: int = await superuser.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = $1", database)
    await superuser.close()
    return number


async def test_a_handler_that_is_slow_to_commit_its_completion_costs_no_job_its_lock(
    conn: Connection, bus_dsn: str, tenant_dsn: str
) -> None:
    entered: list[str] = []

    async def slow_to_commit(ctx: JobContext) -> None:
        entered.append("slow")
        async with ctx.pool.acquire() as own, own.transaction():
            await ctx.complete(own)
            await asyncio.sleep(1.2)  # not a wait: the commit comes later than two stale times

    async def beside_it(_ctx: JobContext) -> None:
        entered.append("beside")
        await asyncio.sleep(1.2)  # its lock must be renewed meanwhile

    await jobs.enqueue(conn, "slow", {})
    await jobs.enqueue(conn, "beside", {})
    types = [JobType(name="slow", handler=slow_to_commit), JobType(name="beside", handler=beside_it)]
    async with working(types, {"acme": tenant_dsn}, bus_dsn, stale_after_s=0.6):

        async def both_are_done() -> bool:
            return bool(await conn.fetchval("SELECT count(*) FROM processing_jobs WHERE status = 'succeeded'") == 2)

        await eventually(both_are_done)

    assert sorted(entered) == ["beside", "slow"]


async def test_a_heartbeat_waits_for_nobody_and_renews_what_is_free(conn: Connection, tenant_dsn: str) -> None:
    await jobs.enqueue_many(conn, [NewJob("task", {}), NewJob("task", {})])
    free, locked = await jobs.claim(conn, "tests", {"task": 2})
    other = await connect(tenant_dsn, application_name="tests")
    before = (await jobs.get_job(conn, free.id)).locked_at
    async with other.transaction():
        await jobs.complete(other, [locked])

        held = await asyncio.wait_for(jobs.heartbeat(conn, [locked, free], [None, 30]), 5)

        renewed = await jobs.get_job(conn, free.id)
    await other.close()
    assert set(held) == {locked.id, free.id}
    assert renewed.locked_at != before
    assert renewed.progress == 30
    assert set(await jobs.heartbeat(conn, [locked, free], [None, None])) == {free.id}
