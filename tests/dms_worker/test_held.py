"""What a worker holds, when it lost a job and claimed it again: a loop that was blocked for long does that."""

import time
from contextlib import nullcontext

import pytest

from dms_worker.held import Heartbeat, HeldJob, HeldJobs, Visit
from dms_worker.job_types import JobContext, JobType
from nexarch import jobs
from nexarch.db import open_pool

pytestmark = pytest.mark.database


async def nothing(_ctx: JobContext) -> None:
    """A handler that is never called here."""


async def test_a_job_that_was_lost_and_claimed_again_is_held_by_its_newest_lease_alone(tenant_dsn: str) -> None:
    held_jobs = HeldJobs()
    async with open_pool(tenant_dsn, max_size=2, application_name="tests") as pool, pool.acquire() as conn:
        visit = Visit("acme", pool, nullcontext(pool))

        async def claim() -> HeldJob:
            (job,) = await jobs.claim(conn, "w1", {"task": 1})
            held = HeldJob(
                JobContext("acme", job, pool), JobType(name="task", handler=nothing), visit, time.monotonic()
            )
            held_jobs.add(held)
            return held

        await jobs.enqueue(conn, "task", {})
        before = await claim()
        await conn.execute("UPDATE processing_jobs SET locked_at = now() - interval '1 hour'")
        await jobs.reclaim(conn, ["task"], 60.0)
        now = await claim()

        await Heartbeat(held_jobs, 60.0).renew(held_jobs)

    assert (before.cancelled_for, now.cancelled_for) == ("lost", None)
    held_jobs.remove(before)
    assert list(held_jobs) == [now]
