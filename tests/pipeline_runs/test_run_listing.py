"""Looking at recorded runs: what is shown of each, and what hostile records cannot do."""

from __future__ import annotations

import json

import pytest

from pennon.pipeline_runs.run_listing import LARGEST_REPORT, list_pipelines, list_run_ids, read_run, read_runs
from pennon.pipeline_runs.run_state import RunState, parse_job_id
from pennon.store import open_store
from tests.pipeline_runs.runs import make_report, record_runs


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "root"), {})


def test_runs_are_listed_from_the_latest_with_their_result(store):
    assert list_pipelines(store) == []
    record_runs(store)
    assert list_pipelines(store) == ["nightly", "weekly"]
    ids = list_run_ids(store, "nightly")
    assert ids == ["2026-03-03", "2026-03-02", "2026-03-01"]
    cut, failed, published = read_runs(store, "nightly", ids)
    assert (published.status, published.report) == ("published", make_report("2026-03-01"))
    assert (failed.status, failed.report) == ("checks failed", make_report("2026-03-02", passed=False))
    assert (cut.status, cut.finished_work, cut.report) == ("cut off", ("step.tidy",), None)
    assert cut.error == "InvalidInputError: column 'amuont' does not exist"
    assert cut.started.startswith("20")


def test_a_run_with_a_lease_is_in_progress(store):
    state = RunState(store, "p", "r")
    with state.lease():
        state.begin("f", {})
        state.note_error("OSError", "from an earlier attempt")
        found = read_run(store, "p", "r")
        assert (found.status, found.error) == ("in progress", "")
    assert read_run(store, "p", "r").status == "cut off"
    state.forget()
    assert read_run(store, "p", "r") is None


def test_an_error_before_the_run_began_is_not_recorded(store):
    RunState(store, "p", "r").note_error("OSError", "too early")
    assert read_run(store, "p", "r") is None
    assert list_run_ids(store, "p") == []


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"{", "not JSON"),
        (b"[]", "a list instead of an object"),
        (b"{}", "pipeline"),
        (b"[" * 100_000, "nested"),
        (b"\xff", "UTF-8"),
        (json.dumps({**make_report("r").document(), "seconds": "1"}).encode(), "seconds"),
        (json.dumps({**make_report("r").document(), "seconds": 4444}).encode().replace(b"4444", b"1e999"), "range"),
        (b" " * (LARGEST_REPORT + 1), "bytes"),
    ],
    ids=["cut off", "list", "empty", "deep", "binary", "text for a number", "infinite", "large"],
)
def test_a_malformed_record_is_reported_and_kept(store, body, fault):
    store.put("__pennon/runs/p/r/outcome.json", body)
    found = read_run(store, "p", "r")
    assert (found.status, found.report) == ("unreadable", None)
    assert fault in found.fault
    assert store.get("__pennon/runs/p/r/outcome.json").body == body


def test_malformed_names_are_left_out(store):
    for name in (".x", "a b", "x" * 101, "<b>"):
        store.put(f"__pennon/runs/{name}/r/run.json", b"{}")
        store.put(f"__pennon/runs/p/{name}/run.json", b"{}")
    store.put("__pennon/runs/p/good/run.json", b"{}")
    assert list_pipelines(store) == ["p"]
    assert list_run_ids(store, "p") == ["good"]
    for name in ("..", "a/b", ".x", ""):
        assert read_run(store, "p", name) is None
        assert read_run(store, name, "r") is None
        assert list_run_ids(store, name) == []


@pytest.mark.parametrize(
    ("job", "run"),
    [
        ("pipeline/nightly/2026", ("nightly", "2026")),
        ("pipeline/nightly", None),
        ("pipeline//r", None),
        ("pipeline/a/b/c", None),
        ("stream/a/b", None),
        ("pipeline/../r", None),
        ("", None),
    ],
)
def test_a_job_id_names_its_run(job, run):
    assert parse_job_id(job) == run
    if run is not None:
        assert RunState(None, *run).job_id == job
