"""`prune_jobs`: delete what ended long ago from a tenant's queue, a thousand rows at a time."""

import asyncio
from dataclasses import dataclass

import structlog

from dms_worker.job_types import JobContext
from nexarch import jobs

_PAUSE_S = 0.02  # between two steps: what the queue is for goes first

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class JobPruning:
    """The handler, and how long jobs are kept, in seconds since their end."""

    finished_after_s: float
    dead_after_s: float

    async def run(self, ctx: JobContext) -> None:
        """Delete in steps, each a transaction of its own; what is cut short goes on in the next attempt or period."""
        deleted, after = 0, None
        while True:
            async with ctx.pool.acquire() as conn:
                step = await jobs.prune(
                    conn, finished_after_s=self.finished_after_s, dead_after_s=self.dead_after_s, after=after
                )
            deleted += step.deleted
            after = step.go_on_after
            if after is None:
                break
            await asyncio.sleep(_PAUSE_S)
        if deleted:
            log.info("jobs pruned", jobs=deleted)
