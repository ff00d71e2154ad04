"""`prune_audit`: remove events of a tenant's audit trail that are older than they are kept, a thousand at a time."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

import structlog

from dms_worker.job_types import JobContext
from nexarch.db import Connection

_BATCH = 1000
_PAUSE_S = 0.02  # between two steps: what people wait for goes first

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AuditPruning:
    """The handler, and how long events are kept."""

    kept_s: float  # at least 30 days: the schema refuses less

    async def run(self, ctx: JobContext) -> None:
        """Remove in steps, each a transaction of its own; what is cut short goes on in the next attempt or period."""
        removed = 0
        while True:
            async with ctx.pool.acquire() as conn:
                step = await _prune(conn, timedelta(seconds=self.kept_s))
            removed += step
            if step < _BATCH:
                break
            await asyncio.sleep(_PAUSE_S)
        if removed:
            log.info("audit events pruned", events=removed)


async def _prune(conn: Connection, older_than: timedelta) -> int:
    removed: int = await conn.fetchval("SELECT prune_audit_events($1, $2)", older_than, _BATCH)
    return removed
