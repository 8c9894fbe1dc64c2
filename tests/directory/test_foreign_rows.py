"""Invalid or hostile rows written by other clients never cause loss of data."""

from __future__ import annotations

import shutil

import lance
import pyarrow as pa
import pytest
from lance_namespace.errors import LanceNamespaceError

from tests.directory.on_disk import directory, files, manifest, manifest_rows, rows, write_table
from tests.support import (
    create_namespace,
    create_table,
    describe_table,
    drop_namespace,
    ipc,
    list_all_tables,
    list_namespaces,
    list_tables,
    remove_table,
)


@pytest.fixture(params=["v2", "compatibility"])
def ns(request, tmp_path, open_namespace):
    """Open a root with one table, next to a table outside the root."""
    write_table(tmp_path / "victim", [13])
    ns = open_namespace(tmp_path / "root", request.param)
    create_namespace(ns, "a")
    create_table(ns, "a", "mine", data=ipc({"x": [1]}))
    return ns


def add_rows(ns, **locations):
    """Append table rows with plain Lance, without any check."""
    new = [{"object_id": f"a${name}", "object_type": "table", "location": where} for name, where in locations.items()]
    lance.write_dataset(pa.Table.from_pylist(new, manifest(ns).schema), manifest(ns).uri, mode="append")


HOSTILE = ["", ".", "./", "..", "../", "../victim", "x/../../victim", "/", "__manifest", "__manifest/data"]


@pytest.mark.parametrize("cascade", [False, True], ids=["drop", "cascade"])
@pytest.mark.parametrize("location", [*HOSTILE, "{outside}"], ids=repr)
def test_drop_of_a_table_with_a_hostile_location_deletes_nothing_else(ns, tmp_path, location, cascade):
    keep = create_table(ns, "keep", data=ipc({"x": [2]})).location
    add_rows(ns, evil=location.format(outside=tmp_path / "victim"))
    if cascade:
        drop_namespace(ns, "a", behavior="cascade")
        assert list_namespaces(ns) == []
    else:
        remove_table(ns, "a", "evil")
        assert list_tables(ns, "a") == ["mine"]
        assert rows(describe_table(ns, "a", "mine").location) == [1]
    assert rows(tmp_path / "victim") == [13]
    assert rows(keep) == [2]
    assert "keep" in manifest_rows(ns)


def test_drop_keeps_data_of_a_table_with_the_same_location(ns):
    shared = describe_table(ns, "a", "mine").location
    add_rows(ns, twin=shared.rpartition("/")[2])
    remove_table(ns, "a", "mine")
    assert rows(describe_table(ns, "a", "twin").location) == [1]
    remove_table(ns, "a", "twin")
    assert not [path for path in files(ns) if not path.startswith("__manifest/")]


def test_drop_keeps_data_of_a_table_with_an_equivalent_location(ns):
    shared = describe_table(ns, "a", "mine").location.rpartition("/")[2]
    add_rows(ns, slash=f"{shared}/", dot=f"./{shared}")
    for name in ("slash", "dot"):
        remove_table(ns, "a", name)
        assert rows(describe_table(ns, "a", "mine").location) == [1]


def test_drop_keeps_a_table_nested_in_the_dropped_directory(ns):
    write_table(directory(ns) / "outer", [5])
    write_table(directory(ns) / "outer/inner", [6])
    add_rows(ns, outer="outer", inner="outer/inner")
    remove_table(ns, "a", "outer")
    assert list_tables(ns, "a") == ["inner", "mine"]
    assert rows(describe_table(ns, "a", "inner").location) == [6]


def test_invalid_object_ids_do_not_break_the_catalog(ns):
    odd = ["", "$", "a$", "$a", "a$$b", "a$b$c$d", "__x", "missing$t", "a\nb", "a/b"]
    new = [{"object_id": key, "object_type": "table", "location": f"at{n}"} for n, key in enumerate(odd)]
    lance.write_dataset(pa.Table.from_pylist(new, manifest(ns).schema), manifest(ns).uri, mode="append")
    assert list_tables(ns, "a")[-1] == "mine"
    assert "a$mine" in list_all_tables(ns)
    assert "__x" not in list_tables(ns)
    create_namespace(ns, "b")
    drop_namespace(ns, "a", behavior="cascade")
    assert list_namespaces(ns) == ["b"]


def test_catalog_removed_from_disk_starts_empty(ns):
    assert list_namespaces(ns) == ["a"]
    shutil.rmtree(directory(ns))
    assert list_namespaces(ns) == []
    create_namespace(ns, "b")
    assert list_namespaces(ns) == ["b"]


def test_create_in_removed_catalog_fails_or_is_stored(ns):
    assert list_namespaces(ns) == ["a"]
    shutil.rmtree(directory(ns))
    try:
        create_namespace(ns, "b")
    except LanceNamespaceError:
        assert list_namespaces(ns) == []
        create_namespace(ns, "b")
    assert list_namespaces(ns) == ["b"]
    assert list(manifest_rows(ns)) == ["b"]
