"""What a doorbell does, as metrics."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from nexarch.doorbell import Doorbell


class BellMetrics(Collector):
    """Reads the figures of a `Doorbell` when the metrics are scraped."""

    def __init__(self, bell: Doorbell) -> None:
        self._bell = bell

    def collect(self) -> Iterable[Metric]:
        """The counters."""
        rings = CounterMetricFamily(
            "nexarch_rings",
            "Rings by what became of them; coalesced: another that waited stood for them; failed: sent again later",
            labels=["result"],
        )
        for result, number in (
            ("sent", self._bell.sent),
            ("coalesced", self._bell.coalesced),
            ("failed", self._bell.failed),
        ):
            rings.add_metric([result], number)
        yield rings
        yield CounterMetricFamily(
            "nexarch_arms_failed", "Tenants that could not be marked as active", value=self._bell.arm_failed
        )


def count_rings(registry: CollectorRegistry, bell: Doorbell) -> None:
    """Put a bell's counters into a registry."""
    registry.register(BellMetrics(bell))
