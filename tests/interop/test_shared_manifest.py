"""The manifest as a Lance table that several kinds of client write: fragments, indexes, columns, flags."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

from pennon.directory.manifest import commit
from pennon.directory.manifest.upkeep import update_indexes
from tests.interop.peers import manifest, manifest_rows, reference_client, values
from tests.support import (
    create_namespace,
    create_table,
    describe_namespace,
    describe_table,
    drop_namespace,
    fails,
    ipc,
    list_all_tables,
    list_namespaces,
    list_tables,
    remove_table,
    rename_table,
)

pytestmark = pytest.mark.interop


@pytest.fixture
def ours(place, open_namespace):
    return open_namespace(place, "v2")


@pytest.fixture
def reference(place):
    return reference_client(place, "v2")


def names(count, prefix="n"):
    return [f"{prefix}{number:03}" for number in range(count)]


def test_both_clients_make_the_same_schema(tmp_path, open_namespace):
    root, other_root = str(tmp_path / "ours"), str(tmp_path / "theirs")
    create_namespace(open_namespace(root, "v2"), "n")
    create_namespace(lance.namespace.DirectoryNamespace(root=other_root), "n")
    mine, theirs = lance.dataset(f"{root}/__manifest"), lance.dataset(f"{other_root}/__manifest")
    assert mine.schema.equals(theirs.schema, check_metadata=True)
    assert mine.data_storage_version == theirs.data_storage_version
    assert mine.to_table().to_pylist() == theirs.to_table().to_pylist()


def test_both_clients_write_the_same_rows(place, ours, reference):
    create_namespace(ours, "a", properties={"k": "v"})
    create_namespace(reference, "b", properties={"k": "v"})
    create_namespace(ours, "c")
    create_namespace(reference, "d")
    create_table(ours, "a", "t", properties={"p": "q"})
    create_table(reference, "a", "u", properties={"p": "q"})
    rows = manifest_rows(place)
    for mine, theirs in (("a", "b"), ("c", "d"), ("a$t", "a$u")):
        ignored = {"object_id", "location"}
        assert {key: value for key, value in rows[mine].items() if key not in ignored} == {
            key: value for key, value in rows[theirs].items() if key not in ignored
        }
    assert rows["a$t"]["location"].endswith("_a$t")
    assert rows["a$u"]["location"].endswith("_a$u")


def test_many_fragments_and_indexes_are_read_by_the_reference(place, ours, reference):
    expected = names(70)
    for name in expected:
        create_namespace(ours, name, properties={"name": name})
    create_table(ours, "n042", "t", data=ipc({"x": [1]}))
    ours.close()
    found = manifest(place)
    assert len(found.get_fragments()) > 1
    assert {index.name for index in found.describe_indices()} == {
        "object_id_btree",
        "object_type_bitmap",
        "base_objects_label_list",
    }
    assert list_namespaces(reference) == expected
    assert describe_namespace(reference, "n042").properties == {"name": "n042"}
    assert values(reference, "n042", "t") == [1]
    with fails(3):
        drop_namespace(reference, "n042")
    with fails(2):
        create_namespace(reference, "n069")


def test_a_write_of_the_reference_keeps_what_was_in_many_fragments(place, ours, reference, open_namespace):
    expected = names(70)
    for name in expected:
        create_namespace(ours, name)
    for name in expected[::2]:
        drop_namespace(ours, name)
    create_namespace(reference, "theirs")
    assert len(manifest(place).get_fragments()) == 1
    kept = sorted([*expected[1::2], "theirs"])
    assert list_namespaces(ours) == list_namespaces(reference) == kept
    assert list_namespaces(open_namespace(place, "v2")) == kept


def test_manifest_with_one_fragment_and_no_indexes_is_usable_by_both(place, reference, open_namespace):
    for name in names(20):
        create_namespace(reference, name)
    create_table(reference, "n003", "t", data=ipc({"x": [3]}))
    found = manifest(place)
    assert (len(found.get_fragments()), list(found.describe_indices())) == (1, [])
    ours = open_namespace(place, "v2")
    assert list_namespaces(ours) == names(20)
    for name in names(20, "ours"):
        create_namespace(ours, name)
    drop_namespace(ours, "n000")
    rename_table(ours, "n003", "t", to="u", into=["ours007"])
    ours.close()
    assert list_namespaces(reference) == names(20)[1:] + names(20, "ours")
    assert values(reference, "ours007", "u") == [3]
    remove_table(reference, "ours007", "u")
    assert list_all_tables(open_namespace(place, "v2")) == []


def test_clients_alternate_on_one_root_many_times(ours, reference):
    expected = set()
    for number in range(40):
        writer, other = (ours, reference) if number % 2 else (reference, ours)
        create_namespace(writer, f"n{number}")
        create_table(other, f"n{number}", "t", data=ipc({"x": [number]}))
        expected.add(f"n{number}")
        if number % 5 == 4:
            remove_table(writer, f"n{number - 2}", "t")
            drop_namespace(other, f"n{number - 2}")
            expected.discard(f"n{number - 2}")
        assert set(list_namespaces(ours)) == set(list_namespaces(reference)) == expected
    for name in expected:
        assert values(ours, name, "t") == [int(name[1:])]


@pytest.mark.parametrize("writer", ["that was there all the time", "that came after the drop"])
def test_rows_written_during_an_index_build_are_found(place, reference, open_namespace, monkeypatch, writer):
    ours = open_namespace(place, "v2")
    for name in names(5):
        create_namespace(ours, name)
    create_namespace(ours, "passing")
    slow_upkeep = manifest(place)
    drop_namespace(ours, "passing")
    write_fragments = commit.write_fragments

    def index_then_write(*arguments, **options):
        # Upkeep of another process started before the drop, and ends during a commit.
        update_indexes(slow_upkeep)
        return write_fragments(*arguments, **options)

    client = ours if writer == "that was there all the time" else open_namespace(place, "v2")
    list_namespaces(client)
    monkeypatch.setattr(commit, "write_fragments", index_then_write)
    create_namespace(client, "last")
    monkeypatch.undo()
    assert manifest_rows(place).keys() == {*names(5), "last"}
    assert manifest(place).to_table(filter="object_id = 'last'").num_rows == 1
    assert list_namespaces(ours) == list_namespaces(reference) == sorted([*names(5), "last"])
    with fails(2):
        create_namespace(reference, "last")
    create_table(reference, "last", "t")
    assert list_tables(ours, "last") == ["t"]


def test_indexes_dropped_by_the_reference_are_rebuilt(place, ours, reference):
    for name in names(40):
        create_namespace(ours, name)
    create_namespace(reference, "theirs")
    for name in names(40, "more"):
        create_namespace(ours, name)
    ours.close()
    assert len(list(manifest(place).describe_indices())) == 3
    expected = sorted([*names(40), *names(40, "more"), "theirs"])
    assert list_namespaces(reference) == expected
    for name in expected[::7]:
        assert describe_namespace(reference, name) is not None


def test_a_manifest_that_another_tool_compacted_is_read(place, ours, reference):
    for name in names(10):
        create_namespace(ours, name)
    assert len(manifest(place).get_fragments()) == 10
    manifest(place).optimize.compact_files()
    create_namespace(ours, "after")
    assert list_namespaces(ours) == list_namespaces(reference) == ["after", *names(10)]


def test_a_row_that_another_tool_inserted_is_read(place, ours, reference):
    create_namespace(ours, "a")
    table = manifest(place)
    row = {"object_id": "b", "object_type": "namespace", "location": None, "metadata": None, "base_objects": None}
    rows = pa.Table.from_pylist([row], schema=table.schema)
    table.merge_insert("object_id").when_not_matched_insert_all().execute(rows)
    assert list_namespaces(ours) == list_namespaces(reference) == ["a", "b"]
    with fails(2):
        create_namespace(ours, "b")
    drop_namespace(ours, "b")
    assert list_namespaces(reference) == ["a"]


def test_a_column_that_pennon_does_not_know_is_kept(place, ours):
    create_namespace(ours, "a")
    manifest(place).add_columns(pa.schema([pa.field("extra", pa.string())]))
    manifest(place).update({"extra": "'x'"})
    create_namespace(ours, "b")
    ours.alter_namespace_properties(["a"], {"k": "v"})
    rows = manifest_rows(place)
    assert (rows["a"]["extra"], rows["b"]["extra"]) == ("x", None)
    assert describe_namespace(ours, "a").properties == {"k": "v"}


def test_flags_that_a_newer_client_sets_are_respected(place, ours, open_namespace):
    create_namespace(ours, "a")
    manifest(place).update_metadata({"lance.namespace.manifest.writer_feature_flags": "1024"})
    assert list_namespaces(ours) == ["a"]
    with fails(0, "upgrade"):
        create_namespace(ours, "b")
    manifest(place).update_metadata({"lance.namespace.manifest.reader_feature_flags": "1024"})
    with fails(0, "upgrade"):
        list_namespaces(open_namespace(place, "v2"))


def test_a_catalog_that_was_migrated_is_read_by_the_reference(place, open_namespace):
    v1 = open_namespace(place, "v1")
    for number in range(5):
        create_table(v1, f"t{number}", data=ipc({"x": [number]}))
    create_table(reference_client(place, "v1"), "theirs", data=ipc({"x": [9]}))
    open_namespace(place).migrate_to_manifest()
    reference = reference_client(place, "v2")
    assert list_tables(reference) == ["t0", "t1", "t2", "t3", "t4", "theirs"]
    assert values(reference, "theirs") == [9]
    assert describe_table(reference, "t3").location.endswith("/t3.lance")
