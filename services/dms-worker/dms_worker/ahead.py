"""What a tenant's queue holds for later: retries, schedules, periods, and the locks of workers that died."""

import time
from collections.abc import Callable, Mapping, Sequence

from dms_worker.depths import Depths
from dms_worker.due import DueTenants, Reason
from dms_worker.job_types import JobType
from dms_worker.lost import reclaim_lost
from dms_worker.metrics import JobMetrics
from dms_worker.periods import Periods
from nexarch import jobs
from nexarch.db import Connection

_LATE_S = 1.0  # a job is due from the begin of its transaction on, and may be seen only so much later
_WHOLE_EVERY_S = 1.0  # of one look after the other the first, and then one in so long, reads from the first job


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
        self._looked_at: dict[str, float] = {}  # tenant to the time of its last whole look, or first turn; monotonic
        self._fronts: dict[str, Mapping[str, float]] = {}  # see `front`

    def front(self, tenant: str) -> Mapping[str, float]:
        """Where a claim may begin, by type (see `jobs.claim`): the last look found nothing that waits before that.

        Until a vacuum, which an old snapshot may hold up for hours, the entries of all jobs that were claimed stand
        there. What comes to stand among them (out of a long transaction, or given back by another worker) is found by
        the next whole look, a second later at most.
        """
        return self._fronts.get(tenant, jobs.FROM_THE_FIRST)

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
        if not names and not self.locks_are_due(tenant):
            return False
        next_period_s = await self._periods.begin(tenant, conn)
        whole_in_s = self._whole_look_in_s(tenant)
        outlook = await self._outlook(tenant, conn, names, whole=whole_in_s is None)
        measure_s = await self._depths.measure(tenant, conn)
        wishes = (outlook.due_in_s, outlook.stale_in_s, next_period_s, measure_s, whole_in_s)
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

    def _whole_look_in_s(self, tenant: str) -> float | None:
        """Seconds until the next look that passes over nothing; None if this is to be one."""
        if not self.front(tenant):
            return None
        left_s = self._looked_at[tenant] + min(_WHOLE_EVERY_S, self._stale_after_s / 3) - time.monotonic()
        return left_s if left_s > 0 else None

    async def _outlook(self, tenant: str, conn: Connection, names: Sequence[str], *, whole: bool) -> jobs.Outlook:
        """Look at all jobs of these types and at all locks, or only at the jobs behind the front."""
        front = self._fronts.pop(tenant, jobs.FROM_THE_FIRST)
        if whole:
            self._looked_at[tenant] = time.monotonic()
            outlook = await jobs.next_due(conn, names, self._stale_after_s, lock_types=sorted(self._job_types))
        else:
            outlook = await jobs.next_due(conn, names, self._stale_after_s, lock_types=[], after=front)
        begin = outlook.first_due_at - _LATE_S
        if outlook.stale_in_s != 0:  # what is taken back from a dead worker keeps its place
            self._fronts[tenant] = dict.fromkeys(names, begin)
        if any(passed > begin for passed in front.values()):
            self._due.mark(tenant, Reason.TIMER)
        return outlook
