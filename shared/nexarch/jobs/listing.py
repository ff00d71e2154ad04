"""Looking at jobs: one, or a page of them."""

import json
from typing import LiteralString
from uuid import UUID

import asyncpg

from nexarch.db import Connection
from nexarch.errors import NotFound
from nexarch.jobs.rows import Attempt, Job, Queue, Status


class JobNotFound(NotFound):
    """There is no job with this id in this queue."""

    code = "job-not-found"
    title = "There is no such job"


async def get_job(conn: Connection, job_id: UUID, *, queue: Queue = Queue.DOCUMENTS) -> Job:
    """One job, whatever its state; JobNotFound."""
    # As text, so that it works with and without the jsonb codec of `nexarch.db`.
    sql = queue.sql("""
        SELECT id, job_type, payload::text AS payload, idempotency_key, queued_key, status, priority, attempts,
            max_attempts, available_at, locked_at, locked_by, lease, last_error::text AS last_error, progress,
            traceparent, created_at, updated_at, finished_at, cancel_requested_at
        FROM {jobs}
        WHERE id = $1
    """)
    row = await conn.fetchrow(sql, job_id)
    if row is None:
        raise JobNotFound("There is no such job.")
    return _job(row)


# As literals, so that the planner knows which partial index holds them: dead letters are few among a million.
_IN_STATE: dict[Status | None, LiteralString] = {
    None: "true",
    Status.PENDING: "status = 'pending'",
    Status.PROCESSING: "status = 'processing'",
    Status.SUCCEEDED: "status = 'succeeded'",
    Status.FAILED: "status = 'failed'",
    Status.DEAD_LETTER: "status = 'dead_letter'",
}


async def list_jobs(
    conn: Connection,
    *,
    status: Status | None = None,
    job_type: str | None = None,
    before: UUID | None = None,
    limit: int,
    queue: Queue = Queue.DOCUMENTS,
) -> list[Job]:
    """The newest `limit` jobs, of one status and type or of all, that were made before the job `before`."""
    sql = queue.sql("""
        SELECT id, job_type, payload::text AS payload, idempotency_key, queued_key, status, priority, attempts,
            max_attempts, available_at, locked_at, locked_by, lease, last_error::text AS last_error, progress,
            traceparent, created_at, updated_at, finished_at, cancel_requested_at
        FROM {jobs}
        WHERE ($1::text IS NULL OR job_type = $1) AND ($2::uuid IS NULL OR id < $2) AND {state}
        ORDER BY id DESC
        LIMIT $3
    """).replace("{state}", _IN_STATE[status])
    return [_job(row) for row in await conn.fetch(sql, job_type, before, limit)]


async def list_attempts(conn: Connection, job_id: UUID, *, limit: int = 100) -> list[Attempt]:
    """The last attempts of a job that failed, oldest first; one that succeeded leaves no trace but the job's own."""
    sql = """
        SELECT attempt, worker, started_at, ended_at, error::text AS error
        FROM job_attempts
        WHERE job_id = $1
        ORDER BY lease DESC
        LIMIT $2
    """
    rows = [dict(row) for row in await conn.fetch(sql, job_id, limit)]
    return [Attempt(**row | {"error": json.loads(row["error"])}) for row in reversed(rows)]


def _job(row: asyncpg.Record) -> Job:
    values = dict(row)
    values["payload"] = json.loads(values["payload"])
    values["last_error"] = json.loads(values["last_error"]) if values["last_error"] else None
    return Job(**values)
