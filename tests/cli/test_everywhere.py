"""Commands that work on every implementation: a directory, a server, an Iceberg REST catalog."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from pennon import __version__ as pennon_version
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


def list_addresses(command, *arguments: str) -> list[str]:
    return [one["address"] for one in command("ls", *arguments).json["entries"]]


def test_listings_show_namespaces_and_tables_in_pages(command, lake):
    lake.create_namespace("sales.raw")
    assert list_addresses(command) == ["sales"]
    assert list_addresses(command, "sales") == ["sales.raw", "sales.orders", "sales.texts"]
    assert list_addresses(command, "sales.orders") == ["sales.orders"]
    assert list_addresses(command, "-r") == ["sales.orders", "sales.texts"]
    pages, token = [], []
    while token is not None:
        page = command("ls", "sales", "--limit", "1", *token).json
        pages.append([one["name"] for one in page["entries"]])
        token = page["next_page"] and ["--page", page["next_page"]]
    assert pages == [["raw"], ["orders"], ["texts"]]
    assert command("ls", "nothing").code == 3
    assert "did you mean 'sales'?" in command("ls", "salse").err
    assert command("ls", "--page", "nonsense").code == 2
    assert command("tree").json["namespaces"] == [
        {
            "name": "sales",
            "namespaces": [{"name": "raw", "namespaces": [], "tables": []}],
            "tables": ["orders", "texts"],
        }
    ]


def test_tables_are_described_and_read(command, lake):
    lake["sales.orders"].append(ROWS)
    (entry,) = command("ls", "sales.orders", "--long").json["entries"]
    assert (entry["version"], entry["rows"], entry["columns"]) == (2, 6, 2)
    assert entry["changed_at"].endswith("+00:00")
    info = command("info", "sales.orders").json
    assert (info["type"], info["rows"], info["columns"], info["tags"]) == ("table", 6, 2, {})
    assert command("info", "sales").json["tables"] == 2
    assert command("info").json["tables"] == 2
    assert command("info", "sales.order").code == 3
    assert [one["name"] for one in command("schema", "sales.orders").json["fields"]] == ["id", "name"]
    head = command("head", "sales.orders", "-n", "1", "--columns", "name", "--where", "id = 2").json
    assert (head["version"], head["rows"]) == (2, [{"name": "two"}])
    assert command("head", "sales.orders", "--version", "1", "-n", "9").json["rows"][2] == {"id": 3, "name": None}
    assert command("count", "sales.orders", "--version", "1", "--where", "id > 1").json["rows"] == 2
    versions = command("versions", "sales.orders", "--long").json["versions"]
    assert [(one["version"], one["rows"]) for one in versions] == [(2, 6), (1, 3)]
    assert "did you mean 'sales.orders'" in command("head", "sales.order").err


def test_namespaces_and_tables_are_created_and_renamed(command, lake, tmp_path):
    (tmp_path / "new.csv").write_text("id\n1\n2\n")
    new = str(tmp_path / "new.csv")
    assert command("create-namespace", "a.b").code == 3
    assert command("create-namespace", "a.b", "--parents", "--set", "owner=me").json["created"] is True
    assert lake.namespace_properties("a.b")["owner"] == "me"
    assert command("create-namespace", "a.b").code == 4
    assert command("create-namespace", "a.b", "--mode", "exist_ok").json["created"] is False
    assert command("create", "a.b.new", new, "--dry-run").json["new_catalog"] is False
    made = command("create", "a.b.new", new).json
    assert (made["version"], made["rows"]) == (1, 2)
    assert command("create", "a.b.new", new).code == 4
    assert command("create", "a.b.new", new, "--mode", "exist_ok").json["created"] is False
    assert command("create", "a.c.new", new).code == 3
    assert command("create", "a.b", new).code == 4
    assert command("rename", "a.b.new", "sales.moved", "--dry-run").code == 0
    assert command("rename", "a.b.new", "sales.orders").code == 4
    assert command("rename", "a.b.new", "sales.moved").code == 0
    assert lake["sales.moved"].count() == 2


def test_drops_are_listed_restored_and_purged(command, lake, place):
    namespace = command("drop", "sales", "--yes")
    assert (namespace.code, "--namespace" in namespace.err) == (2, True)
    table = command("drop", "sales.orders", "--namespace", "--yes")
    assert (table.code, "is a table" in table.err) == (2, True)
    assert command("drop", "sales", "--namespace", "--yes").code == 6
    assert command("drop", "sales.orders", "sales.nope", "--yes").code == 3
    assert command("drop", "sales.orders").code == 6
    (gone,) = command("drop", "sales.orders", "sales.nope", "--if-exists", "--yes").json["tables"]
    if place.kind == "iceberg":
        # By this protocol, the server keeps dropped tables itself.
        for refused in (["trash"], ["undrop", "sales.orders"], ["purge", "--yes"]):
            result = command(*refused)
            assert (result.code, result.out, result.err.count("\n")) == (5, "", 1)
        return
    (kept,) = command("trash", "sales").json["dropped"]
    assert (kept["id"], kept["drop_id"]) == (["sales", "orders"], gone["drop_id"])
    assert "sales.orders" not in lake
    assert command("undrop", "sales.orders", "--as", "sales.texts", "--dry-run").code == 4
    assert command("undrop", "sales.orders", "--dry-run").code == 0
    assert command("undrop", "sales.orders", "--as", "sales.back").json["id"] == ["sales", "back"]
    assert command("undrop", "sales.orders").code == 3
    command("drop", "sales.back", "--yes")
    assert command("purge", "--yes").json["tables"] == []
    assert command("purge", "sales.back", "--yes").code == 6
    (id_,) = [one["drop_id"] for one in command("trash").json["dropped"]]
    assert command("purge", "sales.back", "--id", "nope", "--force", "--dry-run").code == 3
    planned = command("purge", "sales.back", "--id", id_, "--force", "--dry-run").json["tables"]
    assert [one["drop_id"] for one in planned] == [id_]
    assert len(command("purge", "sales.back", "--force", "--yes").json["tables"]) == 1
    assert command("trash").json["dropped"] == []
    assert command("drop", "sales.texts", "--purge", "--yes").json["purged"] is True
    assert command("trash").json["dropped"] == []


def test_namespaces_are_dropped_with_their_contents_and_restored(command, lake, place):
    assert command("drop", "sales", "--namespace", "--cascade", "--yes").json["namespaces"] == [{"id": ["sales"]}]
    assert lake.namespaces() == []
    if place.kind == "iceberg":
        refused = command("undrop", "sales", "--namespace")
        assert (refused.code, refused.out, refused.err.count("\n")) == (5, "", 1)
        return
    assert [one["id"] for one in command("trash").json["dropped"] if one["type"] == "table"] == [
        ["sales", "orders"],
        ["sales", "texts"],
    ]
    assert len(command("undrop", "sales", "--namespace").json["tables"]) == 2
    assert lake.tables() == ["sales.orders", "sales.texts"]


def test_protected_tables_are_not_dropped(command, place):
    on = command("protect", "sales.orders")
    if place.kind == "iceberg":
        assert (on.code, on.out, on.err.count("\n")) == (5, "", 1)
        return
    assert on.json == {"type": "table", "id": ["sales", "orders"], "protected": True}
    assert command("protect", "sales", "--namespace").code == 0
    assert command("drop", "sales.orders", "--yes").code == 6
    assert command("drop", "sales", "--namespace", "--cascade", "--yes").code == 6
    assert command("protect", "sales", "--namespace", "--off").code == 0
    assert command("protect", "sales.orders", "--off").json["protected"] is False
    assert command("drop", "sales.orders", "--yes").code == 0
    assert command("protect", "sales.orders").code == 3


def test_commands_on_a_whole_catalog_work_or_say_why_not(command, place):
    for arguments in (["migrate"], ["migrate", "--markers"], ["manage-versions"], ["manage-versions", "--off"]):
        result = command(*arguments)
        if place.kind == "iceberg":
            assert (result.code, result.out, result.err.count("\n")) == (5, "", 1)
        else:
            assert (result.code, result.err) == (0, "")
    if place.kind in {"rest", "iceberg"}:
        size = command("info", "sales.orders", "--size")
        assert (size.code, "--size" in size.err) == (5, True)


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


def test_doctor_examines_every_kind_of_catalog(command, lake, place):
    result = command("doctor", "--deep")
    assert (result.code, result.err) == (0, "")
    assert result.json["healthy"] is True
    checks = {one["name"]: one["skipped"] for one in result.json["checks"]}
    if place.kind == "rest":
        assert checks == {"server": None, "rows": None, "trash": None, "store": checks["store"]}
        assert "on the catalog that it serves" in checks["store"]
        assert result.json["figures"]["server_version"] == pennon_version
    elif place.kind == "iceberg":
        assert [name for name, skipped in checks.items() if skipped is None] == ["server", "access", "store", "tables"]
        assert (result.json["figures"]["listed_table"], result.json["figures"]["tables"]) == ("sales.orders", 2)
    else:
        assert [name for name, skipped in checks.items() if skipped] == ["versions"]
        assert result.json["figures"]["tables"] == 2
