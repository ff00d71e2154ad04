"""What a person does with jobs that were given up: look, and let them run again."""

import json
from uuid import UUID

from nexarch.db import Connection
from nexarch.errors import Conflict, NotFound
from nexarch.jobs.rows import Job, Queue


class JobNotFound(NotFound):
    """There is no job with this id in this queue."""

    code = "job-not-found"


class JobNotDead(Conflict):
    """Only a dead letter can be queued again."""

    code = "job-not-dead"


async def get_job(conn: Connection, job_id: UUID, *, queue: Queue = Queue.DOCUMENTS) -> Job:
    """One job, whatever its state; JobNotFound."""
    # As text, so that it works with and without the jsonb codec of `nexarch.db`.
    sql = queue.sql("""
        SELECT id, job_type, payload::text AS payload, idempotency_key, status, priority, attempts, max_attempts,
            available_at, locked_at, locked_by, lease, last_error::text AS last_error, progress, traceparent,
            created_at, updated_at, finished_at
        FROM {jobs}
        WHERE id = $1
    """)
    row = await conn.fetchrow(sql, job_id)
    if row is None:
        raise JobNotFound("There is no such job.")
    values = dict(row)
    values["payload"] = json.loads(values["payload"])
    values["last_error"] = json.loads(values["last_error"]) if values["last_error"] else None
    return Job(**values)


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
