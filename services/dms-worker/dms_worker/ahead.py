"""What a tenant's queue holds for later: retries, schedules, periods, and the locks of workers that died."""

import time
from collections.abc import Callable, Mapping

from dms_worker.depths import Depths
from dms_worker.due import DueTenants, Reason
from dms_worker.job_types import JobType
from dms_worker.lost import reclaim_lost
from dms_worker.metrics import JobMetrics
from dms_worker.periods import Periods
from nexarch import jobs
from nexarch.db import Connection


class Ahead:
    """Looks when a tenant is to have its next turn if no ring comes first; `ring(slug)` tells the other workers."""

    def __init__(
        self,
        job_types: Mapping[str, JobType],
        stale_after_s: float,
        due: DueTenants,
        depths: Depths,
        metrics: JobMetrics,
        ring: Callable[[str], None],
    ) -> None:
        self._job_types = job_types
        self._stale_after_s = stale_after_s
        self._due = due
        self._depths = depths
        self._metrics = metrics
        self._ring = ring
        self._periods = Periods({each.name: each.every_s for each in job_types.values() if each.every_s is not None})
        self._looked_at: dict[str, float] = {}  # tenant to the time of its last look, or first turn; monotonic

    def locks_are_due(self, tenant: str) -> bool:
        """Whether the last look at a tenant's locks is long ago, measured by the stale time.

        The first turn of all counts as a look, so that a backlog met at the start is begun at once.
        """
        now = time.monotonic()
        return self._looked_at.setdefault(tenant, now) + self._stale_after_s / 3 < now

    async def look(self, tenant: str, conn: Connection) -> bool:
        """Take back what dead workers hold, and set the timer for whatever comes next without a ring.

        Whether jobs are due now.
        """
        # What waits for a slot has another turn anyway, and would be due now at every look. Its locks are looked at all
        # the same, now and then: a backlog that never ends must not hide what a dead worker holds.
        names = sorted(self._job_types.keys() - self._due.types_aside(tenant))
        locks = sorted(self._job_types) if names or self.locks_are_due(tenant) else []
        if not locks:
            return False
        self._looked_at[tenant] = time.monotonic()
        next_period_s = await self._periods.begin(tenant, conn)
        outlook = await jobs.next_due(conn, names, self._stale_after_s, lock_types=locks)
        measure_s = await self._depths.measure(tenant, conn)
        wishes = (outlook.due_in_s, outlook.stale_in_s, next_period_s, measure_s)
        times = [seconds for seconds in wishes if seconds is not None]
        if outlook.stale_in_s == 0:
            taken = await reclaim_lost(conn, tenant, list(self._job_types.values()), self._stale_after_s)
            self._metrics.taken_back(taken)
            if taken.jobs:
                # The others too: they may have the free slots, and must know the times should this worker die.
                self._due.mark(tenant, Reason.TIMER)
                self._ring(tenant)
            # Else a hook failed, or another worker was first.
            times = [self._stale_after_s / 3 if seconds == 0 else seconds for seconds in times]
        if times:
            # What is due now and was not claimed is in another worker's claim, which ends in a moment.
            self._due.mark_later(tenant, max(0.05, min(times)), Reason.TIMER)
        return outlook.due_in_s == 0
