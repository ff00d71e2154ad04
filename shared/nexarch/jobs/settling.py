"""Ending an attempt: each statement is fenced by (id, lease, `processing`), and its answer says what is true."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

from nexarch.db import Connection
from nexarch.jobs.rows import ClaimedJob, JobError, Queue
from nexarch.jobs.twins import SUPERSEDED, once_more_if_a_twin_came

CANCELLED = JobError("cancelled", "A person cancelled the job.")


class Fate(StrEnum):
    """What became of a job whose attempt ended without success."""

    QUEUED = "queued"  # it will be tried again
    DEAD = "dead"  # a dead letter: no attempt is left, or none makes sense
    CANCELLED = "cancelled"  # given up by a person while it ran
    FOLDED = "folded"  # another job with the same `queued_key` waits, and does its work


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
    # In the order of their ids, like every statement that locks several rows: no two can wait for each other.
    jobs = sorted(jobs, key=attrgetter("id"))
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
) -> Fate | None:
    """End an attempt with an error, which goes into its history; None if the job was not held.

    QUEUED again after `delay_s`; DEAD at once if `permanent`, else when its attempts are used up.
    """
    held = Held(job.id, job.lease, delay_s)
    fates = await put_back(conn, [held], error=error, permanent=permanent, counts=True, queue=queue)
    return fates.get(job.id)


async def release(
    conn: Connection, jobs: Sequence[ClaimedJob], *, queue: Queue = Queue.DOCUMENTS
) -> Mapping[UUID, Fate]:
    """Give held jobs back, runnable at once and without the attempt; return the fates of those still held.

    For an orderly stop: the job did nothing wrong. The lease stays, so the old holder remains fenced off.
    """
    return await put_back(conn, [Held(job.id, job.lease) for job in jobs], counts=False, queue=queue)


async def snooze(conn: Connection, job: ClaimedJob, delay_s: float, *, queue: Queue = Queue.DOCUMENTS) -> Fate | None:
    """Put a held job off for so long; the attempt does not count. None if it was not held."""
    fates = await put_back(conn, [Held(job.id, job.lease, delay_s)], counts=False, queue=queue)
    return fates.get(job.id)


class Held(NamedTuple):
    """A job to be put back, by its lock; without a delay it keeps the time at which it was due, so its place."""

    id: UUID
    lease: int
    delay_s: float | None = None


async def put_back(
    conn: Connection,
    jobs: Sequence[Held],
    *,
    error: JobError | None = None,
    permanent: bool = False,
    counts: bool,
    queue: Queue,
) -> dict[UUID, Fate]:
    """End attempts without success; the fates of those that were still held.

    If the attempt does not count, it is given back. An error makes a row in the history.
    """
    # While a job is processing, nothing but the claim sets updated_at: it is when the attempt began.
    sql = queue.sql("""
        WITH held AS MATERIALIZED (
            SELECT job.*, given.delay_s
            FROM {jobs} AS job
            JOIN unnest($1::uuid[], $2::bigint[], $4::float8[]) AS given (id, lease, delay_s)
                ON given.id = job.id AND given.lease = job.lease
            WHERE job.status = 'processing'
            ORDER BY job.id
            FOR UPDATE OF job
        ), ended AS (
            SELECT id, delay_s, queued_key, CASE
                WHEN cancel_requested_at IS NOT NULL THEN 'cancelled'
                WHEN $5 OR $6 AND attempts >= max_attempts THEN 'dead'
                ELSE 'queued' END AS fate
            FROM held
        ), judged AS (
            SELECT id, delay_s, CASE
                WHEN fate = 'queued' AND queued_key IS NOT NULL AND (
                    row_number() OVER (PARTITION BY queued_key, fate ORDER BY id DESC) > 1
                    OR EXISTS (
                        SELECT FROM {jobs} AS twin WHERE twin.queued_key = ended.queued_key AND twin.status = 'pending'
                    )
                ) THEN 'folded'
                ELSE fate END AS fate
            FROM ended
        ), history AS (
            INSERT INTO job_attempts (job_id, lease, attempt, worker, started_at, ended_at, error)
            SELECT id, lease, attempts, locked_by, updated_at, now(), $3::text::jsonb
            FROM held
            WHERE $3::text IS NOT NULL
        )
        UPDATE {jobs} AS job
        SET status = CASE fate WHEN 'queued' THEN 'pending' WHEN 'dead' THEN 'dead_letter' ELSE 'failed' END,
            finished_at = CASE WHEN fate <> 'queued' THEN now() END,
            available_at = coalesce(now() + make_interval(secs => delay_s), available_at),
            attempts = CASE WHEN $6 THEN attempts ELSE attempts - 1 END,
            last_error = coalesce(
                CASE fate WHEN 'cancelled' THEN $7::text WHEN 'folded' THEN $8::text ELSE $3::text END::jsonb
                    || jsonb_build_object('attempt', attempts, 'worker', locked_by, 'at', now()),
                last_error
            ),
            locked_at = NULL, locked_by = NULL, updated_at = now()
        FROM judged
        WHERE job.id = judged.id
        RETURNING job.id, fate
    """)
    rows = await once_more_if_a_twin_came(
        conn,
        sql,
        [job.id for job in jobs],
        [job.lease for job in jobs],
        None if error is None else error.as_json(),
        [job.delay_s for job in jobs],
        permanent,
        counts,
        CANCELLED.as_json(),
        SUPERSEDED.as_json(),
    )
    return {row["id"]: Fate(row["fate"]) for row in rows}
