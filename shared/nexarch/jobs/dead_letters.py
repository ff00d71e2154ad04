"""What a person does with jobs that were given up: let them run again."""

from uuid import UUID

from nexarch.db import Connection
from nexarch.errors import Conflict
from nexarch.jobs.listing import get_job
from nexarch.jobs.rows import Queue


class JobNotDead(Conflict):
    """Only a dead letter can be queued again."""

    code = "job-not-dead"


async def requeue(conn: Connection, job_id: UUID, *, queue: Queue = Queue.DOCUMENTS) -> None:
    """Make a dead letter pending again with no attempt used; ring afterwards.

    Raises JobNotFound, and JobNotDead for a job in any other state.
    """
    sql = queue.sql("""
        UPDATE {jobs}
        SET status = 'pending', attempts = 0, available_at = now(), finished_at = NULL, progress = 0,
            updated_at = now()
        WHERE id = $1 AND status = 'dead_letter'
        RETURNING true
    """)
    if await conn.fetchval(sql, job_id):
        return
    job = await get_job(conn, job_id, queue=queue)
    raise JobNotDead(f"The job is {job.status}; only a dead letter can be queued again.", job_status=job.status)
