"""The queue's rules, on the table itself."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from nexarch import jobs
from nexarch.db import Connection, connect
from nexarch.jobs import ClaimedJob, Fate, JobError, NewJob, RetryPolicy, Status

pytestmark = pytest.mark.database

BROKEN = JobError("broken", "It broke.")


@pytest.fixture
async def conn(tenant_conn: Connection) -> Connection:
    return tenant_conn


@pytest.fixture
async def two_conns(tenant_dsn: str) -> AsyncIterator[tuple[Connection, Connection]]:
    """Two sessions that commit, for what happens between workers."""
    first = await connect(tenant_dsn, application_name="tests")
    second = await connect(tenant_dsn, application_name="tests")
    yield first, second
    await first.close()
    await second.close()


async def claim(conn: Connection, limit: int = 1, job_type: str = "task", worker: str = "w1") -> list[ClaimedJob]:
    return await jobs.claim(conn, worker, {job_type: limit})


async def claim_one(conn: Connection, worker: str = "w1") -> ClaimedJob:
    (job,) = await claim(conn, worker=worker)
    return job


async def age_locks(conn: Connection, seconds: float) -> None:
    await conn.execute("UPDATE processing_jobs SET locked_at = locked_at - make_interval(secs => $1)", seconds)


async def make_due(conn: Connection) -> None:
    await conn.execute("UPDATE processing_jobs SET available_at = now() - interval '1 second'")


async def make_dead(conn: Connection) -> UUID:
    job_id = await jobs.enqueue(conn, "task", {})
    await jobs.fail(conn, await claim_one(conn), BROKEN, delay_s=0, permanent=True)
    return job_id


async def test_a_job_is_claimed_with_what_was_enqueued(conn: Connection) -> None:
    payload = {"document": "Übergrößenträger 🏔", "pages": [1, None, 2.5], "literal": "a\\u0000b"}
    job_id = await jobs.enqueue(conn, "task", payload, traceparent="00-1-2-01", max_attempts=3)

    job = await claim_one(conn)

    assert (job.id, job.payload, job.traceparent) == (job_id, payload, "00-1-2-01")
    assert (job.attempts, job.max_attempts, job.lease) == (1, 3, 1)


async def test_a_rolled_back_enqueue_leaves_no_job(two_conns: tuple[Connection, Connection]) -> None:
    conn, _ = two_conns
    transaction = conn.transaction()
    await transaction.start()
    await jobs.enqueue(conn, "task", {})

    await transaction.rollback()

    assert await claim(conn) == []


async def test_a_payload_of_a_mebibyte_is_stored(conn: Connection) -> None:
    await jobs.enqueue(conn, "task", {"text": "x" * 2**20})

    job = await claim_one(conn)

    assert len(job.payload["text"]) == 2**20


@pytest.mark.parametrize(
    "payload",
    [
        {"text": "a\x00b"},
        {"nested": [{"\x00": 1}]},
        {"text": "\ud800"},
        {"number": float("nan")},
        {"number": float("inf")},
        {"bytes": b"no"},
    ],
)
async def test_a_payload_that_postgres_cannot_hold_is_refused(conn: Connection, payload: dict[str, Any]) -> None:
    with pytest.raises(jobs.JobRefused):
        await jobs.enqueue(conn, "task", payload)


@pytest.mark.parametrize(
    "wrong",
    [
        {"job_type": "Not A Type"},
        {"job_type": "with\x00nul"},
        {"idempotency_key": ""},
        {"idempotency_key": "\udfff"},
        {"priority": 70_000},
        {"max_attempts": 0},
    ],
)
async def test_a_job_that_breaks_a_rule_of_the_table_is_refused(conn: Connection, wrong: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"job_type": "task", "payload": {}} | wrong

    with pytest.raises(jobs.JobRefused) as refused:
        async with conn.transaction():
            await jobs.enqueue(conn, **arguments)
    with pytest.raises(jobs.JobRefused):
        await jobs.enqueue_many(conn, [NewJob(**arguments)])

    assert refused.value.code == "job-refused"


async def test_an_idempotency_key_gives_the_first_job_for_ever(conn: Connection) -> None:
    first = await jobs.enqueue(conn, "task", {"n": 1}, idempotency_key="k")
    await jobs.complete(conn, await claim(conn))

    second = await jobs.enqueue(conn, "task", {"n": 2}, idempotency_key="k")

    assert second == first
    assert await claim(conn) == []


async def test_a_key_that_another_transaction_is_adding_is_waited_for(
    two_conns: tuple[Connection, Connection],
) -> None:
    first_conn, second_conn = two_conns
    transaction = first_conn.transaction()
    await transaction.start()
    first = await jobs.enqueue(first_conn, "task", {}, idempotency_key="k")

    waiting = asyncio.create_task(jobs.enqueue(second_conn, "task", {}, idempotency_key="k"))
    done, _ = await asyncio.wait([waiting], timeout=0.1)
    await transaction.commit()

    assert done == set()
    assert await asyncio.wait_for(waiting, 5) == first


async def test_many_jobs_come_back_in_the_order_given(conn: Connection) -> None:
    known = await jobs.enqueue(conn, "task", {"n": -1}, idempotency_key="known")
    new = [NewJob("task", {"n": n}, idempotency_key=f"k{9 - n}" if n % 2 else None) for n in range(10)]
    repeated = [NewJob("task", {"n": 99}, idempotency_key="k8"), NewJob("task", {}, idempotency_key="known")]

    ids = await jobs.enqueue_many(conn, [*new, *repeated])

    assert len(set(ids[:10])) == 10
    assert [(await jobs.get_job(conn, job_id)).payload["n"] for job_id in ids[:10]] == list(range(10))
    assert ids[10] == ids[1]
    assert ids[11] == known


async def test_callers_that_add_the_same_keys_in_opposite_orders_do_not_deadlock(
    two_conns: tuple[Connection, Connection],
) -> None:
    for number in range(5):
        batch = [NewJob("task", {}, idempotency_key=f"{number}-{key}") for key in range(2000)]

        forwards, backwards = await asyncio.gather(
            jobs.enqueue_many(two_conns[0], batch), jobs.enqueue_many(two_conns[1], batch[::-1])
        )

        assert forwards == backwards[::-1]


async def test_two_workers_never_claim_the_same_job(two_conns: tuple[Connection, Connection]) -> None:
    for conn in two_conns:
        await claim(conn)  # each session prepares its statement, so that both start together
    await jobs.enqueue_many(two_conns[0], [NewJob("task", {}) for _ in range(300)])

    async def claim_all(conn: Connection, worker: str) -> list[UUID]:
        claimed: list[UUID] = []
        while batch := await claim(conn, 7, worker=worker):
            claimed += [job.id for job in batch]
        return claimed

    by_first, by_second = await asyncio.gather(claim_all(two_conns[0], "w1"), claim_all(two_conns[1], "w2"))

    assert len(by_first) + len(by_second) == 300
    assert len({*by_first, *by_second}) == 300
    assert by_first
    assert by_second


async def test_a_claim_passes_over_rows_that_another_claim_is_taking(
    two_conns: tuple[Connection, Connection],
) -> None:
    await jobs.enqueue_many(two_conns[0], [NewJob("task", {}) for _ in range(3)])
    async with two_conns[0].transaction():
        (taken,) = await claim(two_conns[0])

        others = await asyncio.wait_for(claim(two_conns[1], 10, worker="w2"), 5)

    assert len(others) == 2
    assert taken.id not in {job.id for job in others}


async def test_a_claim_never_takes_more_than_was_asked_of_each_type(conn: Connection) -> None:
    await jobs.enqueue_many(conn, [NewJob("task", {}) for _ in range(20)] + [NewJob("other", {}) for _ in range(2)])

    claimed = await jobs.claim(conn, "w1", {"task": 3, "other": 5, "absent": 5})

    assert sorted(job.job_type for job in claimed) == ["other"] * 2 + ["task"] * 3


async def test_the_higher_priority_is_claimed_first_then_what_was_due_first(conn: Connection) -> None:
    low = await jobs.enqueue(conn, "task", {}, priority=-1)
    later = await jobs.enqueue(conn, "task", {})
    earlier = await jobs.enqueue(conn, "task", {})
    urgent = await jobs.enqueue(conn, "task", {}, priority=5)
    await conn.execute(
        "UPDATE processing_jobs SET available_at = available_at - interval '1 hour' WHERE id = $1", earlier
    )

    order = [(await claim_one(conn)).id for _ in range(4)]

    assert order == [urgent, earlier, later, low]


async def test_a_delayed_job_is_not_due_yet(conn: Connection) -> None:
    await jobs.enqueue(conn, "task", {}, delay_s=120)

    claimed = await claim(conn)
    outlook = await jobs.next_due(conn, ["task"], 60)

    assert claimed == []
    assert outlook == jobs.Outlook(due_in_s=120, stale_in_s=None)


async def test_the_outlook_is_the_earliest_of_all_priorities(conn: Connection) -> None:
    for priority, delay_s in ((5, 90), (5, 80), (0, 30), (0, 70), (-3, 60)):
        await jobs.enqueue(conn, "task", {}, priority=priority, delay_s=delay_s)
    await jobs.enqueue(conn, "other", {}, delay_s=10)

    assert (await jobs.next_due(conn, ["task"], 60)).due_in_s == 30
    assert (await jobs.next_due(conn, ["task", "other"], 60)).due_in_s == 10


async def test_the_outlook_tells_when_the_first_lock_goes_stale(conn: Connection) -> None:
    await jobs.enqueue_many(conn, [NewJob("task", {}), NewJob("task", {})])
    await claim_one(conn)
    await age_locks(conn, 50)
    await claim_one(conn)

    outlook = await jobs.next_due(conn, ["task"], 60)
    stale = await jobs.next_due(conn, ["task"], 40)
    nothing = await jobs.next_due(conn, ["other"], 60)

    assert outlook == jobs.Outlook(due_in_s=None, stale_in_s=10)
    assert stale.stale_in_s == 0
    assert nothing == jobs.Outlook(due_in_s=None, stale_in_s=None)


async def test_completed_jobs_are_done(conn: Connection) -> None:
    await jobs.enqueue_many(conn, [NewJob("task", {}) for _ in range(3)])
    claimed = await claim(conn, 3)

    done = await jobs.complete(conn, claimed)

    assert done == {job.id for job in claimed}
    row = await jobs.get_job(conn, claimed[0].id)
    assert (row.status, row.progress, row.locked_by) == (Status.SUCCEEDED, 100, None)
    assert row.finished_at is not None


async def test_a_failed_attempt_comes_back_after_its_delay(conn: Connection) -> None:
    job_id = await jobs.enqueue(conn, "task", {})

    fate = await jobs.fail(conn, await claim_one(conn), BROKEN, delay_s=30)

    assert fate is Fate.QUEUED
    assert (await jobs.next_due(conn, ["task"], 60)).due_in_s == 30
    row = await jobs.get_job(conn, job_id)
    assert row.last_error is not None
    assert (row.last_error["code"], row.last_error["attempt"], row.last_error["worker"]) == ("broken", 1, "w1")


async def test_the_last_attempt_that_fails_is_a_dead_letter(conn: Connection) -> None:
    await jobs.enqueue(conn, "task", {}, max_attempts=2)

    first = await jobs.fail(conn, await claim_one(conn), BROKEN, delay_s=0)
    last = await jobs.fail(conn, await claim_one(conn), BROKEN, delay_s=0)

    assert (first, last) == (Fate.QUEUED, Fate.DEAD)


async def test_a_permanent_error_is_a_dead_letter_at_once(conn: Connection) -> None:
    job_id = await make_dead(conn)

    assert (await jobs.get_job(conn, job_id)).status == Status.DEAD_LETTER
    assert await claim(conn) == []


async def test_an_error_with_nul_and_lone_surrogates_is_stored(conn: Connection) -> None:
    job_id = await jobs.enqueue(conn, "task", {})
    error = JobError("odd", "a\x00b\ud800c" + "x" * 10_000, "trace\x00back")

    await jobs.fail(conn, await claim_one(conn), error, delay_s=0)

    stored = (await jobs.get_job(conn, job_id)).last_error
    assert stored is not None
    assert stored["detail"].startswith("a\ufffdb\ufffdc")
    assert len(stored["detail"]) == 2000
    assert stored["traceback"] == "trace\ufffdback"


async def test_a_released_job_gets_its_attempt_back_and_is_runnable_at_once(conn: Connection) -> None:
    await jobs.enqueue(conn, "task", {})
    held = await claim_one(conn)

    released = await jobs.release(conn, [held])
    again = await claim_one(conn, worker="w2")

    assert released == {held.id: Fate.QUEUED}
    assert (again.attempts, again.lease) == (1, 2)


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


async def test_a_dead_letter_can_be_queued_again(conn: Connection) -> None:
    job_id = await make_dead(conn)

    await jobs.requeue(conn, job_id)

    assert (await claim_one(conn)).attempts == 1


async def test_only_a_dead_letter_can_be_queued_again(conn: Connection) -> None:
    job_id = await jobs.enqueue(conn, "task", {})

    with pytest.raises(jobs.JobNotDead) as refused:
        await jobs.requeue(conn, job_id)
    with pytest.raises(jobs.JobNotFound):
        await jobs.requeue(conn, uuid4())

    assert refused.value.members == {"job_status": "pending"}


def test_a_retry_waits_thirty_seconds_times_the_attempts_up_to_ten() -> None:
    policy = RetryPolicy(jitter=0)

    assert [policy.delay_s(attempts) for attempts in (1, 2, 10, 50)] == [30, 60, 300, 300]


def test_an_exponential_retry_doubles() -> None:
    policy = RetryPolicy(base_s=2, exponential=True, cap_attempts=4, jitter=0)

    assert [policy.delay_s(attempts) for attempts in (1, 2, 3, 4, 5)] == [2, 4, 8, 16, 16]


def test_jitter_adds_at_most_a_fifth() -> None:
    delays = {RetryPolicy().delay_s(1) for _ in range(200)}

    assert 30 <= min(delays) < max(delays) <= 36
