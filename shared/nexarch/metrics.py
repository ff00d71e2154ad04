"""Metrics that every service has; each app has a registry of its own, so several can live in one test process."""

from aiohttp import web
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest


class HttpMetrics:
    """Requests by route template (never by raw path, which a stranger chooses), method and status."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("method", "route")
        self.requests = Counter("nexarch_http_requests", "Requests answered", (*labels, "status"), registry=registry)
        self.seconds = Histogram(
            "nexarch_http_request_seconds",
            "Time from request to the end of the answer",
            labels,
            registry=registry,
        )
        self.running = Gauge("nexarch_http_requests_running", "Requests being answered now", registry=registry)


def new_registry() -> CollectorRegistry:
    """A registry with the process's own figures."""
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry


def exposition(registry: CollectorRegistry) -> web.Response:
    """The registry in Prometheus' text format 0.0.4."""
    return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})
