"""Traces of requests by OpenTelemetry, sent to a collector by HTTP. Needs `pennon[tracing]`.

A span has the operation, the status and the id of its request: no names, no headers, no bodies. A request with
`traceparent` continues the trace of its client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.trace import Span

_SERVER_ERROR = 500


class RequestSpan:
    """The span of one request."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def end(self, operation: str, attributes: Mapping[str, str], status: int) -> None:
        """Name the span by its operation, and end it."""
        self._span.update_name(operation)
        self._span.set_attributes({**attributes, "http.response.status_code": status})
        if status >= _SERVER_ERROR:
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()


class Tracer:
    """Makes spans and sends them in the background. Close it to send the last ones."""

    def __init__(self, endpoint: str | None) -> None:
        """Send spans to `endpoint`, or to where the variables `OTEL_EXPORTER_OTLP_*` say."""
        resource = Resource({SERVICE_NAME: "pennon"}).merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
        self._tracer = self._provider.get_tracer("pennon.server")
        self._propagator = TraceContextTextMapPropagator()

    def start(self, headers: Mapping[str, str], method: str) -> RequestSpan:
        """Begin the span of a request."""
        context = self._propagator.extract(headers)
        attributes = {"http.request.method": method}
        return RequestSpan(self._tracer.start_span(method, context, SpanKind.SERVER, attributes))

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()
