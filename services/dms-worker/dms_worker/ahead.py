"""What a tenant's queue holds for later: retries, schedules, periods, and the locks of workers that died."""

import math
import time
from collections.abc import Callable, Collection, Mapping

from dms_worker.depths import Depths
from dms_worker.due import DueTenants, Reason
from dms_worker.job_types import JobType
from dms_worker.lost import reclaim_lost
from dms_worker.metrics import JobMetrics
from dms_worker.periods import Periods
from nexarch import jobs
from nexarch.db import Connection

_LATE_S = 1.0  # a job is due when its transaction begins, and seen from its commit on: so much between is allowed for
_WHOLE_EVERY_S = 1.0  # a look reads from the first job; where rings come faster, those between do not
_WHOLE_EVERY_FOR_EACH_S = 0.02  # for each tenant that waits, if that is more: looks take the time of turns


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
        self._fronts: dict[str, dict[str, float]] = {}  # see `front`

    def front(self, tenant: str) -> dict[str, float]:
        """Where claims may begin, by type (see `jobs.claim`): no job waited before that at the last look.

        Until a vacuum, which an old snapshot may hold up for hours, the entries of all jobs that were claimed stand
        there. What comes to stand among them (out of a long transaction, given back by another worker, with a time in
        the past) is found by the next look that reads from the first job.
        """
        return self._fronts.get(tenant, {})

    def look_is_due(self, tenant: str) -> bool:
        """Whether the last look that read from the first job, and at the locks, is long ago.

        The first turn of all counts as one, so that a backlog met at the start is begun at once.
        """
        now = time.monotonic()
        return self._looked_at.setdefault(tenant, now) + self._whole_every_s() < now

    async def look(self, tenant: str, conn: Connection) -> bool:
        """Take back what dead workers hold, and set the timer for whatever comes next without a ring.

        Whether jobs are due now for which a slot is free, as far as it has looked.
        """
        # What waits for a slot has another turn anyway, and would be due now at every look. Its locks are looked at all
        # the same, now and then: a backlog that never ends must not hide what a dead worker holds.
        aside = self._due.types_aside(tenant)
        if aside >= self._job_types.keys() and tenant in self._fronts and not self.look_is_due(tenant):
            return False
        next_period_s = await self._periods.begin(tenant, conn)
        whole_in_s = self._whole_look_in_s(tenant)
        outlook = await self._outlook(tenant, conn, aside, whole=whole_in_s is None)
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
        if whole_in_s is None:
            self._due.forget_timer(tenant)  # all that it was set for has been looked at
        if times:
            # What is due now and was not claimed is in another worker's claim, which ends in a moment.
            self._due.mark_later(tenant, max(0.05, min(times)), Reason.TIMER)
        return outlook.due_in_s == 0

    def _whole_every_s(self) -> float:
        return min(max(_WHOLE_EVERY_S, _WHOLE_EVERY_FOR_EACH_S * len(self._due)), self._stale_after_s / 3)

    def _whole_look_in_s(self, tenant: str) -> float | None:
        """Seconds until the next look that passes over nothing; None if this is to be one."""
        if tenant not in self._fronts:
            return None
        left_s = self._looked_at[tenant] + self._whole_every_s() - time.monotonic()
        # Early rather than in a turn of its own a little later.
        return left_s if left_s > self._whole_every_s() / 2 else None

    async def _outlook(self, tenant: str, conn: Connection, aside: Collection[str], *, whole: bool) -> jobs.Outlook:
        """Look at all jobs and locks, or only at the jobs from the front on, and move it."""
        front = self._fronts.pop(tenant, {})
        if whole:
            self._looked_at[tenant] = time.monotonic()
            outlook = await jobs.next_due(conn, sorted(self._job_types), self._stale_after_s, aside=aside)
        else:
            names = sorted(self._job_types.keys() - aside)
            outlook = await jobs.next_due(conn, names, self._stale_after_s, locks=False, after=front)
        moved = {name: first_due_at - _LATE_S for name, first_due_at in outlook.first_due_at.items()}
        self._fronts[tenant] = front | moved
        if any(moved[name] < front.get(name, -math.inf) for name in moved):
            self._due.mark(tenant, Reason.TIMER)  # claims have passed over something
        return outlook
