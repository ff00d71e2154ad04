"""The worker's statement: completes what has finished and claims what is due, in one round trip and one commit."""

import math
from collections.abc import Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from nexarch.db import Connection
from nexarch.jobs.rows import ClaimedJob, Queue

_FROM_THE_FIRST: Final[Mapping[str, float]] = MappingProxyType({})
_ROUNDING_S = 0.001

_by_id = attrgetter("id")


class Drained(NamedTuple):
    """What `complete_and_claim` did.

    `lost` are the ids of finished jobs that were no longer held. `reached` says of each type how late the latest of its
    claimed jobs was due, in Unix seconds by Postgres' clock: where the next claim may begin.
    """

    lost: set[UUID]
    claimed: list[ClaimedJob]
    reached: dict[str, float]


async def complete_and_claim(
    conn: Connection,
    finished: Sequence[ClaimedJob],
    worker: str,
    limits: Mapping[str, int],
    *,
    after: Mapping[str, float] = _FROM_THE_FIRST,
    queue: Queue = Queue.DOCUMENTS,
) -> Drained:
    """Do `complete(finished)` and `claim(limits)` at once.

    `after` has the claim pass over what was due before such a time, by type. In a backlog that is where claimed jobs
    stood: until a vacuum the index leads to each of them still, and a claim from the first one walks past them all.
    Jobs that came to stand there since are found only by a claim without it: make one now and then, and at the end.
    """
    # Both see the table as it was before: what is finished here is `processing`, so the claim never meets it.
    # date_part, because extract counts in numeric, a quarter of a microsecond a job.
    # Of the finished jobs only the lost ones are told, as a row without a lease: there is hardly ever one.
    sql = queue.sql("""
        WITH done AS (
            UPDATE {jobs} AS job
            SET status = 'succeeded', progress = 100, locked_at = NULL, locked_by = NULL, updated_at = now(),
                finished_at = now()
            FROM unnest($4::uuid[], $5::bigint[]) AS finished (id, lease)
            WHERE job.id = finished.id AND job.lease = finished.lease AND job.status = 'processing'
            RETURNING job.id
        ), claimed AS (
            UPDATE {jobs}
            SET status = 'processing', attempts = attempts + 1, lease = lease + 1, locked_by = $1, locked_at = now(),
                updated_at = now()
            WHERE id = ANY(ARRAY(
                SELECT picked.id
                FROM unnest($2::text[], $3::integer[], $6::float8[]) AS wanted (job_type, slots, after)
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
        FROM unnest($4::uuid[]) AS finished (id)
        WHERE id NOT IN (SELECT id FROM done)
    """)
    # In the order of their ids, like every statement that locks several rows: no two can wait for each other.
    finished = sorted(finished, key=_by_id)
    ids = [job.id for job in finished]
    starts = [after.get(name, -math.inf) for name in limits]
    leases = [job.lease for job in finished]
    rows = await conn.fetch(sql, worker, list(limits), list(limits.values()), ids, leases, starts)
    lost: set[UUID] = set()
    claimed: list[ClaimedJob] = []
    reached: dict[str, float] = {}
    for job_id, lease, job_type, payload, attempts, max_attempts, traceparent, waited_s, due_at in rows:
        if lease is None:
            lost.add(job_id)
            continue
        claimed.append(ClaimedJob(job_id, lease, job_type, payload, attempts, max_attempts, traceparent, waited_s))
        if due_at > reached.get(job_type, -math.inf):
            reached[job_type] = due_at
    return Drained(lost, claimed, {name: due_at - _ROUNDING_S for name, due_at in reached.items()})
