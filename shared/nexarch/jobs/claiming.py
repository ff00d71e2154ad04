"""Taking jobs, keeping them, and taking them back from workers that died."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final
from uuid import UUID

from nexarch.db import Connection
from nexarch.jobs.rows import ClaimedJob, JobError, Queue
from nexarch.jobs.settling import Fate, Held, put_back

WORKER_LOST = JobError("worker-lost", "The worker died, or lost touch for longer than the stale time.")
FROM_THE_FIRST: Final[Mapping[str, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a queue holds for later: seconds until its next job is due, and until its first lock goes stale.

    Never negative; 0 means now and None never. `first_due_at` says of each type before what time no job waits, in Unix
    seconds by Postgres' clock: the time of the look, or that at which the first of its jobs was due.
    """

    due_in_s: float | None
    stale_in_s: float | None
    first_due_at: Mapping[str, float]


async def claim(
    conn: Connection,
    worker: str,
    limits: Mapping[str, int],
    *,
    after: Mapping[str, float] = FROM_THE_FIRST,
    queue: Queue = Queue.DOCUMENTS,
) -> list[ClaimedJob]:
    """Take the jobs that are due: of each type at most so many, by priority, then by the time they were due.

    `worker` names this start of a process, never a host: a lock must not pass to its successor. Rows that another
    claim is taking are passed over, not waited for. Each call counts as an attempt for what it returns.

    `after` has the claim pass over what was due before such a time, by type. In a backlog that is where claimed jobs
    stood: until a vacuum the index leads to each of them still, and a claim from the first one walks past them all.
    What came to stand there since is not claimed: claim without it now and then, or learn from `next_due` where to
    begin.
    """
    if not limits:
        return []
    # The lateral keeps each type in the order of its own index, however many jobs of other types stand before it.
    # ARRAY(...) runs once: a join could be planned so that the LIMIT runs again and takes more.
    # date_part, because extract counts in numeric, a quarter of a microsecond a job.
    statement = """
        UPDATE {jobs}
        SET status = 'processing', attempts = attempts + 1, lease = lease + 1, locked_by = $1, locked_at = now(),
            updated_at = now()
        WHERE id = ANY(ARRAY(
            SELECT picked.id
            FROM (VALUES {wanted}) AS wanted (job_type, slots, after)
            CROSS JOIN LATERAL (
                SELECT id
                FROM {jobs}
                WHERE status = 'pending' AND job_type = wanted.job_type AND available_at <= now()
                    AND available_at >= to_timestamp(wanted.after)
                ORDER BY priority DESC, available_at, id
                LIMIT wanted.slots
                FOR UPDATE SKIP LOCKED
            ) AS picked
        ))
        RETURNING id, lease, job_type, payload::text, attempts, max_attempts, traceparent,
            date_part('epoch', now() - available_at), date_part('epoch', available_at)
    """
    sql = queue.sql(statement, wanted=wanted_rows(len(limits), first=2))
    return [ClaimedJob(*row) for row in await conn.fetch(sql, worker, *wanted_values(limits, after))]


@cache
def wanted_rows(number: int, *, first: int) -> str:
    """So many rows of `wanted_values` for a VALUES, as parameters from `$first` on.

    Arrays would be unnested by a function, 15 µs of a claim after a rest.
    """
    starts = range(first, first + 3 * number, 3)
    return ", ".join(f"(${each}::text, ${each + 1}::integer, ${each + 2}::float8)" for each in starts)


def wanted_values(limits: Mapping[str, int], after: Mapping[str, float]) -> list[object]:
    """Of each type its name, how many to claim, and where to begin in Unix seconds."""
    return [value for name, slots in limits.items() for value in (name, slots, after.get(name, -math.inf))]


async def heartbeat(
    conn: Connection,
    jobs: Sequence[ClaimedJob],
    progress: Sequence[int | None],
    *,
    queue: Queue = Queue.DOCUMENTS,
) -> dict[UUID, bool]:
    """Renew the locks on held jobs, store their progress in percent (None: as it was).

    Returns what is still held, and of each whether a person has cancelled it.

    It waits for no lock: a handler that has completed its job and not yet committed would hold up the renewal of all
    the others, and two statements that wait for each other's rows are a deadlock. Such a row counts as held, and
    nobody can take it meanwhile.
    """
    sql = queue.sql("""
        WITH held AS MATERIALIZED (
            SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::smallint[]) AS held (id, lease, progress)
        ), free AS MATERIALIZED (
            SELECT job.id, held.progress
            FROM held
            JOIN {jobs} AS job ON job.id = held.id AND job.lease = held.lease AND job.status = 'processing'
            FOR NO KEY UPDATE OF job SKIP LOCKED
        ), renewed AS (
            UPDATE {jobs} AS job
            SET locked_at = now(), progress = coalesce(free.progress, job.progress)
            FROM free
            WHERE job.id = free.id
        )
        SELECT job.id, job.cancel_requested_at IS NOT NULL AS cancelled
        FROM held
        JOIN {jobs} AS job ON job.id = held.id AND job.lease = held.lease AND job.status = 'processing'
    """)
    rows = await conn.fetch(sql, [job.id for job in jobs], [job.lease for job in jobs], progress)
    return {row["id"]: row["cancelled"] for row in rows}


async def next_due(
    conn: Connection,
    job_types: Sequence[str],
    stale_after_s: float,
    *,
    aside: Collection[str] = (),
    locks: bool = True,
    after: Mapping[str, float] = FROM_THE_FIRST,
    queue: Queue = Queue.DOCUMENTS,
) -> Outlook:
    """When to look at this queue again if no ring comes first: retries, schedules, locks of workers that died.

    `due_in_s` leaves out the types in `aside`, for which no slot is free. Without `locks` none are looked at. `after`
    passes over jobs as in `claim`: `first_due_at` then knows nothing of them.
    """
    # From priority to priority, of each only the first: a minimum over all would read every job that waits.
    sql = queue.sql("""
        SELECT extract(
                epoch FROM min(pending.available_at) FILTER (WHERE wanted.job_type <> ALL($5::text[])) - now()
            )::float8 AS due_in_s,
            extract(epoch FROM (
                SELECT min(locked_at) + make_interval(secs => $2)
                FROM {jobs}
                WHERE $3::boolean AND status = 'processing' AND job_type = ANY($1::text[])
            ) - now())::float8 AS stale_in_s,
            array_agg(date_part('epoch', least(pending.available_at, now())) ORDER BY place) AS first_due_at
        FROM unnest($1::text[], $4::float8[]) WITH ORDINALITY AS wanted (job_type, after, place)
        CROSS JOIN LATERAL (
            WITH RECURSIVE first AS (
                (
                    SELECT priority, available_at
                    FROM {jobs}
                    WHERE status = 'pending' AND job_type = wanted.job_type
                        AND available_at >= to_timestamp(wanted.after)
                    ORDER BY priority DESC, available_at, id
                    LIMIT 1
                )
                UNION ALL
                SELECT below.priority, below.available_at
                FROM first
                CROSS JOIN LATERAL (
                    SELECT priority, available_at
                    FROM {jobs}
                    WHERE status = 'pending' AND job_type = wanted.job_type AND priority < first.priority
                        AND available_at >= to_timestamp(wanted.after)
                    ORDER BY priority DESC, available_at, id
                    LIMIT 1
                ) AS below
            )
            SELECT min(available_at) AS available_at FROM first
        ) AS pending
    """)
    starts = [after.get(name, -math.inf) for name in job_types]
    row = await conn.fetchrow(sql, job_types, stale_after_s, locks, starts, list(aside))
    assert row is not None
    first_due_at = dict(zip(job_types, row["first_due_at"] or (), strict=True))
    return Outlook(_not_negative(row["due_in_s"]), _not_negative(row["stale_in_s"]), first_due_at)


def _not_negative(seconds: float | None) -> float | None:
    return None if seconds is None else max(0.0, seconds)


async def reclaim(
    conn: Connection, job_types: Sequence[str], stale_after_s: float, *, queue: Queue = Queue.DOCUMENTS
) -> int:
    """Make the jobs of lost workers pending again; return how many. For those that will not run again: `lost_jobs`.

    A job that lost one worker may run at once. Those that lost more come back apart, somewhen within the stale time:
    one of them may be what kills the workers, and would each time take with it the jobs that are claimed beside it.
    The lock is judged again after the row is locked, so a heartbeat or a completion that came first wins.
    """
    sql = queue.sql("""
        SELECT id, lease, CASE WHEN attempts > 1 THEN random() * $2 ELSE 0 END
        FROM {jobs}
        WHERE status = 'processing' AND job_type = ANY($1::text[]) AND attempts < max_attempts
            AND cancel_requested_at IS NULL AND locked_at < now() - make_interval(secs => $2)
        FOR UPDATE SKIP LOCKED
    """)
    async with conn.transaction():
        stale = [Held(*row) for row in await conn.fetch(sql, job_types, stale_after_s)]
        if not stale:
            return 0
        return len(await put_back(conn, stale, error=WORKER_LOST, counts=True, queue=queue))


async def lost_jobs(
    conn: Connection, job_types: Sequence[str], stale_after_s: float, *, queue: Queue = Queue.DOCUMENTS
) -> list[ClaimedJob]:
    """The jobs of lost workers that will not run again, for `bury_lost`; at most 100 at a time."""
    sql = queue.sql("""
        SELECT id, lease, job_type, payload::text, attempts, max_attempts, traceparent, 0::float8,
            date_part('epoch', available_at)
        FROM {jobs}
        WHERE status = 'processing' AND job_type = ANY($1::text[])
            AND (attempts >= max_attempts OR cancel_requested_at IS NOT NULL)
            AND locked_at < now() - make_interval(secs => $2)
        ORDER BY locked_at
        LIMIT 100
    """)
    return [ClaimedJob(*row) for row in await conn.fetch(sql, job_types, stale_after_s)]


async def bury_lost(
    conn: Connection, job: ClaimedJob, stale_after_s: float, *, queue: Queue = Queue.DOCUMENTS
) -> Fate | None:
    """Make a lost job a dead letter, or end one that was to be cancelled: DEAD or CANCELLED.

    None if it came back to life or another worker was first.
    """
    sql = queue.sql("""
        SELECT true
        FROM {jobs}
        WHERE id = $1 AND lease = $2 AND status = 'processing' AND locked_at < now() - make_interval(secs => $3)
            AND (attempts >= max_attempts OR cancel_requested_at IS NOT NULL)
        FOR UPDATE
    """)
    async with conn.transaction():
        if not await conn.fetchval(sql, job.id, job.lease, stale_after_s):
            return None
        fates = await put_back(conn, [Held(job.id, job.lease)], error=WORKER_LOST, counts=True, queue=queue)
    return fates.get(job.id)
