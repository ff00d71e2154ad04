"""The figures of uploads; what every service has comes from `nexarch.metrics`."""

from prometheus_client import CollectorRegistry, Counter


class UploadMetrics:
    """Counted since the start of the process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.received_bytes = Counter("nexarch_uploads_received_bytes", "Bytes staged and recorded", registry=registry)
        self.completed = Counter("nexarch_uploads_completed", "Uploads that became a revision", registry=registry)
