"""`pennon jobs`: bad input fails before Spark starts, and the output of results."""

from __future__ import annotations

import json

import pytest

from pennon import connect
from pennon.cli.app import run
from pennon.cli.job_results import parse_tables, show_result
from pennon.cli.session import Session
from pennon.spark.jobs.outcome import JobResults, TableOutcome
from pennon.spark.jobs.stats import COLUMNS
from pennon.table_patterns import TablePattern
from tests.support import create_namespace, create_table

RESULTS = JobResults(
    None,
    COLUMNS,
    [
        TableOutcome("prod.b", "failed", "Table 'prod.b' is gone", 4),
        TableOutcome("`odd.name`", "done", None, None, 1, 1, details={"rows": 1234, "bytes": 5_000_000}),
        TableOutcome(None, "skipped", "no table is here"),
    ],
)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["index", "t"], 2, "--column"),
        (["index", "t", "--column", "k", "--optimize"], 2, "--optimize"),
        (["backfill", "t"], 2, "--set"),
        (["backfill", "t", "--from", "x.parquet"], 2, "--on"),
        (["backfill", "t", "--set", "nothing"], 2, "KEY=VALUE"),
        (["cleanup"], 6, "--yes"),
        (["purge"], 2, "No such command 'purge'"),
        (["verify", "--remove-orphans"], 6, "--yes"),
        (["compact", "--deletions", "2"], 2, "deletions"),
        (["stats", "--master", "local", "--remote", "local"], 2, "exclude"),
        (["stats"], 3, "no such directory"),
    ],
)
def test_bad_input_fails_before_spark_starts(capsys, tmp_path, arguments, code, text):
    assert run(["--root", str(tmp_path / "none"), "jobs", *arguments]) == code
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["compact", "nope"], 3, "There is no table or namespace 'nope'"),
        (["compact", "clocks"], 3, "There is no table or namespace 'clocks'; did you mean 'clicks'?"),
        (["stats", "web.["], 2, "a '[' has no ']'"),
        (["index", "nope", "--column", "k", "--type", "none"], 2, "Unknown kind of index 'none'"),
    ],
)
def test_missing_tables_and_bad_patterns_fail_before_spark_starts(capsys, tmp_path, arguments, code, text):
    with connect("dir", {"root": str(tmp_path)}) as catalog:
        create_table(catalog, "clicks")
    assert run(["--root", str(tmp_path), "jobs", *arguments]) == code
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["index", "prod.t", "--column", "nope"], 3, "Table 'prod.t' has no column 'nope'"),
        (["index", "prod.*", "--column", "nope"], 3, "Table 'prod.t' has no column 'nope'"),
        (["backfill", "prod.t", "--set", "y=nope + 1"], 2, "Bad expression for table 'prod.t'"),
        (
            ["backfill", "prod.t", "--from", "file:/no/such.parquet", "--on", "x"],
            3,
            "nothing at 'file:/no/such.parquet'",
        ),
        (["backfill", "prod.t", "--from", "s3://bucket/x.parquet", "--on", "k"], 3, "has no column 'k'"),
    ],
)
def test_columns_and_files_are_checked_before_spark_starts(capsys, tmp_path, arguments, code, text):
    with connect("dir", {"root": str(tmp_path)}) as catalog:
        create_namespace(catalog, "prod")
        create_table(catalog, "prod", "t")
    assert run(["--root", str(tmp_path), "jobs", *arguments]) == code
    error = capsys.readouterr().err
    assert text in error
    assert error.count("\n") == 1


def test_jobs_take_the_same_addresses_and_patterns_as_other_commands():
    assert parse_tables(None) is None
    assert parse_tables("/") is None
    assert parse_tables("prod.events") == "prod.events"
    assert parse_tables("/my.table") == ["my.table"]
    assert parse_tables("prod/events.v2/") == ["prod", "events.v2"]
    pattern = parse_tables("prod/events.*")
    assert isinstance(pattern, TablePattern)
    assert pattern.matches(("prod", "events.v2"))
    assert not pattern.matches(("prod", "events", "v2"))


def test_json_results_set_the_exit_code_on_failure(capsys):
    session = Session()
    session.output.json = True
    assert show_result(session, "stats", RESULTS, ["rows", "bytes"]) == 3
    document = json.loads(capsys.readouterr().out)
    assert (document["job"], document["failed"]) == ("stats", 1)
    odd, bad, stranger = document["tables"]
    assert (odd["id"], odd["rows"], odd["status"]) == (["odd.name"], 1234, "done")
    assert (bad["id"], bad["code"], bad["message"]) == (["prod", "b"], 4, "Table 'prod.b' is gone")
    assert stranger["id"] is None


def test_results_are_shown_as_a_table(capsys):
    session = Session()
    session.output.json = False
    show_result(session, "stats", RESULTS, ["rows", "bytes"])
    shown = capsys.readouterr().out
    assert "/odd.name" in shown
    assert "1,234" in shown
    assert "5.0 MB" in shown
    assert "1 done, 1 failed, 1 skipped" in shown
