"""The parts of the SQL shell that need no Spark: splitting, completion, history, and what is refused at once."""

from __future__ import annotations

import os

import pytest

from pennon.cli.sql_shell import History, SqlCompleter, find_history
from pennon.spark.statements.splitting import split_statements
from tests.cli.cli_support import terminal


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("SELECT 1; SELECT 2", ["SELECT 1"], "SELECT 2"),
        ("SELECT ';'; SELECT \";\"; SELECT `;` FROM t;", ["SELECT ';'", 'SELECT ";"', "SELECT `;` FROM t"], ""),
        ("-- a; b\nSELECT /* ; */ 1;\n-- the end;\n", ["-- a; b\nSELECT /* ; */ 1"], ""),
        (" ; ;; ", [], ""),
        ("SELECT 1; SELECT 'open", [], "SELECT 1; SELECT 'open"),
    ],
)
def test_statements_end_with_semicolons_outside_of_strings_names_and_comments(text, statements, rest):
    assert split_statements(text) == (statements, rest)


def test_completion_offers_keywords_and_names_up_to_the_next_dot():
    listed = []

    def find_names():
        listed.append(None)
        return ["sales.", "sales.raw.", "sales.orders", "sales.raw.clicks", "`odd name`.t"]

    completer = SqlCompleter(find_names)
    assert completer.complete("sel") == ["select"]
    assert completer.complete("SEL") == ["SELECT"]
    assert completer.complete("sa") == ["sales."]
    assert completer.complete("sales.") == ["sales.orders", "sales.raw."]
    assert completer.complete("sales.raw.c") == ["sales.raw.clicks"]
    assert completer.complete("`o") == ["`odd name`."]
    assert completer.complete("nothing") == []
    assert len(listed) == 1
    completer.forget()
    assert [completer("un", 0), completer("un", 1), completer("un", 2)] == ["undrop", "union", None]
    assert len(listed) == 2


def test_completion_without_a_catalog_still_offers_keywords():
    def find_names():
        raise OSError("unreachable")

    assert SqlCompleter(find_names).complete("optim") == ["optimize"]


@pytest.fixture
def state(tmp_path):
    readline = pytest.importorskip("readline")
    readline.clear_history()
    yield tmp_path / "state"
    readline.clear_history()


def test_history_is_kept_for_its_owner_alone(state):
    environment = {"XDG_STATE_HOME": str(state)}
    before = os.umask(0)
    try:
        history = History.open(environment)
        history.add("SELECT 1,\n2")
        history.add("SELECT 3 -- three\n+ 4")
    finally:
        os.umask(before)
    path = find_history(environment)
    assert path == state / "pennon" / "sql_history"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert path.read_text().splitlines() == ["SELECT 1, 2;", "SELECT 3 -- three", "+ 4;"]
    path.chmod(0o644)
    History.open(environment)
    assert path.stat().st_mode & 0o777 == 0o600


def test_history_does_not_follow_links(state, capsys):
    environment = {"XDG_STATE_HOME": str(state)}
    path = find_history(environment)
    path.parent.mkdir(parents=True)
    other = state / "other"
    other.write_text("keep\n")
    path.symlink_to(other)
    History.open(environment).add("SELECT 1")
    assert other.read_text() == "keep\n"
    assert "No history" in capsys.readouterr().err


def test_a_state_directory_that_is_not_absolute_is_ignored(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_history({"XDG_STATE_HOME": "state"}) == tmp_path / ".local/state/pennon/sql_history"


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["-f", "missing.sql"], 3, "missing.sql"),
        (["-f", "."], 2, "not a file of statements"),
        (["SELECT 1", "-f", "x.sql"], 2, "not both"),
        ([" ; -- nothing"], 2, "no statement"),
        (["SELECT 1", "--master", "local[1]", "--remote", "sc://x"], 2, "--remote"),
    ],
)
def test_what_needs_no_spark_is_refused_at_once(pennon, lake, arguments, code, reason):
    result = pennon("sql", *arguments, root=lake)
    assert (result.code, result.out) == (code, "")
    assert reason in result.err


def test_a_missing_catalog_is_reported_before_spark_starts(pennon, root):
    result = pennon("sql", "SELECT 1", root=root)
    assert (result.code, result.out) == (3, "")
    assert "There is no catalog at" in result.err


def test_a_shell_whose_output_is_no_terminal_is_refused(lake, tmp_path):
    with terminal("--root", str(lake), "sql", "--json") as screen:
        screen.wait_for("Error:")
        assert screen.end() == 2
    assert "JSON" in screen.seen
