"""A histogram that one event loop writes: tens of thousands of observations a second cost next to nothing.

prometheus_client's own takes a lock for each number it changes, because threads may share it: of a job that does
nothing its two observations took a third.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

_BOUNDS_S: Final = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
    1800.0,
)


class Series:
    """The durations of one job type."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BOUNDS_S) + 1)  # the last is of what is longer than all bounds
        self.total_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self.counts[bisect_left(_BOUNDS_S, seconds)] += 1
        self.total_s += seconds


class Durations(Collector):
    """A histogram of seconds with the label `job_type`; every series is there from the start."""

    def __init__(self, name: str, documentation: str, job_types: Collection[str], registry: CollectorRegistry) -> None:
        self._name = name
        self._documentation = documentation
        self.series = {job_type: Series() for job_type in job_types}
        registry.register(self)

    def collect(self) -> Iterable[HistogramMetricFamily]:
        """What a scrape sees."""
        family = HistogramMetricFamily(self._name, self._documentation, labels=["job_type"])
        for job_type, series in self.series.items():
            family.add_metric([job_type], _cumulative(series.counts), series.total_s)
        yield family


def _cumulative(counts: Sequence[int]) -> list[tuple[str, float]]:
    buckets: list[tuple[str, float]] = []
    so_far = 0
    for bound, count in zip((*map(str, _BOUNDS_S), "+Inf"), counts, strict=True):
        so_far += count
        buckets.append((bound, so_far))
    return buckets
