"""Metrics for Prometheus: requests, and what the catalog counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client import Counter as RequestCounter
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from starlette.responses import Response

from pennon import counters

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import Metric
    from starlette.types import ASGIApp, Receive, Scope, Send

PATH = "/metrics"
disable_created_metrics()  # type: ignore[no-untyped-call]
_LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class _CatalogCollector(Collector):
    """Shows the counters of the catalog."""

    def collect(self) -> Iterable[Metric]:
        """Return all of them."""
        for counter in counters.COUNTERS:
            family = CounterMetricFamily(counter.name, counter.description, labels=[counter.label])
            for label, value in counter.values().items():
                family.add_metric([label], value)
            yield family
        for distribution in counters.DISTRIBUTIONS:
            counts, total = distribution.state()
            bounds = [*(str(float(bound)) for bound in distribution.bounds), "+Inf"]
            histogram = HistogramMetricFamily(distribution.name, distribution.description)
            histogram.add_metric([], list(zip(bounds, counts, strict=True)), total)
            yield histogram


class Metrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_CatalogCollector())
        ProcessCollector(registry=self._registry)
        labels = ("protocol", "operation")
        self._requests = RequestCounter(
            "pennon_requests", "Requests by status.", (*labels, "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "pennon_request_seconds",
            "Time from the start of a request to the end of its answer.",
            labels,
            buckets=_LATENCIES,
            registry=self._registry,
        )
        self.running = Gauge("pennon_requests_running", "Requests that are worked on.", registry=self._registry)
        self.queued = Gauge("pennon_requests_queued", "Requests that wait for their turn.", registry=self._registry)

    def record(self, protocol: str, operation: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(protocol, operation, str(status)).inc()
        self._seconds.labels(protocol, operation).observe(seconds)

    def exposition(self) -> Response:
        """Return all metrics as text."""
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)


class MetricsEndpoint:
    """Answers `/metrics` to every client that was let in, without waiting for a turn."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        is_asked = scope["type"] == "http" and scope["path"] == PATH and scope["method"] in {"GET", "HEAD"}
        app = self._metrics.exposition() if is_asked else self._app
        await app(scope, receive, send)
