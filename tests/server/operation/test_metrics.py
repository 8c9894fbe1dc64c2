"""Metrics: what is counted, and who may read it."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from pennon import DirectoryNamespace
from tests.server.operation.conftest import serving
from tests.support import create_namespace, create_table

TOKEN = "a-token-that-nobody-guesses-0123"
COMMITS = 40
"""More than enough for a round of upkeep."""


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Return values by name and labels."""
    return {
        (one.name, *(one.labels[label] for label in sorted(one.labels))): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def test_requests_and_the_work_of_the_catalog_are_counted(tmp_path):
    with serving(tmp_path) as served:
        for number in range(COMMITS):
            assert served.post("/iceberg/v1/namespaces", {"namespace": [f"n{number}"]}).status == 200
        with DirectoryNamespace(root=str(tmp_path / "root")) as catalog:
            create_namespace(catalog, "secret_space")
            create_table(catalog, "secret_space", "secret_table")
        for _ in range(3):
            assert served.get("/iceberg/v1/namespaces/secret_space/tables/secret_table").status == 200
        assert served.get("/iceberg/v1/namespaces/none").status == 404
        assert served.post("/v1/namespace/n1/exists", {}).status == 200
        assert served.get("/nothing").status == 404
        answer = served.get("/metrics")
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        text = answer.data.decode()
    assert "secret" not in text
    found = samples(text)
    assert found["pennon_requests_total", "CreateNamespace", "iceberg", "200"] == COMMITS
    assert found["pennon_requests_total", "LoadTable", "iceberg", "200"] == 3
    assert found["pennon_requests_total", "LoadNamespace", "iceberg", "404"] == 1
    assert found["pennon_requests_total", "NamespaceExists", "lance", "200"] == 1
    assert found["pennon_requests_total", "none", "none", "404"] == 1
    assert found["pennon_request_seconds_count", "CreateNamespace", "iceberg"] == COMMITS
    assert found["pennon_request_seconds_bucket", "+Inf", "LoadTable", "iceberg"] == 3
    assert found["pennon_requests_running",] == 0
    assert found["pennon_manifest_commits_total", "committed"] == COMMITS
    assert found["pennon_manifest_group_size_count",] == COMMITS
    assert found["pennon_manifest_group_size_bucket", "1.0"] == COMMITS
    assert found["pennon_manifest_group_seconds_sum",] > 0
    assert found["pennon_manifest_reads_total", "hit"] > 0
    assert found["pennon_manifest_reads_total", "miss"] > 0
    assert found["pennon_table_cache_lookups_total", "hit"] == 2
    assert found["pennon_table_cache_lookups_total", "miss"] == 1
    assert found["process_resident_memory_bytes",] > 0


def test_rounds_of_upkeep_are_counted(tmp_path):
    with serving(tmp_path) as served:
        for number in range(COMMITS):
            served.post("/iceberg/v1/namespaces", {"namespace": [f"n{number}"]})
        found = {}
        while not found.get(("pennon_manifest_upkeep_rounds_total", "done")):
            found = samples(served.get("/metrics").data.decode())


def test_metrics_need_the_token(tmp_path):
    with serving(tmp_path, PENNON_SERVER_TOKEN=TOKEN) as served:
        assert served.get("/metrics").status == 401
        text = served.get("/metrics", Authorization=f"Bearer {TOKEN}").data.decode()
        assert samples(text)["pennon_requests_total", "none", "none", "401"] == 1
        assert TOKEN not in text
