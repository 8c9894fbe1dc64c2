"""LanceDB on a root of Pennon's: through its own directory namespace, and through Pennon's class."""

from __future__ import annotations

import pyarrow as pa
import pytest
from lance_namespace.errors import NamespaceNotEmptyError, TableNotFoundError

from tests.interop.peers import lancedb_connection, reference_client, values
from tests.support import (
    create_namespace,
    create_table,
    describe_table,
    drop_table,
    fails,
    ipc,
    list_namespaces,
    list_tables,
    register_table,
    remove_table,
)

pytestmark = pytest.mark.interop


@pytest.fixture(params=["dir", "pennon.DirectoryNamespace"])
def impl(request):
    return request.param


@pytest.fixture
def db(place, mode, impl):
    return lancedb_connection(place, mode, impl)


@pytest.fixture
def manifest_db(place, manifest_mode, impl):
    return lancedb_connection(place, manifest_mode, impl)


def test_a_table_of_pennon_is_listed_opened_and_searched(ours, db):
    vectors = pa.array([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]], pa.list_(pa.float32(), 2))
    create_table(ours, "t", data=ipc(pa.table({"x": [1, 2, 3], "vector": vectors})))
    assert db.list_tables().tables == ["t"]
    table = db.open_table("t")
    assert table.count_rows() == 3
    assert table.search([1.0, 0.1]).limit(1).to_list()[0]["x"] == 2


def test_rows_that_lancedb_adds_updates_and_deletes_are_read(ours, db):
    create_table(ours, "t", data=ipc({"x": [1, 2]}))
    table = db.open_table("t")
    table.add(pa.table({"x": [3]}))
    table.update(where="x = 1", values={"x": 10})
    table.delete("x = 2")
    assert sorted(values(ours, "t")) == [3, 10]
    assert describe_table(ours, "t", load_detailed_metadata=True).version == 4


def test_a_table_that_lancedb_creates_is_used_by_pennon(ours, db):
    db.create_table("t", pa.table({"x": [1, 2]}))
    assert list_tables(ours) == list_tables(ours, include_declared=False) == ["t"]
    assert values(ours, "t") == [1, 2]
    assert describe_table(ours, "t", check_declared=True).is_only_declared is False
    with fails(5):
        create_table(ours, "t")
    remove_table(ours, "t")
    assert db.list_tables().tables == []


def test_lancedb_overwrites_and_keeps_what_is_there(ours, db):
    create_table(ours, "t", data=ipc({"x": [1]}))
    assert db.create_table("t", pa.table({"x": [2]}), exist_ok=True).count_rows() == 1
    assert values(ours, "t") == [1]
    db.create_table("t", pa.table({"x": [5, 6]}), mode="overwrite")
    assert values(ours, "t") == [5, 6]


def test_table_dropped_by_lancedb_can_be_created_again(ours, db):
    create_table(ours, "t", data=ipc({"x": [1]}))
    db.drop_table("t")
    assert list_tables(ours) == []
    create_table(ours, "t", data=ipc({"x": [2]}))
    assert db.open_table("t").to_arrow()["x"].to_pylist() == [2]


def test_namespaces_and_their_tables_are_shared(place, manifest_mode, manifest_db, open_namespace):
    ours = open_namespace(place, manifest_mode)
    create_namespace(ours, "ours")
    manifest_db.create_namespace(["theirs"])
    assert list_namespaces(ours) == sorted(manifest_db.list_namespaces().namespaces) == ["ours", "theirs"]
    create_table(ours, "theirs", "a", data=ipc({"x": [1]}))
    manifest_db.create_table("b", pa.table({"x": [2]}), namespace_path=["ours"])
    assert manifest_db.open_table("a", namespace_path=["theirs"]).to_arrow()["x"].to_pylist() == [1]
    assert values(ours, "ours", "b") == [2]
    manifest_db.drop_table("a", namespace_path=["theirs"])
    manifest_db.drop_namespace(["theirs"])
    assert list_namespaces(ours) == ["ours"]


def test_a_table_stays_open_in_lancedb_while_pennon_renames_it(place, manifest_mode, manifest_db, open_namespace):
    ours = open_namespace(place, manifest_mode)
    create_namespace(ours, "n")
    create_table(ours, "n", "old", data=ipc({"x": [1]}))
    table = manifest_db.open_table("old", namespace_path=["n"])
    ours.rename_table({"id": ["n", "old"], "new_table_name": "new"})
    table.add(pa.table({"x": [2]}))
    assert values(ours, "n", "new") == [1, 2]
    assert manifest_db.open_table("new", namespace_path=["n"]).count_rows() == 2


def test_lancedb_recognises_a_namespace_that_is_not_empty(place, manifest_mode, manifest_db, open_namespace):
    ours = open_namespace(place, manifest_mode)
    create_namespace(ours, "n")
    create_table(ours, "n", "t")
    with pytest.raises(NamespaceNotEmptyError, match="Namespace not empty"):
        manifest_db.drop_namespace(["n"])


def test_lancedb_recognises_a_table_that_is_missing(ours, db):
    create_table(ours, "gone")
    drop_table(ours, "gone")
    for name in ("never", "gone"):
        with pytest.raises(TableNotFoundError):
            db.open_table(name)


def test_lancedb_lists_tables_in_pages_by_the_last_name(ours, db):
    for name in ("a", "b", "c", "d"):
        create_table(ours, name)
    with pytest.warns(DeprecationWarning, match="table_names"):
        assert list(db.table_names(limit=2)) == ["a", "b"]
    with pytest.warns(DeprecationWarning, match="table_names"):
        assert list(db.table_names(page_token="b", limit=2)) == ["c", "d"]


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("s3://bucket/t.lance", "Absolute URIs are not allowed"),
        ("/elsewhere/t.lance", "Absolute paths are not allowed"),
        ("../t.lance", "Path traversal is not allowed"),
        ("a/../../t.lance", "Path traversal is not allowed"),
    ],
)
def test_location_errors_have_the_texts_of_the_reference_client(place, manifest_mode, open_namespace, location, words):
    for client in (open_namespace(place, manifest_mode), reference_client(place, manifest_mode)):
        with fails(13, words):
            register_table(client, "t", location=location)
