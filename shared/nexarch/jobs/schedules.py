"""Jobs that come round by themselves: one for each period, however many workers look.

A period is a slot on Postgres' clock. Who first writes it into the row of its job type makes the job, in the same
statement; there is no leader that could die at the wrong moment. If no worker lived when periods began, one job
makes up for all of them. The first look at a queue only notes the period that it is in.
"""

from collections.abc import Mapping

from nexarch.db import Connection
from nexarch.jobs.rows import Queue


async def begin_periods(
    conn: Connection, every_s: Mapping[str, float], phase: float, *, queue: Queue = Queue.DOCUMENTS
) -> float:
    """Make the jobs whose period has begun (job type to its length); return the seconds until the next one begins.

    `phase`, a share between 0 and 1 that is the same in every worker, says where in the period this queue has its
    turn, so that a thousand tenants do not all have theirs at once. A job that still waits from the period before
    stands for both.
    """
    # The NOT EXISTS keeps a look that comes in mid-period from locking the row.
    sql = queue.sql("""
        WITH wanted AS MATERIALIZED (
            SELECT job_type, every, date_bin(every, now(), timestamptz 'epoch' + $3 * every) AS slot
            FROM (SELECT job_type, make_interval(secs => every_s) AS every
                  FROM unnest($1::text[], $2::float8[]) AS given (job_type, every_s)) AS given
        ), begun AS (
            INSERT INTO job_schedules (job_type, slot)
            SELECT job_type, slot
            FROM wanted
            WHERE NOT EXISTS (
                SELECT FROM job_schedules AS known WHERE known.job_type = wanted.job_type AND known.slot >= wanted.slot
            )
            ON CONFLICT (job_type) DO UPDATE SET slot = excluded.slot WHERE job_schedules.slot < excluded.slot
            RETURNING job_type, old.slot AS before
        ), made AS (
            INSERT INTO {jobs} (job_type, payload, queued_key)
            SELECT job_type, '{}', 'period:' || job_type
            FROM begun
            WHERE before IS NOT NULL
            ON CONFLICT DO NOTHING
        )
        SELECT extract(epoch FROM min(slot + every) - now())::float8
        FROM wanted
    """)
    next_in_s: float = await conn.fetchval(sql, list(every_s), list(every_s.values()), phase)
    return next_in_s
