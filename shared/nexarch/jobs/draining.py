"""The worker's statement: completes what has finished and claims what is due, in one round trip and one commit."""

import math
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

from nexarch.db import Connection
from nexarch.jobs.claiming import FROM_THE_FIRST, claim, wanted_rows, wanted_values
from nexarch.jobs.rows import ClaimedJob, Queue
from nexarch.jobs.settling import complete

_ROUNDING_S = 0.001

_by_id = attrgetter("id")


class Drained(NamedTuple):
    """What `complete_and_claim` did; `lost` are the ids of finished jobs that were no longer held."""

    lost: set[UUID]
    claimed: list[ClaimedJob]


async def complete_and_claim(
    conn: Connection,
    finished: Sequence[ClaimedJob],
    worker: str,
    limits: Mapping[str, int],
    *,
    after: Mapping[str, float] = FROM_THE_FIRST,
    queue: Queue = Queue.DOCUMENTS,
) -> Drained:
    """Do `complete(finished)` and `claim(limits, after)` at once."""
    if not finished:  # a statement that only claims takes a twentieth less
        return Drained(set(), await claim(conn, worker, limits, after=after, queue=queue))
    if not limits:
        return Drained({job.id for job in finished} - await complete(conn, finished, queue=queue), [])
    return await _both(conn, finished, worker, limits, after, queue)


async def _both(
    conn: Connection,
    finished: Sequence[ClaimedJob],
    worker: str,
    limits: Mapping[str, int],
    after: Mapping[str, float],
    queue: Queue,
) -> Drained:
    # Both see the table as it was before: what is finished here is `processing`, so the claim never meets it.
    # Of the finished jobs only the lost ones are told, as a row without a lease: there is hardly ever one.
    # `done` and `claimed` are the statements of `complete` and `claim`: what changes there changes here.
    statement = """
        WITH done AS (
            UPDATE {jobs} AS job
            SET status = 'succeeded', progress = 100, locked_at = NULL, locked_by = NULL, updated_at = now(),
                finished_at = now()
            FROM unnest($2::uuid[], $3::bigint[]) AS finished (id, lease)
            WHERE job.id = finished.id AND job.lease = finished.lease AND job.status = 'processing'
            RETURNING job.id
        ), claimed AS (
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
                date_part('epoch', now() - available_at) AS waited_s,
                date_part('epoch', available_at) AS due_at
        )
        SELECT id, lease, job_type, payload, attempts, max_attempts, traceparent, waited_s, due_at FROM claimed
        UNION ALL
        SELECT id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
        FROM unnest($2::uuid[]) AS finished (id)
        WHERE id NOT IN (SELECT id FROM done)
    """
    sql = queue.sql(statement, wanted=wanted_rows(len(limits), first=4))
    # In the order of their ids, like every statement that locks several rows: no two can wait for each other.
    finished = sorted(finished, key=_by_id)
    ids = [job.id for job in finished]
    leases = [job.lease for job in finished]
    rows = await conn.fetch(sql, worker, ids, leases, *wanted_values(limits, after))
    lost: set[UUID] = set()
    claimed: list[ClaimedJob] = []
    for row in rows:
        if row[1] is None:
            lost.add(row[0])
        else:
            claimed.append(ClaimedJob(*row))
    return Drained(lost, claimed)


def reached(claimed: Sequence[ClaimedJob]) -> dict[str, float]:
    """Of each type how late the latest of these jobs was due, for the `after` of the next claim.

    Less a millisecond, since seconds since 1970 as a float are not exact.
    """
    latest: dict[str, float] = {}
    for job in claimed:
        if job.due_at > latest.get(job.job_type, -math.inf):
            latest[job.job_type] = job.due_at
    return {name: due_at - _ROUNDING_S for name, due_at in latest.items()}
