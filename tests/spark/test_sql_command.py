"""`pennon sql`: statements in an argument, a file or a pipe, and a shell on a terminal."""

from __future__ import annotations

import io
import json
import os
import sys

import pytest

from pennon import DirectoryNamespace
from pennon.cli.app import run
from tests.cli.cli_support import terminal
from tests.server.served import served
from tests.support import create_namespace, create_table, fails, ipc

SLOW = "SELECT count(*) AS n FROM range(100000000000) a JOIN range(1000000) b ON a.id % 7 = b.id % 5;"


@pytest.fixture
def catalog(tmp_path):
    """Create a catalog with a table."""
    with DirectoryNamespace(root=str(tmp_path / "root")) as namespace:
        create_namespace(namespace, "web")
        create_table(namespace, "web", "clicks", data=ipc({"id": [1, 2, 3], "page": ["a", None, "é"]}))
        yield namespace


@pytest.fixture
def sql(spark, catalog, tmp_path, capsys, monkeypatch):
    """Return a function that runs the command in this process, by default on the catalog's root."""
    for name in [*os.environ]:
        if name.startswith("PENNON_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str, stdin: str = "", where: tuple[str, ...] | None = None) -> tuple[int, list, str]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = run([*(where or ("--root", str(tmp_path / "root"))), "sql", *arguments])
        captured = capsys.readouterr()
        rows = captured.out if "--table" in arguments else [json.loads(line) for line in captured.out.splitlines()]
        return code, rows, captured.err

    return call


def test_rows_are_json_lines_in_a_pipe(sql, tmp_path):
    rows = [{"id": 1, "page": "a"}, {"id": 2, "page": None}, {"id": 3, "page": "é"}]
    query = "SELECT * FROM web.clicks ORDER BY id"
    assert sql(query) == (0, rows, "")
    assert sql("-", stdin=f"{query};\n") == (0, rows, "")
    assert sql(stdin=query) == (0, rows, "")
    (tmp_path / "q.sql").write_text(
        f"-- all rows;\n{query};\nSELECT id, id, named_struct('x', id) AS s FROM web.clicks LIMIT 1"
    )
    assert sql("-f", "q.sql") == (0, [*rows, {"id": 1, "id_2": 1, "s": {"x": 1}}], "")


def test_tables_have_a_limit_and_say_so(sql):
    code, text, _ = sql("SELECT id FROM range(1000) ORDER BY id", "--table", "-n", "2")
    assert code == 0
    assert text.split() == ["id", "0", "1", "the", "first", "2", "rows,", text.split()[-2], "s"]
    assert "1 row," in sql("SELECT 1 AS one", "--table")[1]
    assert "no rows" in sql("SELECT id FROM web.clicks WHERE id > 9", "--table")[1]


def test_the_first_failing_statement_ends_the_command_with_its_exit_code(sql, catalog):
    code, rows, error = sql("INSERT INTO web.clicks VALUES (4, 'd'); SELECT 1/0; DELETE FROM web.clicks WHERE true")
    assert (code, [row["inserted"] for row in rows]) == (2, [1])
    assert error.startswith("Error: Division by zero")
    assert catalog.count_table_rows({"id": ["web", "clicks"]}).count == 4
    for statement, expected in (("SELECT * FROM web.nope", 3), ("SELEC 1", 2), ("SELECT nope FROM web.clicks", 2)):
        code, rows, error = sql(statement)
        assert (code, rows, error.count("\n")) == (expected, [], 1)
        assert "== SQL" not in error
        assert "Traceback" not in error
    assert sql("SELECT * FROM web.click")[2].endswith("; did you mean 'web.clicks'?\n")


def test_other_implementations(sql, catalog, tmp_path):
    with served(catalog) as url:
        for where in (
            ("--impl", "rest", "--uri", url),
            ("--impl", "iceberg", "--uri", f"{url}/iceberg", "-p", f"root={tmp_path / 'root'}"),
        ):
            assert sql("SELECT max(id) AS last FROM web.clicks", where=where) == (0, [{"last": 3}], "")


@pytest.mark.soak  # a known fault: on a busy machine, the statement after Ctrl-C may wait too long
@pytest.mark.usefixtures("spark")  # only for the mark: the shell starts a session of its own
def test_shell_on_a_terminal(catalog, tmp_path):
    state = tmp_path / "state"
    variables = {"XDG_STATE_HOME": str(state), "HOME": str(tmp_path), "NO_COLOR": "1"}
    with terminal("--root", str(tmp_path / "root"), "sql", "--master", "local[2]", **variables) as screen:

        def type_and_wait(typed: str, *expected: str) -> str:
            screen.seen = ""
            screen.type(typed)
            for text in expected:
                screen.wait_for(text)
            return screen.seen

        screen.wait_for("Starting Spark")
        screen.wait_for("pennon> ")
        # several lines, completion of a namespace and of a table in it
        type_and_wait("SELECT id,\n", "...> ")
        type_and_wait("page fro\t we\t", "from web.")
        assert "3  é" in type_and_wait("cl\t;\n", "clicks;", "3 rows", "pennon> ")
        # an error in one line; the session goes on
        shown = type_and_wait("SELECT nope FROM web.clicks;\n", "Error:", "pennon> ")
        assert "nope" in shown
        assert "Traceback" not in shown
        # Ctrl-C cancels the statement, not the shell
        type_and_wait(f"CREATE TABLE web.big AS {SLOW}\n", "Running")
        type_and_wait("\x03", "pennon> ")
        assert "42" in type_and_wait("SELECT 40 + 2 AS answer;\n", "1 row", "pennon> ")
        # Ctrl-C drops what was typed, and Arrow-Up brings the last statement back
        type_and_wait("SELECT nothing", "nothing")
        type_and_wait("\x03", "pennon> ")
        type_and_wait("\x1b[A", "SELECT 40 + 2 AS answer;")
        type_and_wait("\n", "1 row", "pennon> ")
        screen.type("\\q\n")
        assert screen.end() == 0
        for noise in ("WARN", "py4j", "log4j", "Traceback"):
            assert noise not in screen.seen
    with fails(4):
        catalog.describe_table({"id": ["web", "big"]})
    kept = (state / "pennon/sql_history").read_text().splitlines()
    assert kept[0] == "SELECT id, page from web.clicks;"
    assert kept[-1] == "SELECT 40 + 2 AS answer;"
