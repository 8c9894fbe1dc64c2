"""The state file of a job, and when a job needs one."""

from __future__ import annotations

import pytest

from pennon.spark.jobs.job_run import JobSettings
from pennon.spark.jobs.outcome import DONE, FAILED, TableOutcome
from pennon.spark.jobs.state_file import StateFile
from tests.support import fails


def test_finished_tables_are_kept_per_job_and_id(tmp_path):
    path = tmp_path / "state.jsonl"
    StateFile.at(path, "compact", "n1").record(TableOutcome("prod.a", DONE, version_after=3))
    StateFile.at(path, "compact", "n1").record(TableOutcome("`odd.ü`.t", DONE))
    StateFile.at(path, "compact", "n2").record(TableOutcome("prod.b", DONE))
    StateFile.at(path, "verify", "n1").record(TableOutcome("prod.c", DONE))
    assert set(StateFile.at(path, "compact", "n1").finished_tables()) == {"prod.a", "`odd.ü`.t"}
    assert set(StateFile.at(path, "cleanup", "n1").finished_tables()) == set()


@pytest.mark.parametrize("cut", [1, 10, 40])
def test_incomplete_line_is_ignored(tmp_path, cut):
    path = tmp_path / "state.jsonl"
    state = StateFile.at(path, "compact", "n1")
    state.record(TableOutcome("a", DONE))
    state.record(TableOutcome("b", DONE))
    path.write_bytes(path.read_bytes()[:-cut])
    if cut > 1:
        assert set(state.finished_tables()) == {"a"}
    state.record(TableOutcome("c", DONE))
    assert set(state.finished_tables()) >= {"a", "c"}


def test_foreign_lines_are_kept_and_ignored(tmp_path):
    path = tmp_path / "state.jsonl"
    path.write_text('not json\n[1, 2]\n{"table": 3, "at": ""}\n', encoding="utf-8")
    state = StateFile.at(path, "stats", "x")
    assert state.finished_tables() == {}
    state.record(TableOutcome("a", FAILED))
    assert path.read_text(encoding="utf-8").startswith("not json\n")


def test_job_id_needs_a_state_file_unless_tables_record_it(tmp_path):
    with fails(13, "compact"):
        JobSettings(job_id="n1").open_state("compact")
    assert JobSettings(job_id="n1").open_state("index", noted_in_tables=True) is None
    assert JobSettings(job_id="n1", state=tmp_path / "s").open_state("compact") is not None
    assert JobSettings().open_state("compact") is None


def test_bad_settings_raise_invalid_input(tmp_path):
    with fails(13, "job id"):
        JobSettings(state=tmp_path / "s").open_state("compact")
    with fails(13, "empty"):
        JobSettings(job_id=" ", state=tmp_path / "s").open_state("compact")
    with fails(13, "state file"):
        JobSettings(job_id="n1", state=tmp_path / "none" / "s").open_state("compact")
    with fails(13, "state file"):
        JobSettings(job_id="n1", state=tmp_path).open_state("compact")
