"""Metadata of the schema and of columns, and statistics."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from lance_namespace import (
    CreateTableBranchRequest,
    CreateTableIndexRequest,
    GetTableStatsRequest,
    UpdateFieldMetadataRequest,
    UpdateTableSchemaMetadataRequest,
)

from pennon.table.description import summarize_numbers
from tests.support import create_table, declare_table, describe_table, fails, ipc
from tests.table.tables import append, by_path, numbers, opened, version


def schema_metadata(ns, metadata, **options):
    return ns.update_table_schema_metadata(UpdateTableSchemaMetadataRequest(id=["t"], metadata=metadata, **options))


def field_metadata(ns, *updates, **options):
    return ns.update_field_metadata(UpdateFieldMetadataRequest(id=["t"], updates=list(updates), **options))


def stats(ns, **options):
    return ns.get_table_stats(GetTableStatsRequest(id=["t"], **options))


def of(ns, column):
    found = opened(ns).schema.field(column).metadata or {}
    return {key.decode(): value.decode() for key, value in found.items()}


def test_schema_metadata_is_set(namespace):
    numbers(namespace)
    answer = schema_metadata(namespace, {"owner": "ada", "team": "fleet"})
    assert answer.metadata == {"owner": "ada", "team": "fleet"}
    assert answer.transaction_id
    assert opened(namespace).schema.metadata == {b"owner": b"ada", b"team": b"fleet"}
    assert version(namespace) == 2


def test_schema_metadata_is_replaced_as_a_whole(namespace):
    numbers(namespace)
    schema_metadata(namespace, {"owner": "ada", "team": "fleet"})
    assert schema_metadata(namespace, {"owner": "eve"}).metadata == {"owner": "eve"}
    assert schema_metadata(namespace, {}).metadata == {}
    assert not opened(namespace).schema.metadata


def test_missing_schema_metadata_raises_invalid_input(ours):
    numbers(ours)
    schema_metadata(ours, {"owner": "ada"})
    with fails(13):
        schema_metadata(ours, None)
    assert version(ours) == 2


def test_field_metadata_is_merged(namespace):
    numbers(namespace)
    answer = field_metadata(namespace, {"path": "x", "metadata": {"unit": "m", "source": "a"}})
    assert answer.version == version(namespace) == 2
    assert answer.fields == {"x": {"unit": "m", "source": "a"}}
    answer = field_metadata(namespace, {"path": "x", "metadata": {"unit": "km", "source": None, "new": "1"}})
    assert answer.fields == {"x": {"unit": "km", "new": "1"}} == {"x": of(namespace, "x")}


def test_field_metadata_is_replaced_if_asked(namespace):
    numbers(namespace)
    field_metadata(namespace, {"path": "x", "metadata": {"unit": "m"}}, {"path": "s", "metadata": {"lang": "en"}})
    answer = field_metadata(
        namespace,
        {"path": "x", "metadata": {"new": "1", "gone": None}, "replace": True},
        {"path": "s", "metadata": {"more": "2"}},
    )
    assert answer.fields == {"x": {"new": "1"}, "s": {"lang": "en", "more": "2"}}
    assert (of(namespace, "x"), of(namespace, "s")) == ({"new": "1"}, {"lang": "en", "more": "2"})
    assert version(namespace) == 3


def test_fields_are_named_by_their_paths(ours):
    create_table(ours, "t", data=ipc({"st": [{"a": 1}], "l": [[1]]}))
    answer = field_metadata(ours, {"path": "`st`.a", "metadata": {"k": "v"}}, {"path": "st", "metadata": {"p": "q"}})
    assert answer.fields == {"st.a": {"k": "v"}, "st": {"p": "q"}}
    assert opened(ours).schema.field("st").type.field("a").metadata == {b"k": b"v"}


def test_one_field_updated_twice(ours):
    numbers(ours)
    answer = field_metadata(
        ours, {"path": "x", "metadata": {"a": "1", "b": "2"}}, {"path": "`x`", "metadata": {"a": None, "c": "3"}}
    )
    assert answer.fields == {"x": {"b": "2", "c": "3"}} == {"x": of(ours, "x")}


def test_metadata_of_a_missing_field_raises_column_not_found(ours):
    numbers(ours)
    with fails(12, "nowhere"):
        field_metadata(ours, {"path": "x", "metadata": {"a": "1"}}, {"path": "nowhere", "metadata": {"a": "1"}})
    with fails(13):
        field_metadata(ours, {"path": "x.", "metadata": {"a": "1"}})
    with fails(13):
        ours.update_field_metadata({"id": ["t"], "updates": []})
    assert version(ours) == 1


def test_metadata_of_a_branch_is_its_own(ours):
    numbers(ours)
    ours.create_table_branch(CreateTableBranchRequest(id=["t"], name="side"))
    schema_metadata(ours, {"a": "1"}, branch="side")
    field_metadata(ours, {"path": "x", "metadata": {"b": "2"}}, branch="side")
    side = by_path(ours).checkout_version(("side", None))
    assert side.schema.metadata == {b"a": b"1"}
    assert side.schema.field("x").metadata == {b"b": b"2"}
    assert version(ours) == 1


def test_statistics_of_several_fragments(namespace):
    create_table(namespace, "t", data=ipc({"x": list(range(10))}))
    append(namespace, "t", {"x": list(range(20))})
    append(namespace, "t", {"x": list(range(60))})
    namespace.create_table_index(CreateTableIndexRequest(id=["t"], column="x", index_type="BTREE"))
    found = stats(namespace)
    assert (found.num_rows, found.num_indices) == (90, 1)
    fragments = found.fragment_stats
    assert (fragments.num_fragments, fragments.num_small_fragments) == (3, 3)
    assert (fragments.lengths.min, fragments.lengths.max, fragments.lengths.mean) == (10, 60, 30)
    assert fragments.lengths.p50 == 20
    assert found.total_bytes > 0


def test_the_bytes_of_a_table_are_those_of_its_data_files(ours):
    numbers(ours)
    append(ours, "t", {"x": [10], "s": ["word10"]})
    folder = Path(describe_table(ours, "t").location) / "data"
    assert stats(ours).total_bytes == sum(file.stat().st_size for file in folder.iterdir())


def test_statistics_do_not_count_deleted_rows(namespace):
    create_table(namespace, "t", data=ipc({"x": list(range(10))}))
    append(namespace, "t", {"x": list(range(10, 20))})
    append(namespace, "t", {"x": list(range(20, 30))})
    opened(namespace).delete("x < 15")
    found = stats(namespace)
    assert found.num_rows == 15
    assert found.fragment_stats.num_fragments == 2
    assert (found.fragment_stats.lengths.min, found.fragment_stats.lengths.max) == (5, 10)


def test_statistics_of_an_empty_table(namespace):
    create_table(namespace, "t", data=ipc(pa.table({"x": pa.array([], pa.int64())})))
    found = stats(namespace)
    assert (found.num_rows, found.num_indices, found.total_bytes) == (0, 0, 0)
    assert found.fragment_stats.num_fragments == 0
    assert set(found.fragment_stats.lengths.model_dump().values()) == {0}


def test_statistics_of_added_and_dropped_columns(ours):
    numbers(ours)
    before = stats(ours).total_bytes
    opened(ours).add_columns({"y": "x + 1"})
    assert stats(ours).total_bytes > before
    assert stats(ours).num_rows == 10


def test_full_fragments_are_not_small(ours):
    create_table(ours, "t", data=ipc({"x": [1]}))
    lance.write_dataset(pa.table({"x": pa.array(range(1 << 20), pa.int64())}), opened(ours), mode="append")
    fragments = stats(ours).fragment_stats
    assert (fragments.num_fragments, fragments.num_small_fragments) == (2, 1)


def test_statistics_of_a_branch(ours):
    numbers(ours)
    ours.create_table_branch(CreateTableBranchRequest(id=["t"], name="side"))
    append(ours, "t", {"x": [1], "s": ["a"]}, branch="side")
    assert stats(ours, branch="side").num_rows == 11
    assert stats(ours, branch="main").num_rows == stats(ours).num_rows == 10
    for ask in (
        lambda: stats(ours, branch="nowhere"),
        lambda: schema_metadata(ours, {"a": "b"}, branch="nowhere"),
        lambda: field_metadata(ours, {"path": "x", "metadata": {"a": "1"}}, branch="nowhere"),
    ):
        with fails(22):
            ask()


@pytest.mark.parametrize(
    ("numbers_", "expected"),
    [
        ([], (0, 0, 0, 0, 0, 0, 0)),
        ([7], (7, 7, 7, 7, 7, 7, 7)),
        ([5, 1025], (5, 1025, 515, 5, 5, 1025, 1025)),
        (list(range(1, 101)), (1, 100, 50, 25, 50, 75, 99)),
    ],
)
def test_lengths_are_summarized(numbers_, expected):
    found = summarize_numbers(numbers_)
    assert (found.min, found.max, found.mean, found.p25, found.p50, found.p75, found.p99) == expected


def test_metadata_of_missing_and_declared_tables(ours):
    asks = (
        lambda: stats(ours),
        lambda: schema_metadata(ours, {"a": "b"}),
        lambda: field_metadata(ours, {"path": "x", "metadata": {"a": "1"}}),
    )
    for ask in asks:
        with fails(4):
            ask()
    declare_table(ours, "t")
    for ask in asks:
        with fails(19):
            ask()


def test_the_versions_of_metadata_are_those_of_the_catalog(managed):
    numbers(managed)
    schema_metadata(managed, {"a": "b"})
    field_metadata(managed, {"path": "x", "metadata": {"a": "1"}})
    assert [one.version for one in managed.list_table_versions({"id": ["t"]}).versions] == [3, 2, 1]
    assert describe_table(managed, "t", load_detailed_metadata=True).version == 3
