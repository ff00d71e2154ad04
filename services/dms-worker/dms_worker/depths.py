"""The depth of the queues, over all tenants that this worker has looked at, as metrics.

No label names a tenant: a thousand tenants would make a thousand series of each. Workers that serve the same tenants
count the same jobs, so a dashboard takes the largest value, not the sum.
"""

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial

from prometheus_client import CollectorRegistry, Gauge

from nexarch import jobs
from nexarch.db import Connection
from nexarch.jobs import Depth

_INTERVAL_S = 15.0
_SHARE = 50  # counting a huge backlog takes at most so small a share of the time
_FORGET_S = 3 * 3600.0  # a tenant that is served is looked at once an hour

_STATES = ("pending", "processing", "dead_letter")


@dataclass(frozen=True, slots=True)
class _Measured:
    at: float  # by time.monotonic(), like the next
    again_at: float
    rows: Sequence[Depth]


class Depths:
    """Counts a tenant's jobs when the worker is there anyway, at most every 15 s."""

    def __init__(self, registry: CollectorRegistry, job_types: Collection[str]) -> None:
        self._measured: dict[str, _Measured] = {}
        depth = Gauge("nexarch_jobs_depth", "Jobs by type and state", ("job_type", "status"), registry=registry)
        age = Gauge(
            "nexarch_jobs_oldest_due_seconds",
            "For how long the first job of a type has been due, 0 if none is",
            ("job_type",),
            registry=registry,
        )
        for name in job_types:
            age.labels(name).set_function(partial(self._oldest_s, name))
            for status in _STATES:
                depth.labels(name, status).set_function(partial(self._sum, name, status))

    async def measure(self, tenant: str, conn: Connection) -> float | None:
        """Count, if it is time; the seconds until the tenant is to be looked at for this, or None if nothing changes.

        Where jobs are due or run the figures are soon wrong, and nothing else may lead a worker there.
        """
        now = time.monotonic()
        known = self._measured.get(tenant)
        if known is None or known.again_at <= now:
            rows = await jobs.depths(conn)
            took_s = time.monotonic() - now
            known = _Measured(now, now + max(_INTERVAL_S, took_s * _SHARE), rows)
            # At the end, so that the first are those that were not looked at for the longest time.
            self._measured.pop(tenant, None)
            self._measured[tenant] = known
            self._forget(now - _FORGET_S)
        return known.again_at - now if any(_moves(row) for row in known.rows) else None

    def _forget(self, before: float) -> None:
        for tenant, known in list(self._measured.items()):
            if known.at >= before:
                return
            del self._measured[tenant]

    def _sum(self, job_type: str, status: str) -> float:
        rows = (row for known in self._measured.values() for row in known.rows)
        return float(sum(row.jobs for row in rows if row.job_type == job_type and row.status == status))

    def _oldest_s(self, job_type: str) -> float:
        """The age at this moment: while a database is away it grows."""
        now = time.monotonic()
        ages = (
            row.oldest_due_s + now - known.at
            for known in self._measured.values()
            for row in known.rows
            if row.job_type == job_type and row.oldest_due_s is not None and row.oldest_due_s > 0
        )
        return max(ages, default=0.0)


def _moves(row: Depth) -> bool:
    """Whether this figure is about to change by itself."""
    return row.status == "processing" or (row.oldest_due_s or -math.inf) > 0
