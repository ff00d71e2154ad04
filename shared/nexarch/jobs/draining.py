"""The worker's statement: completes what has finished and claims what is due, in one round trip and one commit."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from uuid import UUID

from nexarch.db import Connection
from nexarch.jobs.rows import ClaimedJob, Queue

_by_id = attrgetter("id")


async def complete_and_claim(
    conn: Connection,
    finished: Sequence[ClaimedJob],
    worker: str,
    limits: Mapping[str, int],
    *,
    queue: Queue = Queue.DOCUMENTS,
) -> tuple[set[UUID], list[ClaimedJob]]:
    """Do `complete(finished)` and `claim(limits)` at once: the ids that were lost meanwhile, and the jobs claimed."""
    # Both see the table as it was before: what is finished here is `processing`, so the claim never meets it.
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
                FROM unnest($2::text[], $3::integer[]) AS wanted (job_type, slots)
                CROSS JOIN LATERAL (
                    SELECT id
                    FROM {jobs}
                    WHERE status = 'pending' AND job_type = wanted.job_type AND available_at <= now()
                    ORDER BY priority DESC, available_at, id
                    LIMIT wanted.slots
                    FOR UPDATE SKIP LOCKED
                ) AS picked
            ))
            RETURNING id, lease, job_type, payload::text, attempts, max_attempts, traceparent,
                extract(epoch FROM now() - available_at)::float8 AS waited_s
        )
        SELECT id, lease, job_type, payload, attempts, max_attempts, traceparent, waited_s FROM claimed
        UNION ALL
        SELECT id, NULL, NULL, NULL, NULL, NULL, NULL, NULL
        FROM unnest($4::uuid[]) AS finished (id)
        WHERE id NOT IN (SELECT id FROM done)
    """)
    # In the order of their ids, like every statement that locks several rows: no two can wait for each other.
    finished = sorted(finished, key=_by_id)
    ids = [job.id for job in finished]
    rows = await conn.fetch(sql, worker, list(limits), list(limits.values()), ids, [job.lease for job in finished])
    claimed = [ClaimedJob(*row) for row in rows if row[1] is not None]
    lost = {row[0] for row in rows if row[1] is None} if len(claimed) < len(rows) else set()
    return lost, claimed
