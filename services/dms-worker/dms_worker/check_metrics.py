"""What checks of object stores have found since the start of the process, of all tenants together."""

import time

from prometheus_client import CollectorRegistry, Counter, Gauge

from nexarch.store_checks import Finding


class CheckMetrics:
    """Every series is there from the start."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._findings = Counter(
            "nexarch_store_check_findings", "Objects that were not as they should be", ("kind",), registry=registry
        )
        for kind in Finding:
            self._findings.labels(kind)
        self._finished = Gauge(
            "nexarch_store_check_last_finished_timestamp_seconds",
            "When a check of a tenant's object store was last finished; 0: not since the start",
            registry=registry,
        )

    def found(self, kind: Finding) -> None:
        """An object is not as it should be."""
        self._findings.labels(kind).inc()

    def finished(self) -> None:
        """A check is finished."""
        self._finished.set(time.time())
