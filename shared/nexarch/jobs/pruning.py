"""Deleting finished jobs by age, a little at a time."""

from dataclasses import dataclass
from uuid import UUID

from nexarch.db import Connection, fetch_one
from nexarch.jobs.rows import Queue


@dataclass(frozen=True, slots=True)
class Pruned:
    """What one step of pruning did: how many rows went, and where the next step goes on (None: all is done)."""

    deleted: int
    go_on_after: UUID | None


async def prune(
    conn: Connection,
    *,
    finished_after_s: float,
    dead_after_s: float,
    after: UUID | None = None,
    batch: int = 1000,
    queue: Queue = Queue.DOCUMENTS,
) -> Pruned:
    """Look at the next `batch` old jobs and delete those that ended long enough ago, with their history.

    Dead letters have a time of their own, for a person is to see them. What a person works on now is passed over.
    """
    # Ids are made in the order of time, so the primary key finds what is old: an index on finished_at would have to be
    # written at every completion.
    sql = queue.sql("""
        WITH walked AS MATERIALIZED (
            SELECT id
            FROM {jobs}
            WHERE id > $3 AND id < (SELECT uuidv7(make_interval(secs => -least($1::float8, $2::float8))))
            ORDER BY id
            LIMIT $4
        ), deleted AS (
            DELETE FROM {jobs}
            WHERE id = ANY(ARRAY(
                SELECT job.id
                FROM {jobs} AS job
                WHERE job.id = ANY(ARRAY(SELECT id FROM walked))
                    AND (job.status IN ('succeeded', 'failed') AND job.finished_at < now() - make_interval(secs => $1)
                        OR job.status = 'dead_letter' AND job.finished_at < now() - make_interval(secs => $2))
                FOR UPDATE SKIP LOCKED
            ))
            RETURNING id
        )
        SELECT (SELECT count(*) FROM deleted) AS deleted,
            (SELECT id FROM walked ORDER BY id OFFSET $4 - 1 LIMIT 1) AS go_on_after
    """)
    return await fetch_one(conn, Pruned, sql, finished_after_s, dead_after_s, after or UUID(int=0), batch)
