"""The queue's rules, on the table itself."""

import asyncio
from uuid import UUID, uuid4

import pytest

from nexarch import jobs
from nexarch.db import Connection
from nexarch.jobs import Fate, JobError, NewJob, Status
from support.claims import BROKEN, age_locks, claim, claim_one, make_dead

pytestmark = pytest.mark.database


async def test_a_job_is_claimed_with_what_was_enqueued(conn: Connection) -> None:
    payload = {"document": "Übergrößenträger 🏔", "pages": [1, None, 2.5], "literal": "a\\u0000b"}
    job_id = await jobs.enqueue(conn, "task", payload, traceparent="00-1-2-01", max_attempts=3)

    job = await claim_one(conn)

    assert (job.id, job.payload, job.traceparent) == (job_id, payload, "00-1-2-01")
    assert (job.attempts, job.max_attempts, job.lease) == (1, 3, 1)


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
    assert (outlook.due_in_s, outlook.stale_in_s) == (120, None)


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

    assert (outlook.due_in_s, outlook.stale_in_s) == (None, 10)
    assert stale.stale_in_s == 0
    assert (nothing.due_in_s, nothing.stale_in_s) == (None, None)


async def test_the_outlook_passes_over_what_was_due_before_the_time_that_is_given(conn: Connection) -> None:
    for priority in (5, 0):
        await jobs.enqueue(conn, "task", {}, priority=priority)
    await conn.execute("UPDATE processing_jobs SET available_at = now() - interval '1 s'")
    await jobs.enqueue(conn, "task", {}, priority=-3, delay_s=40)
    now = (await jobs.next_due(conn, ["other"], 60)).first_due_at["other"]

    from_then_on = await jobs.next_due(conn, ["task"], 60, after={"task": now})
    of_all = await jobs.next_due(conn, ["task"], 60, after={"other": now})

    assert (from_then_on.due_in_s, from_then_on.first_due_at) == (40, {"task": now})
    assert (of_all.due_in_s, of_all.first_due_at) == (0, {"task": now - 1})


async def test_the_outlook_passes_over_every_priority(conn: Connection) -> None:
    for priority in range(5):
        await jobs.enqueue(conn, "task", {}, priority=priority)
        await jobs.enqueue(conn, "task", {}, priority=priority, delay_s=50 - priority)
    await conn.execute("UPDATE processing_jobs SET available_at = now() - interval '1 s' WHERE available_at = now()")
    now = (await jobs.next_due(conn, ["other"], 60)).first_due_at["other"]

    assert (await jobs.next_due(conn, ["task"], 60, after={"task": now})).due_in_s == 46


async def test_the_outlook_tells_where_jobs_wait_for_a_slot_but_not_that_they_are_due(conn: Connection) -> None:
    await jobs.enqueue(conn, "aside", {})
    await conn.execute("UPDATE processing_jobs SET available_at = now() - interval '7 s'")
    await jobs.enqueue(conn, "task", {}, delay_s=40)
    now = (await jobs.next_due(conn, ["other"], 60)).first_due_at["other"]

    outlook = await jobs.next_due(conn, ["task", "aside"], 60, aside={"aside"})
    none = await jobs.next_due(conn, ["aside", "task"], 60, aside={"aside", "task"})
    nothing = await jobs.next_due(conn, [], 60)

    assert (outlook.due_in_s, outlook.first_due_at) == (40, {"task": now, "aside": now - 7})
    assert (none.due_in_s, none.first_due_at) == (None, {"task": now, "aside": now - 7})
    assert (nothing.due_in_s, nothing.first_due_at) == (None, {})


async def test_the_outlook_tells_of_no_locks_where_none_are_asked_for(conn: Connection) -> None:
    await jobs.enqueue(conn, "task", {})
    await claim_one(conn)

    assert (await jobs.next_due(conn, ["task"], 60, locks=False)).stale_in_s is None


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
