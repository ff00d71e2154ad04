"""Locks on jobs: how a worker keeps them, what fences off one that lost them, and who takes them back."""

import pytest

from nexarch import jobs
from nexarch.db import Connection
from nexarch.jobs import Fate, Status
from support.claims import BROKEN, age_locks, claim_one

pytestmark = pytest.mark.database


async def test_a_heartbeat_keeps_the_lock_and_stores_the_progress(conn: Connection) -> None:
    job_id = await jobs.enqueue(conn, "task", {})
    held = await claim_one(conn)
    await age_locks(conn, 100)

    still_held = await jobs.heartbeat(conn, [held], [40])
    await jobs.heartbeat(conn, [held], [None])

    assert still_held == {job_id: False}
    assert await jobs.reclaim(conn, ["task"], 60) == 0
    assert (await jobs.get_job(conn, job_id)).progress == 40


async def test_a_lost_lock_fences_every_statement_of_the_old_holder(conn: Connection) -> None:
    job_id = await jobs.enqueue(conn, "task", {})
    old = await claim_one(conn)
    await age_locks(conn, 61)
    await jobs.reclaim(conn, ["task"], 60)

    # The same worker takes it back: neither its name nor the status tells the two claims apart.
    new = await claim_one(conn)

    assert await jobs.heartbeat(conn, [old], [99]) == {}
    assert await jobs.complete(conn, [old]) == set()
    assert await jobs.release(conn, [old]) == {}
    assert await jobs.fail(conn, old, BROKEN, delay_s=0, permanent=True) is None
    row = await jobs.get_job(conn, job_id)
    assert (row.status, row.progress, row.attempts) == (Status.PROCESSING, 0, 2)
    assert await jobs.complete(conn, [new]) == {job_id}


async def test_requeue_does_not_lower_the_lease(conn: Connection) -> None:
    job_id = await jobs.enqueue(conn, "task", {})
    old = await claim_one(conn)
    await jobs.fail(conn, old, BROKEN, delay_s=0, permanent=True)
    await jobs.requeue(conn, job_id)

    new = await claim_one(conn)

    assert (new.attempts, new.lease) == (old.attempts, old.lease + 1)
    assert await jobs.complete(conn, [old]) == set()


async def test_the_job_of_a_lost_worker_is_pending_again_and_the_attempt_counts(conn: Connection) -> None:
    await jobs.enqueue(conn, "task", {})
    await claim_one(conn)
    await age_locks(conn, 61)

    reclaimed = await jobs.reclaim(conn, ["task"], 60)
    again = await claim_one(conn, worker="w2")

    assert reclaimed == 1
    assert again.attempts == 2


async def test_a_live_lock_is_not_reclaimed(conn: Connection) -> None:
    await jobs.enqueue(conn, "task", {})
    await claim_one(conn)
    await age_locks(conn, 59)

    assert await jobs.reclaim(conn, ["task"], 60) == 0


async def test_a_job_that_lost_all_its_workers_is_a_dead_letter(conn: Connection) -> None:
    job_id = await jobs.enqueue(conn, "task", {}, max_attempts=1)
    await claim_one(conn)
    await age_locks(conn, 61)

    reclaimed = await jobs.reclaim(conn, ["task"], 60)
    (lost,) = await jobs.lost_jobs(conn, ["task"], 60)
    buried = await jobs.bury_lost(conn, lost, 60)
    twice = await jobs.bury_lost(conn, lost, 60)

    assert (reclaimed, buried, twice) == (0, Fate.DEAD, None)
    row = await jobs.get_job(conn, job_id)
    assert row.last_error is not None
    assert (row.status, row.last_error["code"]) == (Status.DEAD_LETTER, "worker-lost")


async def test_a_lost_job_that_was_completed_after_all_is_not_buried(conn: Connection) -> None:
    await jobs.enqueue(conn, "task", {}, max_attempts=1)
    held = await claim_one(conn)
    await age_locks(conn, 61)
    (lost,) = await jobs.lost_jobs(conn, ["task"], 60)

    await jobs.complete(conn, [held])

    assert await jobs.bury_lost(conn, lost, 60) is None
