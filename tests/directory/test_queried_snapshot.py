"""Questions about the manifest have the same answers from memory and by queries of the stored table."""

from __future__ import annotations

import shutil
import tempfile
from datetime import timedelta

import lance
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pennon.directory.manifest import manifest
from pennon.directory.manifest.loaded_snapshot import LoadedSnapshot
from pennon.directory.manifest.loading import advance
from pennon.directory.manifest.queried_snapshot import QueriedSnapshot
from pennon.directory.manifest.row import NAMESPACE, SCHEMA, TABLE, TABLE_VERSION, Row, rows_to_table
from tests.support import (
    create_namespace,
    create_table,
    describe_table,
    drop_namespace,
    drop_table,
    list_all_tables,
    list_namespaces,
    list_tables,
    rename_table,
    table_exists,
)

PARENTS = ["", "a", "a$b", "it's", "__trash", "a%b"]
NAMES = ["a", "b", "c!", "c#x", "it's", "100%", "x_y", "ü\U0001f600", "back\\slash", "sp ace", "--", "1", "12", "007"]
LOCATIONS = [None, "x.lance", "./x.lance", "x.lance/", "deep/x", "deep/x/y", "00000000_a$b", "../out", "it's", "deep"]

keys = st.builds(
    lambda parent, name: f"{parent}${name}" if parent else name, st.sampled_from(PARENTS), st.sampled_from(NAMES)
)
rows = st.one_of(
    st.builds(Row, keys, st.just(NAMESPACE), st.none(), st.sampled_from([None, '{"k":"v"}'])),
    st.builds(Row, keys, st.just(TABLE), st.sampled_from(LOCATIONS)),
    st.builds(Row, keys, st.just(TABLE_VERSION), st.none(), st.just('{"path":"p"}')),
    st.builds(Row, keys, st.just("view")),
)


def open_both(root, contents, deleted, indexed):
    """Write rows in two fragments, delete some, and return the snapshot in memory and the one that queries."""
    half = len(contents) // 2
    for position, part in enumerate((contents[:half], contents[half:])):
        lance.write_dataset(
            rows_to_table(part),
            root,
            schema=SCHEMA,
            mode="append" if position else "create",
            data_storage_version="2.2",
        )
    dataset = lance.dataset(root)
    if indexed:
        dataset.create_scalar_index("object_id", "BTREE", name="object_id_btree")
    if deleted:
        dataset.delete("object_id IN ('a', 'a$b', 'a$b$1')")
    loaded = LoadedSnapshot()
    advance(loaded, dataset)
    return loaded, QueriedSnapshot(dataset)


@settings(max_examples=12)
@example([Row("a$1", TABLE, "deep/x"), Row("b", NAMESPACE), Row("a", TABLE_VERSION)], False, True)
@given(st.lists(rows, min_size=1, max_size=30, unique_by=lambda row: row.object_id), st.booleans(), st.booleans())
def test_both_snapshots_give_the_same_answers(contents, deleted, indexed):
    root = tempfile.mkdtemp()
    try:
        loaded, queried = open_both(f"{root}/manifest", contents, deleted, indexed)
        for parent in [*PARENTS, "missing"]:
            assert list(queried.namespace_names(parent)) == list(loaded.namespace_names(parent))
            assert list(queried.table_names(parent)) == list(loaded.table_names(parent))
            assert list(queried.listed_table_names(parent)) == list(loaded.listed_table_names(parent))
            assert list(queried.table_names(parent, "b", 2)) == list(loaded.table_names(parent, "b", 2))
            assert list(queried.namespace_names(parent, "", 1)) == list(loaded.namespace_names(parent, "", 1))
            assert list(queried.versions_of(parent)) == list(loaded.versions_of(parent))
            assert sorted(queried.descendants(parent)) == sorted(loaded.descendants(parent))
            assert queried.table_ids(parent) == loaded.table_ids(parent)
        for row in contents:
            assert queried.get(row.object_id) == loaded.get(row.object_id)
            if loaded.get(row.object_id) is not None:
                assert queried.place(row.object_id) == loaded.place(row.object_id)
        queried.expect_locations(*(location for location in LOCATIONS[: len(contents)] if location is not None))
        for location in LOCATIONS:
            if location is not None:
                assert queried.object_ids_at(location) == loaded.object_ids_at(location)
                assert sorted(queried.locations_below(location)) == sorted(loaded.locations_below(location))
        assert queried.versioned_tables() == loaded.versioned_tables()
        for fragment in loaded.fragments:
            assert queried.fragments[fragment].live == loaded.fragments[fragment].live
            assert queried.unreadable_in(fragment) == loaded.unreadable_in(fragment)
    finally:
        shutil.rmtree(root)


@pytest.fixture
def large(monkeypatch):
    """Treat every manifest as too large to be loaded at once, or after a few queries."""
    monkeypatch.setattr(manifest, "LOADED_AT_ONCE", -1)
    monkeypatch.setattr(manifest, "LOADED_AT_ONCE_REMOTELY", -1)
    monkeypatch.setattr(manifest, "_SECONDS_TO_LOAD_A_ROW", 1000.0)


def test_client_of_a_large_manifest_answers_and_changes_it_without_loading_it(large, root, open_namespace):
    ns = open_namespace(root, "v2")
    create_namespace(ns, "n")
    for name in ("t1", "t2", "t3"):
        create_table(ns, "n", name)
    drop_table(ns, "n", "t2")

    cold = open_namespace(root, "v2")
    create_table(cold, "n", "t4")

    assert isinstance(cold._catalog.manifest._snapshot, QueriedSnapshot)
    assert list_tables(cold, "n") == ["t1", "t3", "t4"]
    assert list_namespaces(cold) == ["n"]
    assert describe_table(cold, "n", "t3").location == describe_table(ns, "n", "t3").location
    drop_namespace(cold, "n", behavior="Cascade")
    assert list_namespaces(ns) == []


def test_root_of_a_large_catalog_is_listed_without_loading_the_manifest(large, root, open_namespace):
    ns = open_namespace(root)
    create_namespace(ns, "n")
    for name in ("dropped", "renamed", "row", "row2"):
        create_table(ns, name)
    create_table(open_namespace(root, "v1"), "directory")
    rename_table(ns, "renamed", to="moved")
    rename_table(ns, "row2", to="inner", into=["n"])
    drop_table(ns, "dropped")

    cold = open_namespace(root)

    assert list_tables(cold) == ["directory", "moved", "row"]
    assert list_all_tables(cold, id=[]) == ["directory", "moved", "n$inner", "row"]
    assert isinstance(cold._catalog.manifest._snapshot, QueriedSnapshot)


def test_manifest_is_loaded_from_the_latest_version_if_the_open_one_was_removed(large, root, open_namespace):
    ns, writer = open_namespace(root, "v2"), open_namespace(root, "v2")
    create_table(writer, "t")
    ns._catalog.manifest.read(lambda snapshot: None)  # opens the version and reads no row
    create_table(writer, "u")
    drop_table(writer, "t")
    table = lance.dataset(f"{root.uri}/__manifest")
    table.optimize.compact_files()
    table.cleanup_old_versions(timedelta(0), delete_unverified=True)

    with ns._catalog.manifest._guard:
        loaded = ns._catalog.manifest._load_whole()

    assert list(loaded.table_names("")) == ["u"]


def test_large_manifest_is_loaded_once_queries_took_as_long(large, monkeypatch, root, open_namespace):
    writer = open_namespace(root, "v2")
    create_table(writer, "t")
    ns = open_namespace(root, "v2")
    monkeypatch.setattr(manifest, "_SECONDS_TO_LOAD_A_ROW", 0.0)

    table_exists(ns, "t")
    table_exists(ns, "t")
    ns._catalog.manifest._loader.join()
    create_table(writer, "u")

    assert isinstance(ns._catalog.manifest._snapshot, LoadedSnapshot)
    assert list_all_tables(ns, id=[]) == ["t", "u"]


def test_rows_without_an_id_or_a_type_are_left_out_and_counted(tmp_path):
    schema = pa.schema([field.with_nullable(True).remove_metadata() for field in SCHEMA])
    ids, types = ["b", None, "a", "c"], [NAMESPACE, NAMESPACE, None, NAMESPACE]
    columns = [ids, types, [None] * 4, [None] * 4, [None] * 4]
    table = pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
    dataset = lance.write_dataset(table, str(tmp_path / "manifest"))
    loaded = LoadedSnapshot()
    advance(loaded, dataset)

    for snapshot in (loaded, QueriedSnapshot(dataset)):
        assert list(snapshot.namespace_names("")) == ["b", "c"]
        assert snapshot.unreadable_in(0) == 2
