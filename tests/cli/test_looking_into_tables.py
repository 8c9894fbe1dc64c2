from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal

import lance
import pyarrow as pa
import pytest

from pennon import DirectoryNamespace
from tests.cli.cli_support import ROWS, mode_options, terminal
from tests.support import ipc


@pytest.fixture
def versioned(lake):
    """Create three versions of prod.events, and a tag on the second."""
    with DirectoryNamespace(root=str(lake)) as namespace:
        location = namespace.describe_table({"id": ["prod", "events"]}).location
    dataset = lance.write_dataset(pa.table({"id": [4], "name": ["four"]}), location, mode="append")
    dataset.tags.create("second", 2)
    dataset.delete("id = 1")
    return lake


@pytest.fixture
def odd_values(root):
    """Create a table with values that have no JSON type, and with cells that are too wide for a terminal."""
    data = pa.table(
        {
            "number": [float("nan"), float("-inf")],
            "when": pa.array([dt.datetime(2026, 1, 2, 3, 4, 5), None], pa.timestamp("us", tz="UTC")),
            "day": pa.array([dt.date(2026, 1, 2), None]),
            "price": pa.array([Decimal("1.50"), None]),
            "body": pa.array([b"\x00\xff", b"x" * 5000], pa.binary()),
            "vector": pa.array([[0.5] * 64] * 2, pa.list_(pa.float32(), 64)),
            "nested": [{"a": 1, "b": ["x", None]}, None],
            "text": ["a\x1b]0;title\x07\nb\u202e", "long " * 1000],
        }
    )
    with DirectoryNamespace(root=str(root)) as namespace:
        namespace.create_table({"id": ["odd"]}, ipc(data))
    return root


def test_head_writes_rows_as_objects(pennon, lake):
    assert pennon("head", "prod.events", "-n", "2", root=lake).json == {
        "id": ["prod", "events"],
        "version": 1,
        "columns": ["id", "name"],
        "rows": [{"id": 1, "name": "one"}, {"id": 2, "name": "two"}],
    }


def test_head_chooses_columns_rows_and_version(pennon, versioned):
    chosen = pennon("head", "prod.events", "--columns", "name, id", "--where", "id >= 3", root=versioned).json
    assert (chosen["version"], chosen["columns"]) == (3, ["name", "id"])
    assert chosen["rows"] == [{"name": None, "id": 3}, {"name": "four", "id": 4}]
    assert len(pennon("head", "prod.events", "--version", "1", root=versioned).json["rows"]) == 3
    assert len(pennon("head", "prod.events", "--tag", "second", root=versioned).json["rows"]) == 4


def test_head_of_an_empty_result_says_no_rows(pennon, lake):
    assert pennon("head", "plain", "-n", "0", root=lake).json["rows"] == []
    assert pennon("head", "plain", "--where", "id > 9", "--table", root=lake).out == "no rows\n"


def test_values_without_a_json_type_become_strings(pennon, odd_values):
    result = pennon("head", "odd", root=odd_values)
    first, second = json.loads(result.out)["rows"]
    assert first["number"] == "NaN"
    assert second["number"] == "-Infinity"
    assert first["when"] == "2026-01-02T03:04:05+00:00"
    assert first["day"] == "2026-01-02"
    assert first["price"] == "1.50"
    assert base64.b64decode(first["body"]) == b"\x00\xff"
    assert first["vector"] == [0.5] * 64
    assert first["nested"] == {"a": 1, "b": ["x", None]}
    assert first["text"] == "a\x1b]0;title\x07\nb\u202e"
    assert second["when"] is None
    # The JSON text contains no control characters either.
    assert "\x1b" not in result.out
    assert "\u202e" not in result.out


def test_cells_on_a_terminal_are_short_and_escaped(odd_values):
    with terminal("--root", str(odd_values), "head", "odd", "--columns", "text,vector,body", columns=110) as screen:
        assert screen.end() == 0
    lines = screen.seen.replace("\r\n", "\n").splitlines()
    assert "[0.5, 0.5, 0.5, 0.5, … 64 items]" in screen.seen
    assert "<2 bytes>" in screen.seen
    assert "<5.0 kB>" in screen.seen
    assert r"a\x1b]0;title\x07\nb\u202e" in screen.seen
    assert "\x1b]" not in screen.seen
    assert len(lines) == 3


def test_too_wide_tables_are_written_as_records(root):
    data = pa.table({f"column_{number:02}": [f"value {number}"] for number in range(30)})
    with DirectoryNamespace(root=str(root)) as namespace:
        namespace.create_table({"id": ["wide"]}, ipc(data))
    with terminal("--root", str(root), "head", "wide", columns=80, NO_COLOR="1") as screen:
        assert screen.end() == 0
    lines = screen.seen.replace("\r\n", "\n").splitlines()
    assert lines[0] == "row 1"
    assert lines[1] == "  column_00  value 0"
    assert len(lines) == 31
    assert max(map(len, lines)) <= 80


def test_count(pennon, versioned):
    assert pennon("count", "prod.events", root=versioned).json == {"id": ["prod", "events"], "version": 3, "rows": 3}
    assert pennon("count", "prod.events", "--where", "name is null", root=versioned).json["rows"] == 1
    assert pennon("count", "prod.events", "--version", "2", root=versioned).json["rows"] == 4
    assert pennon("count", "prod.events", "--table", root=versioned).out == "3\n"


def test_versions_are_listed_newest_first_with_tags(pennon, versioned):
    document = pennon("versions", "prod.events", "--long", root=versioned).json
    assert [(one["version"], one["tags"], one["rows"]) for one in document["versions"]] == [
        (3, [], 3),
        (2, ["second"], 4),
        (1, [], 3),
    ]
    assert document["versions"][0]["committed_at"].endswith("+00:00")
    assert document["next_page"] is None


def test_versions_are_listed_in_pages(pennon, versioned):
    first = pennon("versions", "prod.events", "--limit", "2", root=versioned).json
    rest = pennon("versions", "prod.events", "--page", first["next_page"], root=versioned).json
    assert [one["version"] for one in first["versions"] + rest["versions"]] == [3, 2, 1]


def test_versions_of_a_catalog_that_manages_them(pennon, versioned):
    with DirectoryNamespace(root=str(versioned)) as namespace:
        namespace.enable_table_version_management()
    document = pennon("versions", "prod.events", root=versioned).json
    assert [one["version"] for one in document["versions"]] == [3, 2, 1]
    assert pennon("info", "prod.events", root=versioned).json["manages_versions"] is True
    assert pennon("head", "prod.events", "-n", "1", root=versioned).json["version"] == 3


def test_schema_shows_nested_fields(pennon, odd_values):
    fields = {field["name"]: field for field in pennon("schema", "odd", root=odd_values).json["fields"]}
    assert fields["number"] == {"name": "number", "type": "double", "nullable": True}
    assert fields["vector"]["type"] == "fixed_size_list<item: float>[64]"
    assert [field["name"] for field in fields["nested"]["fields"]] == ["a", "b"]
    shown = pennon("schema", "odd", "--table", root=odd_values).out
    assert "nested  struct\n  a     int64\n" in shown


def test_info_of_a_table(pennon, versioned):
    found = pennon("info", "prod.events", "--size", root=versioned).json
    assert found["type"] == "table"
    assert found["id"] == ["prod", "events"]
    assert (found["version"], found["rows"], found["deleted_rows"], found["fragments"]) == (3, 3, 1, 2)
    assert found["tags"] == {"second": 2}
    assert found["indexes"] == []
    assert found["files"] > 5
    assert found["bytes"] > found["data_bytes"] > 0


def test_info_of_a_declared_table(pennon, lake):
    found = pennon("info", "prod.promised", root=lake).json
    assert found["declared_only"] is True
    assert "rows" not in found


def test_info_of_a_namespace_hides_what_looks_like_a_secret(pennon, lake):
    result = pennon("info", "prod", root=lake)
    assert result.json == {
        "type": "namespace",
        "id": ["prod"],
        "namespaces": 1,
        "tables": 2,
        "protected": False,
        "properties": {"owner": "shop", "api_key": "***"},
    }
    assert "hunter2" not in result.out + pennon("info", "prod", "--table", root=lake).out


@pytest.mark.parametrize(("mode", "named"), [("v1", "V1"), ("v2", "V2"), ("compatibility", "compatibility")])
def test_info_of_the_catalog(pennon, root, mode, named):
    root.mkdir()
    found = pennon("info", *mode_options(mode), root=root).json
    assert (found["mode"], found["root"], found["tables"], found["namespaces"]) == (named, str(root), 0, 0)


def test_info_counts_everything_below(pennon, lake):
    found = pennon("info", root=lake).json
    assert (found["tables"], found["namespaces"]) == (5, 2)


@pytest.mark.parametrize("command", ["head", "count", "schema"])
def test_declared_table_raises_invalid_state(pennon, lake, command):
    result = pennon(command, "prod.promised", root=lake)
    assert (result.code, result.out) == (6, "")
    assert result.err == "Error: Table 'prod.promised' is declared and has no data yet\n"


def test_versions_of_a_table_without_data(pennon, lake):
    assert pennon("versions", "prod.promised", root=lake).json["versions"] == []


@pytest.mark.parametrize("command", ["head", "count"])
@pytest.mark.parametrize("where", ["no_such_column = 1", "id =", "id = 'unclosed", "name > 3 and"])
def test_a_bad_filter_is_bad_input_in_one_line(pennon, lake, command, where):
    result = pennon(command, "plain", "--where", where, root=lake)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(("Error: querying of table 'plain': ", "Error: counting "))
    assert result.err.count("\n") == 1
    assert ".rs:" not in result.err


def test_missing_column_is_not_found_and_similar_ones_are_named(pennon, lake):
    result = pennon("head", "plain", "--columns", "id,nope", root=lake)
    assert (result.code, result.err) == (3, "Error: Table 'plain' has no column 'nope'; its columns are: id, name\n")
    assert "did you mean 'name'?" in pennon("head", "plain", "--columns", "nam", root=lake).err


@pytest.mark.parametrize(
    "options", [["--version", "99"], ["--tag", "nope"], ["--branch", "nope"]], ids=["version", "tag", "branch"]
)
def test_missing_version_is_not_found(pennon, lake, options):
    result = pennon("count", "plain", *options, root=lake)
    assert (result.code, result.out) == (3, "")
    assert options[1] in result.err


def test_tag_and_version_exclude_each_other(pennon, lake):
    assert pennon("count", "plain", "--version", "1", "--tag", "a", root=lake).code == 2


def test_info_of_a_dropped_table_shows_how_to_restore_it(pennon, lake):
    assert pennon("drop", "plain", "--yes", root=lake).code == 0
    result = pennon("info", "plain", root=lake)
    assert result.code == 3
    assert "pennon undrop" in result.err


def test_rows_of_a_v1_table(pennon, v1_lake):
    result = pennon("head", "/my.table", *mode_options("v1"), root=v1_lake)
    assert result.json["rows"] == ROWS.to_pylist()


def test_manage_versions_is_turned_on_and_off(pennon, versioned):
    on = pennon("manage-versions", root=versioned)
    assert (on.code, on.json["manages_versions"]) == (0, True)
    assert on.json["versions"] >= 3
    assert pennon("info", root=versioned).json["manages_versions"] is True
    assert pennon("manage-versions", root=versioned).json["versions"] == 0
    assert pennon("manage-versions", "--off", root=versioned).json["manages_versions"] is False
    assert pennon("info", root=versioned).json["manages_versions"] is False
