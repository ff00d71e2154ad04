"""Workers are killed, frozen and blown up: every job is done, and the loser of a job writes nothing."""

import asyncio
import random

import pytest

from nexarch import jobs
from nexarch.db import Connection
from nexarch.doorbell import Doorbell
from nexarch.jobs import NewJob
from support.ledger import Ledger
from support.nursery import nursery
from support.waiting import eventually

pytestmark = pytest.mark.database

KILLS = 50
JOBS = 2000


async def test_fifty_workers_killed_at_random_during_two_thousand_jobs_lose_none_and_double_none(
    conn: Connection, bell: Doorbell, ledger: Ledger, bus_dsn: str, tenant_dsn: str
) -> None:
    chance = random.Random()
    async with nursery(bus_dsn, tenant_dsn, stale_after_s=1.0) as workers:
        living = [await workers.start() for _ in range(3)]
        for _ in range(KILLS):
            added = [
                NewJob("record", {"seconds": chance.uniform(0, 0.06)}, max_attempts=100) for _ in range(JOBS // KILLS)
            ]
            await jobs.enqueue_many(conn, added)
            bell.ring("acme")
            # Not a wait for anything: the moment of the kill is the point.
            await asyncio.sleep(chance.uniform(0, 0.1))
            victim = living.pop(chance.randrange(len(living)))
            victim.kill()
            living.append(await workers.start_soon())

        await ledger.all_done()

    assert await ledger.results() == JOBS
    assert await ledger.faults() == []
    # Nobody was stopped in an orderly way, so each claim is an attempt; and the kills did hit jobs.
    assert await conn.fetchval("SELECT count(*) FROM processing_jobs WHERE attempts <> lease") == 0
    assert await conn.fetchval("SELECT count(*) FROM processing_jobs WHERE attempts > 1") > KILLS


async def test_a_worker_frozen_past_its_lease_changes_nothing_when_it_goes_on(
    conn: Connection, bell: Doorbell, ledger: Ledger, bus_dsn: str, tenant_dsn: str
) -> None:
    async with nursery(bus_dsn, tenant_dsn, stale_after_s=1.0) as workers:
        frozen = await workers.start()
        job_ids = await jobs.enqueue_many(conn, [NewJob("record", {"seconds": 0.3}) for _ in range(8)])
        bell.ring("acme")
        for job_id in job_ids:
            await ledger.entered(job_id)
        frozen.freeze()
        heir = await workers.start()
        await ledger.all_done()
        before = await conn.fetch("SELECT * FROM processing_jobs ORDER BY id")

        frozen.thaw()
        # It has woken and is through with what it held when it takes up something new.
        heir.kill()
        await heir.ended()
        new = await jobs.enqueue(conn, "record", {})
        bell.ring("acme")
        await ledger.entered(new)
        await ledger.all_done()
        frozen.stop()
        assert await frozen.ended() == 0

    assert await conn.fetch("SELECT * FROM processing_jobs WHERE id <> $1 ORDER BY id", new) == before
    assert await ledger.faults() == []
    assert await conn.fetchval("SELECT array_agg(DISTINCT pid) FROM results WHERE job_id <> $1", new) == [heir.pid]


async def test_the_job_of_a_worker_frozen_before_its_commit_is_done_by_another(
    conn: Connection, bell: Doorbell, ledger: Ledger, bus_dsn: str, tenant_dsn: str
) -> None:
    async with nursery(bus_dsn, tenant_dsn, stale_after_s=0.6, longest_transaction_s=2.0) as workers:
        frozen = await workers.start()
        job_id = await jobs.enqueue(conn, "record", {"before_commit": 0.3})
        bell.ring("acme")

        async def it_sits_in_its_transaction() -> bool:
            # Its lock on the row is all that can be seen of it from outside.
            sql = "SELECT id FROM processing_jobs WHERE id = $1 FOR UPDATE SKIP LOCKED"
            return await conn.fetchval(sql, job_id) is None

        await ledger.entered(job_id)
        await eventually(it_sits_in_its_transaction, every_s=0.001)
        frozen.freeze()
        heir = await workers.start()
        await ledger.all_done(within_s=10)
        frozen.thaw()
        frozen.stop()
        assert await frozen.ended() == 0

    assert await ledger.faults() == []
    assert await ledger.conn.fetchval("SELECT array_agg(pid) FROM results") == [heir.pid]


async def test_a_worker_killed_at_limit_one_blocks_nobody(
    conn: Connection, bell: Doorbell, ledger: Ledger, bus_dsn: str, tenant_dsn: str
) -> None:
    async with nursery(bus_dsn, tenant_dsn, stale_after_s=0.6, concurrency=1) as workers:
        victim = await workers.start()
        job_id = await jobs.enqueue(conn, "record", {"seconds": 0.5})
        bell.ring("acme")
        await ledger.entered(job_id)
        victim.kill()
        await workers.start()

        await ledger.all_done(within_s=5)

    assert (await jobs.get_job(conn, job_id)).attempts == 2


async def test_a_job_that_kills_every_worker_is_a_dead_letter_and_those_beside_it_are_done(
    conn: Connection, bell: Doorbell, ledger: Ledger, bus_dsn: str, tenant_dsn: str
) -> None:
    poison = await jobs.enqueue(conn, "die", {})
    await jobs.enqueue_many(conn, [NewJob("record", {"seconds": 0.01}) for _ in range(60)])
    async with nursery(bus_dsn, tenant_dsn, stale_after_s=0.6) as workers:

        async def keep_two_alive() -> None:
            living = [await workers.start_soon() for _ in range(2)]
            while True:
                done, _ = await asyncio.wait(
                    [asyncio.ensure_future(worker.ended(600)) for worker in living], return_when="FIRST_COMPLETED"
                )
                assert {task.result() for task in done} == {9}
                living = [worker for worker in living if worker.lives]
                living += [await workers.start_soon() for _ in range(2 - len(living))]

        supervisor = asyncio.create_task(keep_two_alive())

        async def the_poison_is_dead() -> bool:
            return (await jobs.get_job(conn, poison)).status == "dead_letter"

        async def the_others_are_done() -> bool:
            sql = "SELECT count(*) FROM processing_jobs WHERE status = 'succeeded'"
            return bool(await conn.fetchval(sql) == 60)

        await eventually(the_poison_is_dead, within_s=30)
        await eventually(the_others_are_done)
        supervisor.cancel()

    row = await jobs.get_job(conn, poison)
    assert row.attempts == row.max_attempts == 5
    assert row.last_error is not None
    assert row.last_error["code"] == "worker-lost"
    assert await ledger.faults() == []
