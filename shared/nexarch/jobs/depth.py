"""How much there is to do: counts for metrics, by the small indexes."""

from dataclasses import dataclass

from nexarch.db import Connection, fetch_all
from nexarch.jobs.rows import Queue


@dataclass(frozen=True, slots=True)
class Depth:
    """Jobs of one type in one state; of pending ones also since when the first has been due, in seconds.

    Negative while none is due yet, None for the other states.
    """

    job_type: str
    status: str
    jobs: int
    oldest_due_s: float | None


async def depths(conn: Connection, *, queue: Queue = Queue.DOCUMENTS) -> list[Depth]:
    """Count what is pending, processing or dead, by type. What succeeded is never counted: that would be the table."""
    # Each state has a partial index, so no other row is read; that of those that wait alone is ever long.
    sql = queue.sql("""
        SELECT job_type, 'pending' AS status, count(*) AS jobs,
            extract(epoch FROM now() - min(available_at))::float8 AS oldest_due_s
        FROM {jobs}
        WHERE status = 'pending'
        GROUP BY job_type
        UNION ALL
        SELECT job_type, 'processing', count(*), NULL FROM {jobs} WHERE status = 'processing' GROUP BY job_type
        UNION ALL
        SELECT job_type, 'dead_letter', count(*), NULL FROM {jobs} WHERE status = 'dead_letter' GROUP BY job_type
    """)
    return await fetch_all(conn, Depth, sql)
