"""Ending an attempt: each statement is fenced by (id, lease, `processing`), and its answer says what is true."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from nexarch.db import Connection
from nexarch.jobs.rows import ClaimedJob, JobError, Queue, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long to wait after a failed attempt: `base_s` times the attempts, or doubled by each; see `delay_s`."""

    base_s: float = 30.0
    cap_attempts: int = 10  # attempts beyond this many wait no longer
    exponential: bool = False
    jitter: float = 0.2  # up to this share more, so that jobs that failed together come back apart

    def delay_s(self, attempts: int) -> float:
        """Seconds after the failure of attempt number `attempts` (1 is the first)."""
        counted = min(attempts, self.cap_attempts)
        delay = self.base_s * (2 ** (counted - 1) if self.exponential else counted)
        return delay * (1 + self.jitter * random.random())  # noqa: S311 - not a secret


async def complete(conn: Connection, jobs: Sequence[ClaimedJob], *, queue: Queue = Queue.DOCUMENTS) -> set[UUID]:
    """Mark held jobs as succeeded in one statement; return those that were still held by the caller."""
    sql = queue.sql("""
        UPDATE {jobs} AS job
        SET status = 'succeeded', progress = 100, locked_at = NULL, locked_by = NULL, updated_at = now(),
            finished_at = now()
        FROM unnest($1::uuid[], $2::bigint[]) AS done (id, lease)
        WHERE job.id = done.id AND job.lease = done.lease AND job.status = 'processing'
        RETURNING job.id
    """)
    rows = await conn.fetch(sql, [job.id for job in jobs], [job.lease for job in jobs])
    return {row["id"] for row in rows}


async def fail(
    conn: Connection,
    job: ClaimedJob,
    error: JobError,
    *,
    delay_s: float,
    permanent: bool = False,
    queue: Queue = Queue.DOCUMENTS,
) -> Status | None:
    """End an attempt with an error: PENDING again after `delay_s`, or a DEAD_LETTER; None if it was not held.

    Dead at once if `permanent`, else when its attempts are used up.
    """
    sql = queue.sql("""
        UPDATE {jobs}
        SET status = CASE WHEN $5 OR attempts >= max_attempts THEN 'dead_letter' ELSE 'pending' END,
            finished_at = CASE WHEN $5 OR attempts >= max_attempts THEN now() END,
            available_at = now() + make_interval(secs => $4),
            last_error = $3::text::jsonb || jsonb_build_object('attempt', attempts, 'worker', locked_by, 'at', now()),
            locked_at = NULL, locked_by = NULL, updated_at = now()
        WHERE id = $1 AND lease = $2 AND status = 'processing'
        RETURNING status
    """)
    status = await conn.fetchval(sql, job.id, job.lease, error.as_json(), delay_s, permanent)
    return None if status is None else Status(status)


async def release(conn: Connection, jobs: Sequence[ClaimedJob], *, queue: Queue = Queue.DOCUMENTS) -> set[UUID]:
    """Give held jobs back, runnable at once and without the attempt; return those that were still held.

    For an orderly stop: the job did nothing wrong. The lease stays, so the old holder remains fenced off.
    """
    sql = queue.sql("""
        UPDATE {jobs} AS job
        SET status = 'pending', attempts = attempts - 1, locked_at = NULL, locked_by = NULL, updated_at = now()
        FROM unnest($1::uuid[], $2::bigint[]) AS given_back (id, lease)
        WHERE job.id = given_back.id AND job.lease = given_back.lease AND job.status = 'processing'
        RETURNING job.id
    """)
    rows = await conn.fetch(sql, [job.id for job in jobs], [job.lease for job in jobs])
    return {row["id"] for row in rows}
