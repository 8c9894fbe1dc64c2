"""Writes keep columns of the manifest that Pennon does not know."""

from __future__ import annotations

import datetime as dt

import lance
import pyarrow as pa
import pytest

from tests.directory.on_disk import directory, manifest, manifest_rows, write_table
from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    drop_namespace,
    list_all_tables,
    list_namespaces,
    register_table,
    remove_table,
    rename_table,
)

NOTES = {
    "note": (pa.string(), "a 'note'"),
    "count": (pa.int64(), 7),
    "at": (pa.timestamp("us", tz="UTC"), dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=dt.timezone.utc)),
    "raw": (pa.binary(), b"\0\xff"),
    "tags": (pa.list_(pa.string()), ["x", "y"]),
    "deep": (pa.struct([pa.field("k", pa.string()), pa.field("v", pa.list_(pa.int32()))]), {"k": "a", "v": [1, 2]}),
    "vector": (pa.list_(pa.float32(), 2), [0.5, 1.5]),
}


def annotate(ns):
    """Add the columns with a value in every existing row, as a newer client does."""
    dataset = manifest(ns)
    schema = pa.schema([pa.field(name, kind) for name, (kind, _) in NOTES.items()])
    count = dataset.count_rows()
    values = pa.Table.from_arrays([pa.array([value] * count, kind) for kind, value in NOTES.values()], schema=schema)
    dataset.add_columns(values.to_reader())


def notes(ns):
    """Return the extra columns of every row, by object id."""
    return {key: {name: row[name] for name in NOTES} for key, row in manifest_rows(ns).items()}


FULL = {name: value for name, (_, value) in NOTES.items()}
EMPTY = dict.fromkeys(NOTES)


@pytest.fixture(params=["v2", "compatibility"])
def ns(request, root, open_namespace):
    """Return a catalog whose rows have values in columns of a newer client."""
    ns = open_namespace(root, request.param)
    for names in (["a"], ["a", "b"], ["empty"]):
        create_namespace(ns, *names)
    create_table(ns, "t", properties={"k": "v"})
    create_table(ns, "a", "t")
    annotate(ns)
    return ns


def test_reads_ignore_unknown_columns(ns):
    assert list_all_tables(ns) == ["a$t", "t"]
    assert list_namespaces(ns) == ["a", "empty"]


def test_insert_keeps_extra_columns_of_other_rows_and_sets_none(ns):
    create_namespace(ns, "new")
    assert notes(ns) == {"a": FULL, "a$b": FULL, "empty": FULL, "t": FULL, "a$t": FULL, "new": EMPTY}


def test_rename_keeps_extra_columns(ns):
    rename_table(ns, "t", to="u", into=["a"])
    rename_table(ns, "a", "t", to="v", into=[])
    assert notes(ns) == {"a": FULL, "a$b": FULL, "empty": FULL, "a$u": FULL, "v": FULL}


def test_drop_keeps_extra_columns_of_other_rows(ns):
    remove_table(ns, "t")
    drop_namespace(ns, "empty")
    assert notes(ns) == {"a": FULL, "a$b": FULL, "a$t": FULL}
    drop_namespace(ns, "a", behavior="cascade", context={"ttl": "0"})
    assert list(notes(ns).values()) == [FULL] * 3
    ns.purge_tables()
    assert notes(ns) == {}
    create_namespace(ns, "again")
    assert notes(ns) == {"again": EMPTY}


def test_changing_properties_keeps_extra_columns(ns):
    ns.alter_namespace_properties(["a"], {"k": "v"})
    ns.alter_namespace_properties([], {"k": "v"})
    assert notes(ns)["a"] == FULL


def test_overwriting_registration_keeps_extra_columns(ns):
    write_table(directory(ns) / "free")
    register_table(ns, "a", "t", location="free", mode="overwrite")
    assert notes(ns)["a$t"] == FULL
    assert manifest_rows(ns)["a$t"]["location"] == "free"


def test_merging_fragments_keeps_extra_columns(ns):
    for number in range(60):
        create_namespace(ns, f"n{number:02}")
    for number in range(0, 60, 2):
        drop_namespace(ns, f"n{number:02}")
    assert len(manifest(ns).get_fragments()) < 30
    found = notes(ns)
    assert [key for key, row in found.items() if row == FULL] == sorted(
        ["a", "a$b", "a$t", "empty", "t"], key=list(found).index
    )
    assert len(found) == 5 + 30


def test_columns_added_while_a_client_is_open_are_kept(root, open_namespace):
    ns = open_namespace(root)
    create_namespace(ns, "a")
    annotate(ns)
    other = open_namespace(root)
    create_namespace(ns, "b")
    declare_table(other, "a", "t")
    assert notes(ns) == {"a": FULL, "b": EMPTY, "a$t": EMPTY}


@pytest.mark.parametrize(
    "kind", [pa.timestamp("ns"), pa.duration("ns"), pa.time64("ns"), pa.dictionary(pa.int8(), pa.int64())]
)
def test_values_without_a_python_type_are_kept(root, open_namespace, kind):
    ns = open_namespace(root)
    create_namespace(ns, "a")
    values = pa.array([1_700_000_000_123_456_789 % 86_400_000_000_000], pa.int64())
    values = values.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else values.cast(kind)
    manifest(ns).add_columns(pa.table({"note": values}).to_reader())
    ns.alter_namespace_properties(["a"], {"k": "v"})
    for number in range(20):
        create_namespace(ns, f"n{number}")
    table = manifest(ns).to_table(filter="object_id = 'a'")
    assert table["note"].combine_chunks() == values
    assert list_namespaces(ns)[0] == "a"


def test_manifest_columns_may_be_in_any_order(root, open_namespace):
    ns = open_namespace(root)
    create_namespace(ns, "a", properties={"k": "v"})
    table = manifest(ns).to_table()
    mixed = table.select(["metadata", "location", "object_type", "base_objects", "object_id"])
    mixed = mixed.add_column(0, pa.field("note", pa.string()), [["first"]])
    lance.write_dataset(mixed, manifest(ns).uri, mode="overwrite")
    create_namespace(ns, "b")
    create_table(ns, "a", "t")
    found = manifest_rows(ns)
    assert found["a"]["note"] == "first"
    assert found["a"]["metadata"] == '{"k":"v"}'
    assert found["a$t"]["object_type"] == "table"
    assert manifest(ns).schema.names == ["note", "metadata", "location", "object_type", "base_objects", "object_id"]


def test_base_objects_of_another_client_are_kept(root, open_namespace):
    ns = open_namespace(root)
    create_table(ns, "t")
    table = manifest(ns).to_table()
    position = table.schema.get_field_index("base_objects")
    with_bases = table.set_column(
        position, table.schema.field("base_objects"), pa.array([["x", "y"]], table.schema.field("base_objects").type)
    )
    lance.write_dataset(with_bases, manifest(ns).uri, mode="overwrite")
    rename_table(ns, "t", to="u")
    assert manifest_rows(ns)["u"]["base_objects"] == ["x", "y"]


def test_rows_of_unknown_types_are_kept_and_not_listed(root, open_namespace):
    ns = open_namespace(root)
    create_namespace(ns, "a")
    table = manifest(ns).to_table()
    view = pa.Table.from_pylist(
        [{"object_id": key, "object_type": "view", "metadata": "{}"} for key in ("v", "a$v")], schema=table.schema
    )
    lance.write_dataset(view, manifest(ns).uri, mode="append")
    assert list_all_tables(ns) == []
    assert list_namespaces(ns) == ["a"]
    for number in range(40):
        create_namespace(ns, f"n{number}")
    found = manifest_rows(ns)
    assert found["v"]["object_type"] == found["a$v"]["object_type"] == "view"
