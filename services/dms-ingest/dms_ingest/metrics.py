"""The figures of uploads; what every service has comes from `nexarch.metrics`."""

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge

from nexarch.seats import Seats


class UploadMetrics:
    """Counted since the start of the process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.received_bytes = Counter("nexarch_uploads_received_bytes", "Bytes staged and recorded", registry=registry)
        self.completed = Counter("nexarch_uploads_completed", "Uploads that became a revision", registry=registry)


def count_seats(registry: CollectorRegistry, seats: dict[str, Seats]) -> None:
    """Let the metrics say how many transfers of each kind run."""
    running = Gauge("nexarch_transfers", "Requests that bring or fetch bytes now", ["kind"], registry=registry)
    for kind, of_kind in seats.items():
        running.labels(kind).set_function(partial(getattr, of_kind, "taken"))
