"""Logs: one line for each request with its id, as text or JSON, and without secrets."""

from __future__ import annotations

import json
import logging
import re

import pytest

from pennon.server.operation import logs
from tests.server.operation.conftest import serving

TOKEN = "a-token-that-nobody-guesses-0123"
SECRET = "storage-secret-4711"


def test_json_lines_have_the_fields_of_a_request(tmp_path):
    with serving(tmp_path, "--log-format", "json", "--log-requests") as served:
        served.get("/iceberg/v1/namespaces/a%2Fb?pageToken=hidden", **{"X-Request-Id": "abc-1"})
        served.post("/iceberg/v1/namespaces", {"namespace": ["made"]})
        lines = [json.loads(line) for line in served.log_lines(2)]
    assert [
        (one["request_id"], one["method"], one["path"], one["protocol"], one["operation"], one["status"])
        for one in lines[:1]
    ] == [("abc-1", "GET", "/iceberg/v1/namespaces/a%2Fb", "iceberg", "LoadNamespace", 400)]
    assert (lines[1]["operation"], lines[1]["status"], lines[1]["client"]) == ("CreateNamespace", 200, "127.0.0.1")
    assert lines[1]["seconds"] > 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", lines[1]["time"])


def test_text_lines_have_the_id_too(tmp_path):
    with serving(tmp_path, "--log-requests") as served:
        served.get("/iceberg/v1/config", **{"X-Request-Id": "abc-1"})
        (line,) = served.log_lines()
    assert re.search(r"INFO .*: GET /iceberg/v1/config 200 [\d.]+ ms \[abc-1\]$", line)


@pytest.mark.parametrize(
    "path", ["/iceberg/v1/config", "/iceberg/v1/namespaces/none", "/v1/table/none/exists", "/none"]
)
def test_each_answer_has_the_id_of_its_request(tmp_path_factory, shared, path):
    assert shared.get(path, **{"X-Request-Id": "trace:1/2"}).headers["X-Request-Id"] == "trace:1/2"
    ids = {shared.get(path).headers["X-Request-Id"] for _ in range(3)}
    assert len(ids) == 3
    assert all(re.fullmatch(r"[0-9a-f]{32}", one) for one in ids)


@pytest.mark.parametrize("given", ["", "x" * 129, "two words", 'quo"te', "a\tb", "ünïcode"])
def test_an_invalid_id_is_replaced(shared, given):
    answer = shared.get("/iceberg/v1/config", **{"X-Request-Id": given.encode().decode("latin-1")})
    assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["X-Request-Id"])


def test_refusals_have_an_id_and_are_logged(tmp_path):
    with serving(tmp_path, "--log-format", "json", "--log-requests", PENNON_SERVER_TOKEN=TOKEN) as served:
        answer = served.get("/iceberg/v1/config", **{"X-Request-Id": "r1"})
        assert (answer.status, answer.headers["X-Request-Id"]) == (401, "r1")
        (line,) = [json.loads(line) for line in served.log_lines()]
        assert (line["status"], line["request_id"]) == (401, "r1")


def test_secrets_in_a_path_are_masked(tmp_path):
    properties = {"storage.secret_access_key": SECRET}
    arguments = ("--log-format", "json", "--log-requests")
    environment = {"PENNON_PROPERTIES": json.dumps(properties), "PENNON_SERVER_TOKEN": TOKEN}
    with serving(tmp_path, *arguments, **environment) as served:
        headers = {"Authorization": f"Bearer {TOKEN}", "X-Request-Id": "r1"}
        assert served.get(f"/iceberg/v1/namespaces/a/tables/t/{SECRET}/{TOKEN}", **headers).status == 404
        log = "".join(served.log_lines())
    assert '"r1"' in log
    assert SECRET not in log
    assert TOKEN not in log


def test_a_name_cannot_forge_a_line(tmp_path):
    with serving(tmp_path, "--log-requests") as served:
        served.get("/iceberg/v1/namespaces/a%0A2026-11-18T00:00:00.000Z%20ERROR%20forged")
        served.get("/iceberg/v1/config")
        lines = served.log_lines(2)
    assert len(lines) == 2
    assert not any(line.startswith("2026-11-18T00:00:00.000Z") for line in lines)


@pytest.mark.parametrize("as_json", [False, True])
def test_records_are_escaped_and_masked(as_json):
    secret = 'a "quoted" sécret'
    record = logging.LogRecord("pennon", logging.ERROR, "", 0, "first\nsecond %s", (secret,), None)
    line = logs._Formatter([secret], as_json=as_json).format(record)
    assert "\n" not in line
    assert "quoted" not in line
    assert "***" in line
    assert not as_json or json.loads(line)["message"] == "first\nsecond ***"


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("shared")) as served:
        yield served
