"""Health and readiness: who may ask, and when the server is not ready."""

from __future__ import annotations

import contextlib
import json
import signal

import pytest

from tests.server.operation.conftest import PATIENCE, serving
from tests.servers import CountingS3

TOKEN = "a-token-that-nobody-guesses-0123"


def test_everybody_may_ask_and_learns_nothing(tmp_path):
    with serving(tmp_path, "--log-requests", PENNON_SERVER_TOKEN=TOKEN) as served:
        for headers in ({}, {"Host": "10.0.0.7"}, {"Authorization": "Bearer wrong"}):
            assert served.get("/healthz", **headers).json() == {"status": "alive"}
            assert served.get("/readyz", **headers).json() == {"status": "ready"}
        assert served.get("/readyz/").status == 401
        assert served.post("/readyz", {}).status == 401
        assert "readyz 200" not in served.log.read_text()


def test_a_root_that_is_gone_is_not_ready(tmp_path):
    with serving(tmp_path) as served:
        assert served.wait_for("/readyz", 200).headers["Cache-Control"] == "no-store"
        (tmp_path / "root").rename(tmp_path / "elsewhere")
        assert served.wait_for("/readyz", 503).json() == {"status": "unavailable"}
        assert served.get("/healthz").status == 200
        (tmp_path / "elsewhere").rename(tmp_path / "root")
        served.wait_for("/readyz", 200)


@pytest.mark.s3
def test_a_bucket_that_does_not_answer_is_not_ready(tmp_path):
    with contextlib.ExitStack() as running:
        bucket = running.enter_context(CountingS3())
        properties = {**bucket.endpoint.properties(), "storage.client_max_retries": "0"}
        root = bucket.endpoint.uri("lake")
        with serving(tmp_path, root=root, PENNON_PROPERTIES=json.dumps(properties)) as served:
            served.wait_for("/readyz", 200)
            running.close()
            served.wait_for("/readyz", 503)
            assert served.get("/healthz").status == 200


def test_a_server_that_stops_is_not_ready_but_serves(tmp_path):
    with serving(tmp_path, "--stop-delay", "600") as served:
        served.process.send_signal(signal.SIGTERM)
        assert served.wait_for("/readyz", 503).json() == {"status": "stopping"}
        assert served.get("/healthz").status == 200
        assert served.post("/iceberg/v1/namespaces", {"namespace": ["late"]}).status == 200
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE) == 0


def test_the_delay_ends(tmp_path):
    with serving(tmp_path, "--stop-delay", "0.2") as served:
        served.process.send_signal(signal.SIGTERM)
        assert served.process.wait(PATIENCE) == 0
