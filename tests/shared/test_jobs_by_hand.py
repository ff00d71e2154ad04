"""What a person does with jobs, what a handler may ask for, and keys: on the table itself."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest

from nexarch import jobs
from nexarch.db import Connection
from nexarch.jobs import Fate, NewJob, Status
from support.claims import BROKEN, age_locks, claim, claim_one, make_dead

pytestmark = pytest.mark.database


async def status(conn: Connection, job_id: UUID) -> str:
    return (await jobs.get_job(conn, job_id)).status


# The history


async def test_every_attempt_that_failed_is_in_the_history_with_worker_times_and_traceback(
    two_conns: tuple[Connection, Connection],
) -> None:
    conn, _ = two_conns
    job_id = await jobs.enqueue(conn, "task", {}, max_attempts=2)
    first = await claim_one(conn, worker="w1")
    await jobs.heartbeat(conn, [first], [50])
    await jobs.fail(conn, first, BROKEN, delay_s=0)
    await claim_one(conn, worker="w2")
    await age_locks(conn, 61)
    (lost,) = await jobs.lost_jobs(conn, ["task"], 60)
    await jobs.bury_lost(conn, lost, 60)

    failed, killed = await jobs.list_attempts(conn, job_id)

    assert (failed.attempt, failed.worker, killed.attempt, killed.worker) == (1, "w1", 2, "w2")
    assert failed.error == {"code": "broken", "detail": "It broke.", "traceback": "Traceback: line 1"}
    assert killed.error["code"] == "worker-lost"
    job = await jobs.get_job(conn, job_id)
    assert job.created_at <= failed.started_at < failed.ended_at < killed.started_at < killed.ended_at
    assert failed.ended_at - failed.started_at < timedelta(seconds=30)


async def test_a_requeued_job_keeps_its_history(conn: Connection) -> None:
    job_id = await make_dead(conn)
    await jobs.requeue(conn, job_id)

    await jobs.fail(conn, await claim_one(conn), BROKEN, delay_s=0, permanent=True)

    assert [each.attempt for each in await jobs.list_attempts(conn, job_id)] == [1, 1]


async def test_a_job_that_succeeds_costs_no_history(conn: Connection) -> None:
    await jobs.enqueue(conn, "task", {})

    await jobs.complete(conn, [await claim_one(conn)])

    assert await conn.fetchval("SELECT count(*) FROM job_attempts") == 0


async def test_a_failure_that_came_too_late_is_not_in_the_history(conn: Connection) -> None:
    job_id = await jobs.enqueue(conn, "task", {})
    old = await claim_one(conn)
    await jobs.release(conn, [old])
    await claim_one(conn)

    assert await jobs.fail(conn, old, BROKEN, delay_s=0) is None
    assert await jobs.list_attempts(conn, job_id) == []


# Dead letters


async def test_all_dead_letters_of_a_type_are_queued_again_and_no_others(conn: Connection) -> None:
    for _ in range(3):
        await make_dead(conn)
    other = await jobs.enqueue(conn, "other", {})
    (claimed,) = await jobs.claim(conn, "w1", {"other": 1})
    await jobs.fail(conn, claimed, BROKEN, delay_s=0, permanent=True)

    revived = await jobs.requeue_all(conn, "task")

    assert revived == 3
    assert [job.attempts for job in await claim(conn, 10)] == [1, 1, 1]
    assert await status(conn, other) == Status.DEAD_LETTER


async def test_a_discarded_dead_letter_is_given_up_with_its_reason(conn: Connection) -> None:
    job_id = await make_dead(conn)

    await jobs.discard(conn, job_id)

    job = await jobs.get_job(conn, job_id)
    assert job.status == Status.FAILED
    assert job.last_error is not None
    assert job.last_error["code"] == "broken"
    with pytest.raises(jobs.JobNotDead):
        await jobs.requeue(conn, job_id)
    with pytest.raises(jobs.JobNotDead):
        await jobs.discard(conn, job_id)
    with pytest.raises(jobs.JobNotFound):
        await jobs.discard(conn, uuid4())


async def test_what_was_given_up_is_queued_again_only_if_that_is_asked_for(conn: Connection) -> None:
    job_id = await make_dead(conn)
    await jobs.discard(conn, job_id)

    await jobs.requeue(conn, job_id, given_up=True)

    assert (await claim_one(conn)).id == job_id


@pytest.mark.parametrize("status", [None, *Status])
async def test_jobs_are_listed_by_state_and_type_newest_first(conn: Connection, status: Status | None) -> None:
    await make_dead(conn)
    await jobs.discard(conn, await make_dead(conn))
    for _ in range(2):
        await jobs.enqueue(conn, "task", {})
    done, _running = await claim(conn, 2)
    await jobs.complete(conn, [done])
    await jobs.enqueue_many(conn, [NewJob("task", {}), NewJob("other", {})])

    listed = await jobs.list_jobs(conn, status=status, job_type="task", limit=10)
    second = await jobs.list_jobs(conn, status=status, job_type="task", before=listed[0].id, limit=10)

    assert len(listed) == (5 if status is None else 1)
    assert {job.status for job in listed} == ({status} if status else set(Status))
    assert second == listed[1:]
    assert [job.id for job in listed] == sorted((job.id for job in listed), reverse=True)


async def test_dead_letters_are_found_among_many_finished_jobs_by_their_own_index(conn: Connection) -> None:
    await conn.execute("""
        INSERT INTO processing_jobs (job_type, payload, status, finished_at)
        SELECT 'task', '{}', 'succeeded', now() FROM generate_series(1, 20000)
    """)
    dead = await make_dead(conn)
    await conn.execute("ANALYZE processing_jobs")
    scans = "SELECT pg_stat_get_xact_numscans('processing_jobs_dead'::regclass)"
    before = await conn.fetchval(scans)

    assert [job.id for job in await jobs.list_jobs(conn, status=Status.DEAD_LETTER, limit=10)] == [dead]

    assert await conn.fetchval(scans) == before + 1


# Cancel


async def test_a_waiting_job_is_cancelled_at_once(conn: Connection) -> None:
    job_id = await jobs.enqueue(conn, "task", {})

    cancelled = await jobs.cancel(conn, job_id)

    job = await jobs.get_job(conn, job_id)
    assert cancelled is Status.FAILED
    assert await claim(conn) == []
    assert job.status == Status.FAILED
    assert job.last_error is not None
    assert job.last_error["code"] == "cancelled"


async def test_the_worker_of_a_running_job_is_told_by_its_heartbeat(conn: Connection) -> None:
    job_id = await jobs.enqueue(conn, "task", {})
    held = await claim_one(conn)

    cancelled = await jobs.cancel(conn, job_id)
    told = await jobs.heartbeat(conn, [held], [None])
    fate = await jobs.fail(conn, held, jobs.CANCELLED, delay_s=0)

    assert cancelled is Status.PROCESSING
    assert told == {job_id: True}
    assert fate is Fate.CANCELLED
    assert await status(conn, job_id) == Status.FAILED


@pytest.mark.parametrize("how", ["fail", "release", "snooze", "lost"])
async def test_a_job_that_was_cancelled_while_it_ran_does_not_come_back(conn: Connection, how: str) -> None:
    job_id = await jobs.enqueue(conn, "task", {})
    held = await claim_one(conn)
    await jobs.cancel(conn, job_id)

    if how == "fail":
        await jobs.fail(conn, held, BROKEN, delay_s=0)
    elif how == "release":
        await jobs.release(conn, [held])
    elif how == "snooze":
        await jobs.snooze(conn, held, 0)
    else:
        await age_locks(conn, 61)
        assert await jobs.reclaim(conn, ["task"], 60) == 0
        (lost,) = await jobs.lost_jobs(conn, ["task"], 60)
        assert await jobs.bury_lost(conn, lost, 60) is Fate.CANCELLED

    job = await jobs.get_job(conn, job_id)
    assert job.status == Status.FAILED
    assert job.last_error is not None
    assert job.last_error["code"] == "cancelled"


async def test_a_job_that_succeeded_before_its_worker_was_told_has_succeeded(conn: Connection) -> None:
    job_id = await jobs.enqueue(conn, "task", {})
    held = await claim_one(conn)
    await jobs.cancel(conn, job_id)

    assert await jobs.complete(conn, [held]) == {job_id}

    with pytest.raises(jobs.JobEnded) as refused:
        await jobs.cancel(conn, job_id)
    assert refused.value.members == {"job_status": "succeeded"}


# Snooze and time


async def test_a_snoozed_job_comes_back_later_and_the_attempt_does_not_count(conn: Connection) -> None:
    job_id = await jobs.enqueue(conn, "task", {}, max_attempts=1)

    fate = await jobs.snooze(conn, await claim_one(conn), 40)

    assert fate is Fate.QUEUED
    assert (await jobs.next_due(conn, ["task"], 60)).due_in_s == 40
    assert (await jobs.get_job(conn, job_id)).attempts == 0
    assert await jobs.list_attempts(conn, job_id) == []


async def test_a_job_runs_at_the_time_that_was_given(conn: Connection) -> None:
    now = await conn.fetchval("SELECT now()")
    late = await jobs.enqueue(conn, "task", {}, run_at=now + timedelta(hours=2))
    (later,) = await jobs.enqueue_many(conn, [NewJob("task", {}, run_at=now + timedelta(hours=3))])
    past = await jobs.enqueue(conn, "task", {}, run_at=datetime(2020, 1, 1, tzinfo=UTC))

    assert [job.id for job in await claim(conn, 10)] == [past]
    assert (await jobs.get_job(conn, late)).available_at - now == timedelta(hours=2)
    assert (await jobs.get_job(conn, later)).available_at - now == timedelta(hours=3)


async def test_a_time_without_a_zone_is_refused(conn: Connection) -> None:
    with pytest.raises(jobs.JobRefused):
        await jobs.enqueue(conn, "task", {}, run_at=datetime(2030, 1, 1))  # noqa: DTZ001


# Keys that are unique while a job waits


async def test_what_is_enqueued_while_one_waits_is_that_one(conn: Connection) -> None:
    first = await jobs.enqueue(conn, "task", {"n": 1}, queued_key="doc")

    again = await jobs.enqueue(conn, "task", {"n": 2}, queued_key="doc")
    many = await jobs.enqueue_many(conn, [NewJob("task", {}, queued_key=key) for key in ("doc", "new", "new")])

    assert again == first == many[0]
    assert many[1] == many[2] != first
    assert len(await claim(conn, 10)) == 2


async def test_what_is_enqueued_while_one_runs_makes_exactly_one_more_run(conn: Connection) -> None:
    first = await jobs.enqueue(conn, "task", {}, queued_key="doc")
    held = await claim_one(conn)

    second = await jobs.enqueue(conn, "task", {}, queued_key="doc")
    third = await jobs.enqueue(conn, "task", {}, queued_key="doc")
    await jobs.complete(conn, [held])

    assert second == third != first
    assert [job.id for job in await claim(conn, 10)] == [second]


async def test_a_waiting_job_is_not_begun_before_the_transaction_that_counts_on_it_ends(
    two_conns: tuple[Connection, Connection],
) -> None:
    producer, worker = two_conns
    waiting = await jobs.enqueue(producer, "task", {}, queued_key="doc")
    transaction = producer.transaction()
    await transaction.start()
    same = await jobs.enqueue(producer, "task", {}, queued_key="doc")

    too_early = await claim(worker)
    await transaction.commit()
    in_time = await claim(worker)

    assert same == waiting
    assert too_early == []
    assert [job.id for job in in_time] == [waiting]


@pytest.mark.parametrize("how", ["fail", "release", "snooze", "reclaim", "requeue"])
async def test_what_comes_back_and_meets_a_waiting_twin_folds_into_it(conn: Connection, how: str) -> None:
    old = await jobs.enqueue(conn, "task", {}, queued_key="doc")
    held = await claim_one(conn)
    if how == "requeue":
        await jobs.fail(conn, held, BROKEN, delay_s=0, permanent=True)
    twin = await jobs.enqueue(conn, "task", {}, queued_key="doc")

    if how == "fail":
        assert await jobs.fail(conn, held, BROKEN, delay_s=0) is Fate.FOLDED
    elif how == "release":
        assert await jobs.release(conn, [held]) == {old: Fate.FOLDED}
    elif how == "snooze":
        assert await jobs.snooze(conn, held, 0) is Fate.FOLDED
    elif how == "reclaim":
        await age_locks(conn, 61)
        assert await jobs.reclaim(conn, ["task"], 60) == 1
    else:
        await jobs.requeue(conn, old)

    folded = await jobs.get_job(conn, old)
    assert folded.status == Status.FAILED
    assert folded.last_error is not None
    assert folded.last_error["code"] == "superseded"
    assert [job.id for job in await claim(conn, 10)] == [twin]


async def test_two_runs_of_one_key_that_are_lost_together_come_back_as_one(conn: Connection) -> None:
    await jobs.enqueue(conn, "task", {}, queued_key="doc")
    await claim_one(conn)
    newer = await jobs.enqueue(conn, "task", {}, queued_key="doc")
    await claim_one(conn)
    other = await jobs.enqueue(conn, "task", {})
    await claim_one(conn)
    await age_locks(conn, 61)

    reclaimed = await jobs.reclaim(conn, ["task"], 60)

    assert reclaimed == 3
    assert {job.id for job in await claim(conn, 10)} == {newer, other}


async def test_a_twin_that_is_committed_between_look_and_write_stops_nothing(
    two_conns: tuple[Connection, Connection],
) -> None:
    worker, producer = two_conns
    old = await jobs.enqueue(worker, "task", {}, queued_key="doc")
    held = await claim_one(worker)
    transaction = producer.transaction()
    await transaction.start()
    await jobs.enqueue(producer, "task", {}, queued_key="doc")

    # Its look sees no twin yet; its write waits for the producer's transaction, and is refused.
    failing = asyncio.create_task(jobs.fail(worker, held, BROKEN, delay_s=0))
    done, _ = await asyncio.wait([failing], timeout=0.1)
    await transaction.commit()

    assert done == set()
    assert await asyncio.wait_for(failing, 5) is Fate.FOLDED
    assert [each.error["code"] for each in await jobs.list_attempts(worker, old)] == ["broken"]


async def test_a_job_has_one_key_or_the_other(conn: Connection) -> None:
    with pytest.raises(jobs.JobRefused):
        await jobs.enqueue(conn, "task", {}, idempotency_key="a", queued_key="b")
