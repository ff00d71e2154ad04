"""What a person does with jobs: let dead letters run again, give them up, cancel what waits or runs."""

from collections.abc import Sequence
from uuid import UUID

from nexarch.db import Connection
from nexarch.errors import Conflict
from nexarch.jobs.listing import get_job
from nexarch.jobs.rows import Queue, Status
from nexarch.jobs.settling import CANCELLED
from nexarch.jobs.twins import SUPERSEDED, once_more_if_a_twin_came

_BATCH = 1000


class JobNotDead(Conflict):
    """Only a dead letter can be queued again or discarded; `job_status` says what the job is."""

    code = "job-not-dead"
    title = "The job is no dead letter"


class JobEnded(Conflict):
    """Only a job that waits or runs can be cancelled; `job_status` says what the job is."""

    code = "job-ended"
    title = "The job has ended"


async def requeue(conn: Connection, job_id: UUID, *, given_up: bool = False, queue: Queue = Queue.DOCUMENTS) -> None:
    """Make a dead letter pending again with no attempt used; ring afterwards. It folds into a twin that waits.

    With `given_up` also what a person cancelled or discarded. Raises JobNotFound, and JobNotDead for a job in any
    other state.
    """
    sql = queue.sql("SELECT id FROM {jobs} WHERE id = $1 AND status = ANY($2::text[]) FOR UPDATE")
    ended = [Status.DEAD_LETTER, Status.FAILED] if given_up else [Status.DEAD_LETTER]
    async with conn.transaction():
        found = await conn.fetch(sql, job_id, ended)
        if not found:
            await _refuse(conn, job_id, "queued again", queue)
        await _revive(conn, [job_id], queue)


async def requeue_all(conn: Connection, job_type: str, *, queue: Queue = Queue.DOCUMENTS) -> int:
    """Make all dead letters of a type pending again, as `requeue` does; how many. In transactions of 1,000."""
    sql = queue.sql("""
        SELECT id
        FROM {jobs}
        WHERE status = 'dead_letter' AND job_type = $1 AND finished_at <= $2
        ORDER BY finished_at
        LIMIT $3
        FOR UPDATE SKIP LOCKED
    """)
    # One that dies again meanwhile is not taken a second time.
    begun = await conn.fetchval("SELECT now()")
    revived = 0
    while True:
        async with conn.transaction():
            dead = [row["id"] for row in await conn.fetch(sql, job_type, begun, _BATCH)]
            await _revive(conn, dead, queue)
        revived += len(dead)
        if len(dead) < _BATCH:
            return revived


async def _revive(conn: Connection, job_ids: Sequence[UUID], queue: Queue) -> None:
    """Queue jobs again whose rows the caller has locked."""
    sql = queue.sql("""
        WITH revived AS MATERIALIZED (
            SELECT id, queued_key IS NOT NULL AND (
                row_number() OVER (PARTITION BY queued_key ORDER BY id DESC) > 1
                OR EXISTS (
                    SELECT FROM {jobs} AS twin WHERE twin.queued_key = job.queued_key AND twin.status = 'pending'
                )
            ) AS folded
            FROM {jobs} AS job
            WHERE id = ANY($1::uuid[])
        )
        UPDATE {jobs} AS job
        SET status = CASE WHEN folded THEN 'failed' ELSE 'pending' END,
            finished_at = CASE WHEN folded THEN now() END,
            last_error = CASE WHEN folded THEN $2::text::jsonb || jsonb_build_object('at', now()) ELSE last_error END,
            attempts = 0, progress = 0, available_at = now(), cancel_requested_at = NULL, updated_at = now()
        FROM revived
        WHERE job.id = revived.id
    """)
    await once_more_if_a_twin_came(conn, sql, job_ids, SUPERSEDED.as_json())


async def discard(conn: Connection, job_id: UUID, *, queue: Queue = Queue.DOCUMENTS) -> None:
    """Give a dead letter up: it is `failed` from now on, and pruned in its time. Raises JobNotFound, JobNotDead."""
    sql = queue.sql("""
        UPDATE {jobs}
        SET status = 'failed', finished_at = now(), updated_at = now()
        WHERE id = $1 AND status = 'dead_letter'
        RETURNING true
    """)
    if not await conn.fetchval(sql, job_id):
        await _refuse(conn, job_id, "discarded", queue)


async def cancel(conn: Connection, job_id: UUID, *, queue: Queue = Queue.DOCUMENTS) -> Status:
    """Give a job up: FAILED at once if it waited. If it runs it is PROCESSING still, until its worker has heard of it:
    at its next heartbeat, or as soon as the channel JOB_CANCELS tells it.

    What succeeds before that has succeeded. Raises JobNotFound, and JobEnded for what has ended.
    """
    # updated_at stays while it runs: it is when the attempt began.
    sql = queue.sql("""
        UPDATE {jobs}
        SET status = CASE status WHEN 'pending' THEN 'failed' ELSE status END,
            finished_at = CASE status WHEN 'pending' THEN now() END,
            updated_at = CASE status WHEN 'pending' THEN now() ELSE updated_at END,
            last_error = CASE status WHEN 'pending' THEN $2::text::jsonb || jsonb_build_object('at', now())
                ELSE last_error END,
            cancel_requested_at = CASE status WHEN 'processing' THEN now() END
        WHERE id = $1 AND status IN ('pending', 'processing')
        RETURNING status
    """)
    status = await conn.fetchval(sql, job_id, CANCELLED.as_json())
    if status is not None:
        return Status(status)
    job = await get_job(conn, job_id, queue=queue)
    raise JobEnded(f"The job is {job.status}; it cannot be cancelled any more.", job_status=job.status)


async def _refuse(conn: Connection, job_id: UUID, wish: str, queue: Queue) -> None:
    job = await get_job(conn, job_id, queue=queue)
    raise JobNotDead(f"The job is {job.status}; only a dead letter can be {wish}.", job_status=job.status)
