"""Traces: spans of requests reach a collector, continue the client's trace, and name no object."""

from __future__ import annotations

import signal
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.server.operation.conftest import PATIENCE, serving

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector(HTTPServer):
    """Keeps what is sent to it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[bytes] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1/traces"

    def spans(self) -> list:
        return [
            span
            for body in self.bodies
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.server.bodies.append(self.rfile.read(length))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def collector():
    with Collector() as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.mark.parametrize("by", ["option", "variable"])
def test_spans_of_requests_reach_the_collector(tmp_path, collector, by):
    arguments = ("--trace-endpoint", collector.url) if by == "option" else ()
    environment = {} if by == "option" else {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": collector.url}
    with serving(tmp_path, *arguments, **environment) as served:
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "X-Request-Id": "r1", "Authorization": "Bearer hidden"}
        assert served.get("/iceberg/v1/namespaces/secret_space", **headers).status == 404
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE) == 0
        assert served.log.read_text() == ""
    (span,) = collector.spans()
    assert (span.name, span.trace_id.hex(), span.parent_span_id.hex()) == ("LoadNamespace", TRACE, PARENT)
    attributes = {one.key: one.value.string_value or one.value.int_value for one in span.attributes}
    assert attributes == {
        "http.request.method": "GET",
        "http.response.status_code": 404,
        "pennon.protocol": "iceberg",
        "pennon.request_id": "r1",
    }
    assert all(b"pennon" in body for body in collector.bodies)
    assert not any(b"secret_space" in body or b"hidden" in body for body in collector.bodies)
