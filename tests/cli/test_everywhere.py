"""Commands that work on every implementation: a directory, a server, an Iceberg REST catalog."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from tests.api.conftest import hub, place

__all__ = ["hub", "place"]
ROWS = {"id": [1, 2, 3], "name": ["one", "two", None]}
TEXTS = {
    "id": [1, 2, 3],
    "body": ["red apple", "green pear", "red pear"],
    "vector": pa.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], pa.list_(pa.float32(), 2)),
}


@pytest.fixture
def lake(place):
    """Open a catalog with a namespace and two tables."""
    with place.open() as opened:
        opened.create_namespace("sales")
        opened.create_table("sales.orders", ROWS)
        opened.create_table("sales.texts", pa.table(TEXTS))
        yield opened


@pytest.fixture
def command(place, lake, pennon):
    """Run a command on the catalog."""
    given = {**place.options.get("properties", {}), "uri" if "://" in place.location else "root": place.location}
    impl = place.options.get("impl", "rest" if "uri" in given else "dir")
    where = ["--impl", impl, *(part for key, value in given.items() for part in ("-p", f"{key}={value}"))]
    return lambda *arguments: pennon(*arguments, *where)


def test_append_adds_rows_from_files_with_the_types_of_the_table(command, lake, tmp_path):
    lake.create_table("sales.codes", pa.table({"code": ["007"], "n": pa.array([1], pa.int16())}))
    (tmp_path / "more.csv").write_text("n,code\n2,008\n3,\n")
    (tmp_path / "more.jsonl").write_text('{"code": "009", "n": 4}\n')
    files = [str(tmp_path / "more.csv"), str(tmp_path / "more.jsonl")]
    dry = command("append", "sales.codes", *files, "--dry-run").json
    assert (dry["rows"], dry["version"], lake["sales.codes"].count()) == (3, None, 1)
    done = command("append", "sales.codes", *files)
    assert done.json == {"id": ["sales", "codes"], "rows": 3, "version": 2, "dry_run": False}
    assert lake["sales.codes"].to_list() == [
        {"code": "007", "n": 1},
        {"code": "008", "n": 2},
        {"code": "", "n": 3},
        {"code": "009", "n": 4},
    ]


def test_append_of_rows_that_do_not_fit_changes_nothing(command, lake, tmp_path):
    file = tmp_path / "bad.csv"
    for content in ("id,name\nx,y\n", "id,other\n1,2\n"):
        file.write_text(content)
        result = command("append", "sales.orders", str(file))
        assert (result.code, result.out) == (2, "")
    assert "other" in result.err
    assert lake["sales.orders"].count() == 3
    missing = command("append", "sales.order", str(file))
    assert missing.code == 3
    assert "sales.orders" in missing.err


def test_search_finds_neighbours_of_vectors_and_of_rows(command):
    found = command("search", "sales.texts", "--vector", "[0.9, 0.1]", "--limit", "2", "--columns", "id").json
    assert [one["id"] for one in found["rows"]] == [1, 3]
    assert "_distance" in found["columns"]
    like = command("search", "sales.texts", "--like", "id = 2", "--where", "id <> 2", "-n", "1").json
    assert [one["id"] for one in like["rows"]] == [3]
    for wrong in (["--like", "id > 1"], ["--like", "id = 9"], ["--vector", "{}"], ["--vector", "[x]"], []):
        result = command("search", "sales.texts", *wrong)
        assert (result.code, result.out) == (2, "")
    assert "has no column of vectors" in command("search", "sales.orders", "--vector", "[1]").err


def test_search_finds_texts_and_fuses_both_rankings(command, lake):
    lake["sales.texts"].create_index("body", "FTS")
    found = command("search", "sales.texts", "apple").json
    assert [one["id"] for one in found["rows"]] == [1]
    both = command("search", "sales.texts", "pear", "--vector", "[0, 1]", "--text-columns", "body").json
    assert both["rows"][0]["id"] == 2
    assert "_relevance_score" in both["columns"]


def test_tags_are_listed_created_moved_and_deleted(command, lake):
    lake["sales.orders"].append(ROWS)
    assert command("tag", "sales.orders").json == {"id": ["sales", "orders"], "tags": []}
    made = command("tag", "sales.orders", "checked", "--version", "1").json["tags"]
    assert made == [{"name": "checked", "version": 1, "branch": None}]
    assert command("tag", "sales.orders", "checked").code == 4
    assert command("tag", "sales.orders", "checked", "--move").json["tags"][0]["version"] == 2
    assert command("tag", "sales.orders", "checked", "--delete").json["tags"] == []
    assert command("tag", "sales.orders", "checked", "--delete").code == 3
    assert command("tag", "sales.orders", "other", "--version", "99").code == 3
    assert command("tag", "sales.orders", "--move").code == 2


def test_restore_makes_an_old_version_the_latest_again(command, lake):
    lake["sales.orders"].append(ROWS).append(ROWS)
    lake["sales.orders"].tag("checked", 2)
    assert command("restore", "sales.orders", "1", "--dry-run").json["version"] is None
    assert lake["sales.orders"].version == 3
    assert command("restore", "sales.orders", "1").json == {
        "id": ["sales", "orders"],
        "restored": 1,
        "version": 4,
        "dry_run": False,
    }
    assert command("restore", "sales.orders", "checked").json["restored"] == 2
    assert lake["sales.orders"].count() == 6
    for wrong in ("99", "unknown"):
        assert command("restore", "sales.orders", wrong, "--dry-run").code == 3
        assert command("restore", "sales.orders", wrong).code == 3


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("rows.parquet", lambda path: parquet.read_table(path).to_pylist()),
        ("rows.arrow", lambda path: feather.read_table(path).to_pylist()),
        ("rows.jsonl", lambda path: [json.loads(line) for line in path.read_text().splitlines()]),
    ],
)
def test_export_writes_rows_that_can_be_read_again(command, tmp_path, name, read):
    file = tmp_path / name
    done = command("export", "sales.orders", str(file), "--where", "id > 1", "--columns", "id,name").json
    assert (done["rows"], done["bytes"]) == (2, file.stat().st_size)
    assert read(file) == [{"id": 2, "name": "two"}, {"id": 3, "name": None}]


def test_properties_of_namespaces_and_tables_are_set_and_removed(command):
    for address, kind in (("sales", "namespace"), ("sales.orders", "table")):
        done = command("properties", address, "--set", "owner=shop", "--set", "draft=yes").json
        assert (done["type"], done["properties"]["owner"]) == (kind, "shop")
        assert "draft" not in command("properties", address, "--unset", "draft").json["properties"]
        assert command("properties", address).json["properties"]["owner"] == "shop"
    assert command("properties", "sales.nothing").code == 3
    assert command("properties", "sales", "--set", "a=1", "--unset", "a").code == 2


def test_a_failed_export_leaves_no_file_and_keeps_an_existing_one(command, tmp_path):
    file = tmp_path / "rows.csv"
    assert command("export", "sales.texts", str(file)).code == 2
    assert command("export", "sales.orders", str(file), "--where", "nonsense >").code == 2
    assert not list(tmp_path.glob("*rows*"))
    file.write_text("mine")
    assert command("export", "sales.orders", str(file)).code == 4
    assert file.read_text() == "mine"
    assert command("export", "sales.orders", str(file), "--force").code == 0
    assert file.read_text().startswith('"id","name"')
    assert command("export", "sales.orders", str(tmp_path / "nowhere" / "rows.csv")).code == 3
    assert list(tmp_path.glob("*rows*")) == [file]
