"""Durations are exposed as the histogram that Prometheus expects."""

from prometheus_client import CollectorRegistry, generate_latest

from dms_worker.durations import Durations


def test_each_duration_is_in_the_buckets_of_its_bound_and_all_longer_ones() -> None:
    registry = CollectorRegistry()
    series = Durations("wait_seconds", "How long.", ["task", "other"], registry).series["task"]

    for seconds in (0.001, 0.0011, 0.3, 4000.0):
        series.observe(seconds)

    def count(bound: str) -> float | None:
        return registry.get_sample_value("wait_seconds_bucket", {"job_type": "task", "le": bound})

    assert [count(bound) for bound in ("0.001", "0.0025", "0.25", "0.5", "1800.0", "+Inf")] == [1, 2, 2, 3, 3, 4]
    assert registry.get_sample_value("wait_seconds_count", {"job_type": "task"}) == 4
    assert registry.get_sample_value("wait_seconds_sum", {"job_type": "task"}) == 4000.3021


def test_every_job_type_is_there_from_the_start() -> None:
    registry = CollectorRegistry()
    Durations("wait_seconds", "How long.", ["task", "other"], registry)

    assert b'wait_seconds_count{job_type="other"} 0.0' in generate_latest(registry)
