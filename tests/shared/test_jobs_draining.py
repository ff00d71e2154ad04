"""Completing and claiming in one statement keeps the rules of both."""

from datetime import UTC, datetime, timedelta

import pytest

from nexarch import jobs
from nexarch.db import Connection
from nexarch.jobs import ClaimedJob, NewJob

pytestmark = pytest.mark.database


async def statuses(conn: Connection) -> list[str]:
    return [row["status"] for row in await conn.fetch("SELECT status FROM processing_jobs ORDER BY id")]


async def test_what_has_finished_is_completed_and_what_is_due_is_claimed(tenant_conn: Connection) -> None:
    ids = [await jobs.enqueue(tenant_conn, "task", {}) for _ in range(4)]
    finished = await jobs.claim(tenant_conn, "w1", {"task": 2})

    lost, claimed = await jobs.complete_and_claim(tenant_conn, finished, "w1", {"task": 1})

    assert lost == set()
    assert [(job.id, job.lease, job.attempts) for job in claimed] == [(ids[2], 1, 1)]
    assert await statuses(tenant_conn) == ["succeeded", "succeeded", "processing", "pending"]


async def test_a_job_that_was_lost_meanwhile_stays_as_it_is_and_is_told(tenant_conn: Connection) -> None:
    for _ in range(3):
        await jobs.enqueue(tenant_conn, "task", {})
    kept, gone = await jobs.claim(tenant_conn, "w1", {"task": 2})
    await tenant_conn.execute("UPDATE processing_jobs SET locked_at = now() - interval '1 hour' WHERE id = $1", gone.id)
    await jobs.reclaim(tenant_conn, ["task"], 60.0)
    await tenant_conn.execute("UPDATE processing_jobs SET priority = 1 WHERE id = $1", gone.id)
    (again,) = await jobs.claim(tenant_conn, "w2", {"task": 1})

    lost, claimed = await jobs.complete_and_claim(tenant_conn, [gone, kept], "w1", {"task": 5})

    assert again.id == gone.id
    assert lost == {gone.id}
    assert len(claimed) == 1
    assert await statuses(tenant_conn) == ["succeeded", "processing", "processing"]


async def test_without_free_slots_it_only_completes(tenant_conn: Connection) -> None:
    for _ in range(2):
        await jobs.enqueue(tenant_conn, "task", {})
    finished = await jobs.claim(tenant_conn, "w1", {"task": 1})

    lost, claimed = await jobs.complete_and_claim(tenant_conn, finished, "w1", {})

    assert lost == set()
    assert claimed == []
    assert await statuses(tenant_conn) == ["succeeded", "pending"]


async def test_a_claim_may_begin_where_the_one_before_ended_and_passes_over_what_stands_before(
    tenant_conn: Connection,
) -> None:
    now = datetime.now(UTC)
    early, late, later = [
        await jobs.enqueue(tenant_conn, "task", {}, run_at=now - timedelta(hours=hours)) for hours in (3, 2, 1)
    ]
    first = await jobs.claim(tenant_conn, "w1", {"task": 1})
    came_back = await jobs.enqueue(tenant_conn, "task", {}, run_at=now - timedelta(hours=4))

    _, second = await jobs.complete_and_claim(tenant_conn, first, "w1", {"task": 1}, after=jobs.reached(first))
    _, rest = await jobs.complete_and_claim(tenant_conn, second, "w1", {"task": 5})

    assert [job.id for job in first] == [early]
    assert [job.id for job in second] == [late]
    assert 3599 < jobs.reached(second)["task"] - jobs.reached(first)["task"] < 3601
    assert {job.id for job in rest} == {came_back, later}


async def test_the_next_claim_may_begin_at_the_latest_of_those_that_were_claimed_of_its_type(
    tenant_conn: Connection,
) -> None:
    now = datetime.now(UTC)
    for job_type, hours in [("task", 3), ("task", 1), ("task", 2), ("other", 5)]:
        await jobs.enqueue(tenant_conn, job_type, {}, run_at=now - timedelta(hours=hours))

    claimed = await jobs.claim(tenant_conn, "w1", {"task": 3, "other": 1, "none": 1})

    ago = {name: round((now.timestamp() - due_at) / 3600) for name, due_at in jobs.reached(claimed).items()}
    assert ago == {"task": 1, "other": 5}


async def test_jobs_that_are_due_at_the_same_moment_are_not_passed_over(tenant_conn: Connection) -> None:
    await jobs.enqueue_many(tenant_conn, [NewJob("task", {}) for _ in range(30)])
    some: list[ClaimedJob] = []
    claimed: list[ClaimedJob] = []

    for _ in range(3):
        _, some = await jobs.complete_and_claim(tenant_conn, some, "w1", {"task": 10}, after=jobs.reached(some))
        claimed += some

    assert len({job.id for job in claimed}) == 30
