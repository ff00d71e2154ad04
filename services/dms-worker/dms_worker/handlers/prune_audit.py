"""`prune_audit`: remove events of a tenant's audit trail that are older than they are kept, a thousand at a time."""

from dataclasses import dataclass

import structlog

from dms_worker.job_types import JobContext
from dms_worker.pruning import in_steps
from nexarch.db import Connection

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AuditPruning:
    """The handler, and how long events are kept."""

    kept_s: float  # at least 30 days: the schema refuses less

    async def run(self, ctx: JobContext) -> None:
        """Remove in steps, see `in_steps`."""
        removed = await in_steps(ctx, _prune, self.kept_s)
        if removed:
            log.info("audit events pruned", events=removed)


async def _prune(conn: Connection, kept_s: float, most: int) -> int:
    removed: int = await conn.fetchval("SELECT prune_audit_events(make_interval(secs => $1), $2)", kept_s, most)
    return removed
