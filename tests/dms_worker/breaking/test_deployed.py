"""Workers come and go in an orderly way, one, several or none at a time: no job is lost, and no attempt is burnt."""

import random

import pytest

from nexarch import jobs
from nexarch.db import Connection
from nexarch.doorbell import Doorbell
from nexarch.jobs import NewJob
from support.ledger import Ledger
from support.nursery import nursery

pytestmark = pytest.mark.database

ROUNDS = 12
JOBS_A_ROUND = 50


async def deploy_again_and_again(
    conn: Connection, bell: Doorbell, bus_dsn: str, tenant_dsn: str, grace_s: float
) -> None:
    """Replace the older of two workers under load, again and again, until all jobs are done."""
    chance = random.Random()
    async with nursery(bus_dsn, tenant_dsn, grace_s=grace_s) as workers:
        old, new = await workers.start(), await workers.start()
        for _ in range(ROUNDS):
            added = [NewJob("record", {"seconds": chance.uniform(0, 0.1)}) for _ in range(JOBS_A_ROUND)]
            await jobs.enqueue_many(conn, added)
            bell.ring("acme")
            old.stop()
            assert await old.ended() == 0
            old, new = new, await workers.start()
        await Ledger(conn).all_done()
        new.stop()
        assert await new.ended() == 0


async def test_a_deployment_with_time_to_finish_runs_every_job_once(
    conn: Connection, bell: Doorbell, ledger: Ledger, bus_dsn: str, tenant_dsn: str
) -> None:
    await deploy_again_and_again(conn, bell, bus_dsn, tenant_dsn, grace_s=5.0)

    assert await ledger.results() == ROUNDS * JOBS_A_ROUND
    assert await ledger.conn.fetchval("SELECT count(*) FROM entered") == ROUNDS * JOBS_A_ROUND
    assert await conn.fetchval("SELECT count(*) FROM processing_jobs WHERE attempts <> 1 OR lease <> 1") == 0
    assert await ledger.faults() == []


async def test_a_deployment_in_a_hurry_gives_jobs_back_and_burns_no_attempt(
    conn: Connection, bell: Doorbell, ledger: Ledger, bus_dsn: str, tenant_dsn: str
) -> None:
    await deploy_again_and_again(conn, bell, bus_dsn, tenant_dsn, grace_s=0.02)

    assert await ledger.results() == ROUNDS * JOBS_A_ROUND
    assert await conn.fetchval("SELECT count(*) FROM processing_jobs WHERE attempts <> 1") == 0
    assert await conn.fetchval("SELECT count(*) FROM processing_jobs WHERE lease > 1") > 0
    assert await ledger.faults() == []


async def test_jobs_wait_for_the_first_worker_and_are_shared_by_the_second_and_the_third(
    conn: Connection, bell: Doorbell, ledger: Ledger, bus_dsn: str, tenant_dsn: str
) -> None:
    async with nursery(bus_dsn, tenant_dsn) as workers:
        await jobs.enqueue_many(conn, [NewJob("record", {}) for _ in range(100)])
        bell.ring("acme")  # which nobody hears
        await workers.start()
        await ledger.all_done()
        for number in (2, 3):
            await workers.start()
            await jobs.enqueue_many(conn, [NewJob("record", {"seconds": 0.01}) for _ in range(200)])
            bell.ring("acme")
            await ledger.all_done()

            assert await ledger.conn.fetchval("SELECT count(DISTINCT pid) FROM results") == number

    assert await ledger.results() == 500
    assert await conn.fetchval("SELECT count(*) FROM processing_jobs WHERE attempts <> 1") == 0
    assert await ledger.faults() == []
