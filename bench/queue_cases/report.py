"""One JSON object per line, and the few statistics that a noisy machine allows."""

import json
import statistics
from collections.abc import Sequence


def report(case: str, **figures: float | None) -> None:
    """Print the figures of a case."""
    print(json.dumps({"bench": "queue", "case": case} | figures), flush=True)


def median(values: Sequence[float]) -> float:
    """The middle one."""
    return statistics.median(values)


def percentile(values: Sequence[float], percent: float) -> float:
    """The value that so many percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def ratio(ours: Sequence[float], floor: Sequence[float]) -> float:
    """The median of the ratios of rounds that ran one right after the other, so that a busy minute harms both."""
    return round(statistics.median(a / b for a, b in zip(ours, floor, strict=True)), 3)
