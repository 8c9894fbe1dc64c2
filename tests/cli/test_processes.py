"""What depends on the process: its imports, its streams, its terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from pennon import DirectoryNamespace
from tests.cli.cli_support import ROWS, mode_options, terminal
from tests.support import MODES, ipc

LARGE = ("pandas", "numpy", "pyarrow", "lance", "pydantic", "rich", "pyspark", "fastapi", "urllib3", "obstore")
SDK = ("lance_namespace_urllib3_client.api", "lance_namespace_urllib3_client.models.table_version")
UNWANTED = {"pandas", "pyspark", "fastapi", "urllib3", "rich", "lance_namespace_urllib3_client.api"}


def list_imports(*arguments: str) -> set[str]:
    """Run a command and return the names of all modules that it imported."""
    script = "import sys, pennon.cli; code = pennon.cli.main(); print(*sys.modules, file=sys.stderr); sys.exit(code)"
    command = [sys.executable, "-c", script, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    found = set(result.stderr.split())
    assert "typer" in found
    return found


def test_help_imports_nothing_large():
    assert list_imports("--help") & {*LARGE, *SDK, "lance_namespace"} == set()


def test_help_of_a_command_imports_only_what_typer_needs():
    assert list_imports("ls", "--help") & {*LARGE, *SDK, "lance_namespace"} <= {"pydantic"}


@pytest.mark.parametrize("mode", list(MODES))
def test_ls_imports_neither_pandas_nor_the_http_client_of_the_sdk(root, mode):
    with DirectoryNamespace(root=str(root), **MODES[mode]) as namespace:
        namespace.create_table({"id": ["a"]}, ipc(ROWS))
    found = list_imports("ls", "--root", str(root), *mode_options(mode))
    assert found & UNWANTED == set()
    assert "lance_namespace.errors" in found


def test_other_commands_do_not_import_them_either(lake, tmp_path):
    file = tmp_path / "data.csv"
    file.write_text("a\n1\n")
    for arguments in (
        ["head", "prod.events"],
        ["info", "prod.events"],
        ["create", "prod.made", str(file)],
        ["drop", "prod.events", "--yes"],
        ["purge", "prod.events", "--force", "--yes"],
    ):
        assert (arguments, list_imports(*arguments, "--root", str(lake)) & UNWANTED) == (arguments, set())


CLASSES = """
import sys
from pennon.cli import startup
startup.prepare()
{first}
{second}
import lance_namespace
import lance_namespace.errors
import pennon.errors
from lance_namespace import LanceNamespace, TableNotFoundError, ListTablesRequest
from lance_namespace_urllib3_client.models import ListTablesRequest as same_request
from lance_namespace_urllib3_client.models.list_tables_request import ListTablesRequest as again
import lance_namespace_urllib3_client
import pennon

assert TableNotFoundError is pennon.errors.TableNotFoundError is lance_namespace.errors.TableNotFoundError
assert ListTablesRequest is same_request is again
assert lance_namespace_urllib3_client.models.ListTablesRequest is again
assert lance_namespace_urllib3_client.Configuration
assert issubclass(pennon.DirectoryNamespace, LanceNamespace)
namespace = pennon.connect("dir", {{"root": sys.argv[1]}})
assert namespace.list_tables(ListTablesRequest(id=[])).tables == ["my.table", "plain"]
try:
    namespace.describe_table({{"id": ["nope"]}})
except TableNotFoundError as error:
    assert type(error) is TableNotFoundError
else:
    raise AssertionError
startup.prepare()
assert lance_namespace.TableNotFoundError is TableNotFoundError
"""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("import pennon.errors", "from lance_namespace import TableNotFoundError"),
        ("import lance_namespace_urllib3_client.models.table_version", "from pennon import DirectoryNamespace"),
    ],
)
def test_error_classes_are_the_same_in_any_import_order(lake, first, second):
    script = CLASSES.format(first=first, second=second)
    result = subprocess.run(
        [sys.executable, "-c", script, str(lake)], capture_output=True, text=True, timeout=120, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_importing_pennon_imports_nothing_until_a_name_is_used():
    script = (
        "import pennon, sys; print(sorted({'lance', 'lance_namespace', 'pyarrow'} & set(sys.modules)), dir(pennon))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.startswith("[] ")
    assert "'connect'" in result.stdout


def test_closed_pipe_is_not_reported_as_an_error(root):
    with DirectoryNamespace(root=str(root)) as namespace:
        namespace.create_namespace({"id": ["many" * 10]})
        for number in range(400):
            namespace.create_namespace({"id": ["many" * 10, f"{number:04}" * 40]})
    command = [sys.executable, "-m", "pennon", "ls", "many" * 10, "--root", str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"{\n"
        # 400 entries of 500 bytes do not fit into the pipe: the command is still writing.
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


def test_piped_output_is_utf8_json_in_every_locale(root):
    name = "日本語 und é"
    with DirectoryNamespace(root=str(root)) as namespace:
        namespace.create_table({"id": [name]}, ipc(ROWS))
    command = [sys.executable, "-m", "pennon", "ls", "--root", str(root)]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    result = subprocess.run(command, capture_output=True, timeout=60, check=True, env=environment)
    assert json.loads(result.stdout.decode("utf-8"))["entries"][0]["name"] == name
    table = subprocess.run([*command, "--table"], capture_output=True, timeout=60, check=True, env=environment)
    assert "\\u65e5\\u672c\\u8a9e und é" in table.stdout.decode("latin-1")


def test_a_terminal_gets_a_table_in_colour(lake):
    with terminal("ls", "--root", str(lake)) as screen:
        assert screen.end() == 0
    assert "\x1b[1mname" in screen.seen
    assert "\x1b[36mtable" in screen.seen


@pytest.mark.parametrize("variables", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=lambda one: next(iter(one)))
def test_environment_can_disable_colour(lake, variables):
    with terminal("ls", "--root", str(lake), **variables) as screen:
        assert screen.end() == 0
    assert "\x1b" not in screen.seen
    assert screen.seen.replace("\r\n", "\n").startswith("name      type\nprod      namespace\n")


def test_json_option_writes_json_to_a_terminal(lake):
    with terminal("ls", "--json", "--root", str(lake)) as screen:
        assert screen.end() == 0
    assert [entry["name"] for entry in json.loads(screen.seen)["entries"]] == ["prod", "my.table", "plain"]


def test_long_work_shows_its_progress_on_a_terminal(lake):
    with terminal("ls", "--long", "--root", str(lake)) as screen:
        assert screen.end() == 0
    assert "opening tables" in screen.seen


def test_narrow_terminal_truncates_columns_but_not_names(root):
    name = "n" * 60
    with DirectoryNamespace(root=str(root)) as namespace:
        namespace.create_table({"id": [name]}, ipc({"text": ["x" * 200], "other": ["y" * 200]}))
    with terminal("head", name, "--root", str(root), columns=50, NO_COLOR="1") as screen:
        assert screen.end() == 0
    lines = screen.seen.replace("\r\n", "\n").splitlines()
    assert [len(line) for line in lines[1:2]] == [50]
    with terminal("ls", "--root", str(root), columns=40, NO_COLOR="1") as screen:
        assert screen.end() == 0
    assert name in screen.seen


def test_error_on_a_terminal_is_one_line(lake):
    with terminal("head", "nope", "--root", str(lake)) as screen:
        assert screen.end() == 3
    assert screen.seen == "\x1b[1;31mError:\x1b[0m Table not found: 'nope'\r\n"
