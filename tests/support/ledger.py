"""What really happened to the jobs of a test: one row for each time a handler was entered, one for each result."""

from uuid import UUID

from nexarch.db import Connection
from support.waiting import eventually

# No unique constraint: a result that is written twice is to be seen, not refused.
_TABLES = """
    CREATE TABLE entered (job_id uuid, lease bigint, pid integer, at timestamptz DEFAULT clock_timestamp());
    CREATE TABLE results (job_id uuid, lease bigint, pid integer, at timestamptz DEFAULT clock_timestamp());
    GRANT ALL ON entered, results TO PUBLIC
"""


class Ledger:
    """Reads the books of the handler `record` in `nursery_process`."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn

    async def open(self) -> None:
        """Make the tables."""
        await self.conn.execute(_TABLES)

    async def all_done(self, within_s: float = 30.0) -> None:
        """Wait until every job has succeeded."""

        async def every_job_has_succeeded() -> bool:
            return not await self.conn.fetchval("SELECT count(*) FROM processing_jobs WHERE status <> 'succeeded'")

        await eventually(every_job_has_succeeded, within_s=within_s, every_s=0.05)

    async def entered(self, job_id: UUID, times: int = 1) -> None:
        """Wait until the job's handler has been entered so many times."""

        async def it_was_entered() -> bool:
            number: int = await self.conn.fetchval("SELECT count(*) FROM entered WHERE job_id = $1", job_id)
            return number >= times

        await eventually(it_was_entered, every_s=0.005)

    async def results(self) -> int:
        """How many results were written."""
        number: int = await self.conn.fetchval("SELECT count(*) FROM results")
        return number

    async def faults(self) -> list[str]:
        """What contradicts the rules: a job done has one result, of its last claim, and ran at most as often as its
        lease says that it was claimed.
        """
        sql = """
            SELECT format('%s: %s, attempts %s, lease %s, entered %s times, results %s',
                job.id, job.status, job.attempts, job.lease, entries.number, outcomes.leases)
            FROM processing_jobs AS job
            CROSS JOIN LATERAL (SELECT count(*) AS number FROM entered WHERE job_id = job.id) AS entries
            CROSS JOIN LATERAL (
                SELECT coalesce(array_agg(lease), '{}') AS leases FROM results WHERE job_id = job.id
            ) AS outcomes
            WHERE job.job_type = 'record' AND (
                outcomes.leases <> CASE job.status WHEN 'succeeded' THEN ARRAY[job.lease] ELSE '{}' END
                OR entries.number > job.lease OR job.attempts > job.lease
            )
        """
        return [row[0] for row in await self.conn.fetch(sql)]
