"""Jobs of the type `task`, claimed by hand on the table itself."""

from uuid import UUID

from nexarch import jobs
from nexarch.db import Connection
from nexarch.jobs import ClaimedJob, JobError

BROKEN = JobError("broken", "It broke.", "Traceback: line 1")


async def claim(conn: Connection, limit: int = 1, worker: str = "w1") -> list[ClaimedJob]:
    """At most so many of the jobs that are due."""
    return await jobs.claim(conn, worker, {"task": limit})


async def claim_one(conn: Connection, worker: str = "w1") -> ClaimedJob:
    """The job that is due; there has to be one."""
    (job,) = await claim(conn, worker=worker)
    return job


async def age_locks(conn: Connection, seconds: float) -> None:
    """Let all locks be so much older."""
    await conn.execute("UPDATE processing_jobs SET locked_at = locked_at - make_interval(secs => $1)", seconds)


async def make_dead(conn: Connection, *, queued_key: str | None = None) -> UUID:
    """A dead letter."""
    job_id = await jobs.enqueue(conn, "task", {}, queued_key=queued_key)
    await jobs.fail(conn, await claim_one(conn), BROKEN, delay_s=0, permanent=True)
    return job_id
