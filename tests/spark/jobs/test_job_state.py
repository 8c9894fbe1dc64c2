"""The state file of a job, and when one is needed."""

from __future__ import annotations

import pytest

from pennon.spark.jobs.outcome import DONE, FAILED, Outcome
from pennon.spark.jobs.running import Settings
from pennon.spark.jobs.state import State
from tests.support import fails


def test_finished_tables_are_known_to_the_same_job_and_id(tmp_path):
    path = tmp_path / "state.jsonl"
    State.at(path, "compact", "n1").record(Outcome("prod.a", DONE, version_after=3))
    State.at(path, "compact", "n1").record(Outcome("`odd.ü`.t", DONE))
    State.at(path, "compact", "n2").record(Outcome("prod.b", DONE))
    State.at(path, "verify", "n1").record(Outcome("prod.c", DONE))
    assert set(State.at(path, "compact", "n1").finished()) == {"prod.a", "`odd.ü`.t"}
    assert set(State.at(path, "cleanup", "n1").finished()) == set()


@pytest.mark.parametrize("cut", [1, 10, 40])
def test_a_line_that_was_cut_off_counts_as_absent_and_spoils_nothing(tmp_path, cut):
    path = tmp_path / "state.jsonl"
    state = State.at(path, "compact", "n1")
    state.record(Outcome("a", DONE))
    state.record(Outcome("b", DONE))
    path.write_bytes(path.read_bytes()[:-cut])
    if cut > 1:
        assert set(state.finished()) == {"a"}
    state.record(Outcome("c", DONE))
    assert set(state.finished()) >= {"a", "c"}


def test_foreign_lines_are_left_alone(tmp_path):
    path = tmp_path / "state.jsonl"
    path.write_text('not json\n[1, 2]\n{"table": 3, "at": ""}\n', encoding="utf-8")
    state = State.at(path, "stats", "x")
    assert state.finished() == {}
    state.record(Outcome("a", FAILED))
    assert path.read_text(encoding="utf-8").startswith("not json\n")


def test_an_id_without_a_state_file_is_refused_where_tables_keep_no_note(tmp_path):
    with fails(13, "compact"):
        Settings(job_id="n1").checked("compact")
    assert Settings(job_id="n1").checked("index", noted_in_tables=True) is None
    assert Settings(job_id="n1", state=tmp_path / "s").checked("compact") is not None
    assert Settings().checked("compact") is None


def test_bad_settings_are_refused(tmp_path):
    with fails(13, "job id"):
        Settings(state=tmp_path / "s").checked("compact")
    with fails(13, "empty"):
        Settings(job_id=" ", state=tmp_path / "s").checked("compact")
    with fails(13, "state file"):
        Settings(job_id="n1", state=tmp_path / "none" / "s").checked("compact")
    with fails(13, "state file"):
        Settings(job_id="n1", state=tmp_path).checked("compact")
