"""What a worker holds, when it lost a job and claimed it again: a loop that was blocked for long does that."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import nullcontext

import pytest

from dms_worker.held import Heartbeat, HeldJob, HeldJobs, Visit
from dms_worker.job_types import JobContext, JobType
from nexarch import jobs
from nexarch.db import Pool, open_pool

pytestmark = pytest.mark.database


async def nothing(_ctx: JobContext) -> None:
    """A handler that is never called here."""


@pytest.fixture
async def pool(tenant_dsn: str) -> AsyncIterator[Pool]:
    async with open_pool(tenant_dsn, max_size=2, application_name="tests") as pool:
        yield pool


async def claim(pool: Pool) -> HeldJob:
    async with pool.acquire() as conn:
        (job,) = await jobs.claim(conn, "w1", {"task": 1})
    context, job_type = JobContext("acme", job, pool), JobType(name="task", handler=nothing)
    return HeldJob(context, job_type, Visit("acme", pool, nullcontext(pool)), time.monotonic())


async def test_a_job_that_was_lost_and_claimed_again_is_held_by_its_newest_lease_alone(pool: Pool) -> None:
    held_jobs = HeldJobs()
    async with pool.acquire() as conn:
        await jobs.enqueue(conn, "task", {})
        before = await claim(pool)
        await conn.execute("UPDATE processing_jobs SET locked_at = now() - interval '1 hour'")
        await jobs.reclaim(conn, ["task"], 60.0)
    now = await claim(pool)
    held_jobs.add(before)
    held_jobs.add(now)

    await Heartbeat(held_jobs, 60.0).renew(held_jobs)

    assert (before.cancelled_for, now.cancelled_for) == ("lost", None)
    held_jobs.remove(before)
    assert list(held_jobs) == [now]


async def test_a_persons_wish_cancels_the_handler_but_not_the_writing_of_how_it_ended(pool: Pool) -> None:
    async with pool.acquire() as conn:
        await jobs.enqueue_many(conn, [jobs.NewJob("task", {}), jobs.NewJob("task", {})])
        running, ended = await claim(pool), await claim(pool)
        running.deadline_at = time.monotonic() + 60
        for held in (running, ended):
            await jobs.cancel(conn, held.job.id)

    await Heartbeat(HeldJobs(), 60.0).renew([running, ended])

    assert (running.cancelled_for, ended.cancelled_for) == ("person", None)


async def test_a_job_that_is_cancelled_before_it_began_is_there_to_say_how_it_ended(pool: Pool) -> None:
    async with pool.acquire() as conn:
        await jobs.enqueue(conn, "task", {})
    held = await claim(pool)
    held.task = asyncio.create_task(nothing(held.ctx))

    held.cancel("stop")
    await asyncio.wait([held.task])

    assert held.cancelled_for == "stop"
    assert not held.task.cancelled()
