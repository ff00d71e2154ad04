"""`prune_ended`: delete rows whose time is over, a thousand at a time.

Uploads that are complete or ended, usage that core-api has confirmed, checks of the object store that are finished.
"""

from dataclasses import dataclass

import structlog

from dms_worker.job_types import JobContext
from dms_worker.pruning import in_steps
from nexarch.db import Connection
from nexarch.usage import forget_delivered

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedPruning:
    """The handler, and how long rows are kept after their end, in seconds."""

    uploads_kept_s: float
    usage_kept_s: float
    checks_kept_s: float

    async def run(self, ctx: JobContext) -> None:
        """Delete in steps, each a transaction of its own; what is cut short goes on in the next attempt or period."""
        uploads = await in_steps(ctx, _prune_uploads, self.uploads_kept_s)
        usage = await in_steps(ctx, forget_delivered, self.usage_kept_s)
        checks = await in_steps(ctx, _prune_checks, self.checks_kept_s)
        if uploads or usage or checks:
            log.info("ended rows pruned", uploads=uploads, usage=usage, checks=checks)


async def _prune_uploads(conn: Connection, kept_s: float, limit: int) -> int:
    """An upload that lives on past `kept_s` is kept until it expires: its client may still ask what became of it."""
    sql = """
        WITH deleted AS (
            DELETE FROM upload_sessions
            WHERE id IN (
                SELECT id
                FROM upload_sessions
                WHERE id < uuidv7(make_interval(secs => -$1::float8)) AND state <> 'open'
                    AND updated_at < now() - make_interval(secs => $1) AND expires_at < now()
                ORDER BY id
                LIMIT $2
                FOR UPDATE SKIP LOCKED
            )
            RETURNING id
        )
        SELECT count(*) FROM deleted
    """
    count: int = await conn.fetchval(sql, kept_s, limit)
    return count


async def _prune_checks(conn: Connection, kept_s: float, limit: int) -> int:
    """Their findings go with them (ON DELETE CASCADE)."""
    sql = """
        WITH deleted AS (
            DELETE FROM store_checks
            WHERE id IN (
                SELECT id
                FROM store_checks
                WHERE finished_at < now() - make_interval(secs => $1)
                ORDER BY id
                LIMIT $2
                FOR UPDATE SKIP LOCKED
            )
            RETURNING id
        )
        SELECT count(*) FROM deleted
    """
    count: int = await conn.fetchval(sql, kept_s, limit)
    return count
