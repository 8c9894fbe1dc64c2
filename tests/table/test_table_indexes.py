"""Indexes: every kind with its parameters, lists, statistics and errors."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from lance_namespace import (
    CreateTableBranchRequest,
    CreateTableIndexRequest,
    DescribeTableIndexStatsRequest,
    DropTableIndexRequest,
    ListTableIndicesRequest,
)
from lance_namespace.errors import InvalidInputError, TableColumnNotFoundError

from tests.support import create_table, declare_table, fails, ipc
from tests.table.tables import append, by_path, opened, version

ROWS = 300
WIDTH = 16
SCALAR = {
    "BTREE": "number",
    "BITMAP": "number",
    "ZONEMAP": "number",
    "BLOOMFILTER": "number",
    "LABEL_LIST": "labels",
    "NGRAM": "text",
    "FTS": "text",
    "INVERTED": "text",
}
VECTOR = {
    "IVF_FLAT": {},
    "IVF_PQ": {"num_sub_vectors": 4, "num_bits": 4},
    "IVF_SQ": {"num_bits": 8},
    "IVF_RQ": {"num_bits": 1},
    "IVF_HNSW_FLAT": {"m": 8, "ef_construction": 30},
    "IVF_HNSW_PQ": {"num_sub_vectors": 4, "num_bits": 4, "m": 8, "ef_construction": 30},
    "IVF_HNSW_SQ": {"m": 8, "ef_construction": 30},
}


def rows(count: int = ROWS, start: int = 0) -> pa.Table:
    vectors = np.random.default_rng(7).random((count, WIDTH), dtype=np.float32)
    return pa.table(
        {
            "number": pa.array(range(start, start + count), pa.int64()),
            "text": [f"the quick fox number {i}" for i in range(count)],
            "labels": [["a", str(i % 5)] for i in range(count)],
            "vector": pa.FixedSizeListArray.from_arrays(vectors.ravel(), WIDTH),
            "nested": [{"inner": i, "deep": {"er": str(i)}} for i in range(count)],
        }
    )


@pytest.fixture
def filled(namespace):
    """Return a namespace whose table `t` has a column for each kind of index."""
    create_table(namespace, "t", data=ipc(rows()))
    return namespace


def create(ns, column, kind, **options):
    request = CreateTableIndexRequest(id=["t"], column=column, index_type=kind, **options)
    return ns.create_table_index(request)


def create_scalar(ns, column, kind, **options):
    request = CreateTableIndexRequest(id=["t"], column=column, index_type=kind, **options)
    return ns.create_table_scalar_index(request)


def listed(ns, **options):
    return ns.list_table_indices(ListTableIndicesRequest(id=["t"], **options))


def names(ns, **options):
    return [one.index_name for one in listed(ns, **options).indexes]


def stats(ns, name, **options):
    return ns.describe_table_index_stats(DescribeTableIndexStatsRequest(id=["t"], index_name=name, **options))


def drop(ns, name, **options):
    return ns.drop_table_index(DropTableIndexRequest(id=["t"], index_name=name, **options))


def plain(kind):
    return {"FTS": "INVERTED"}.get(kind, kind).replace("_", "").upper()


@pytest.mark.parametrize("call", [create, create_scalar])
@pytest.mark.parametrize("kind", list(SCALAR))
def test_scalar_indexes_are_built(filled, kind, call):
    answer = call(filled, SCALAR[kind], kind, name="i")
    (found,) = listed(filled).indexes
    assert found.index_name == "i"
    assert found.columns == [SCALAR[kind]]
    assert plain(found.index_type) == plain(kind)
    assert found.status.upper() == "SUCCEEDED"
    assert (found.num_indexed_rows, found.num_unindexed_rows, found.num_segments) == (ROWS, 0, 1)
    assert found.size_bytes > 0
    assert found.index_uuid
    assert found.created_at is not None
    assert answer.transaction_id
    assert version(filled) == 2


@pytest.mark.parametrize("kind", list(VECTOR))
def test_vector_indexes_are_built_with_their_parameters(filled, kind):
    create(filled, "vector", kind, name="i", distance_type="cosine", num_partitions=1, **VECTOR[kind])
    (found,) = listed(filled).indexes
    assert plain(found.index_type) == plain(kind)
    details = json.loads(found.index_details)
    assert details["metric_type"] == "COSINE"
    compression = details.get("compression", {})
    for parameter in ("num_sub_vectors", "num_bits"):
        if parameter in VECTOR[kind]:
            assert compression[parameter] == VECTOR[kind][parameter]
    if "m" in VECTOR[kind]:
        assert (details["hnsw"]["max_connections"], details["hnsw"]["construction_ef"]) == (8, 30)
    query = {"column": "vector", "q": rows()["vector"][5].as_py(), "k": 3, "metric": "cosine", "refine_factor": 50}
    assert opened(filled).to_table(nearest=query)["number"].to_pylist()[0] == 5


def test_training_parameters_of_vectors_reach_lance(filled):
    create(filled, "vector", "IVF_FLAT", name="i", sample_rate=100, max_iterations=7, target_partition_size=100)
    details = json.loads(listed(filled).indexes[0].index_details)
    assert details["runtime_hints"]["lance.ivf.sample_rate"] == "100"
    assert details["runtime_hints"]["lance.ivf.max_iters"] == "7"
    assert details["target_partition_size"] == 100


def test_parameters_of_full_text_reach_lance(filled):
    wanted = {
        "with_position": True,
        "base_tokenizer": "whitespace",
        "language": "German",
        "max_token_length": 11,
        "lower_case": False,
        "stem": False,
        "remove_stop_words": False,
        "ascii_folding": False,
    }
    create(filled, "text", "FTS", name="i", **wanted)
    details = json.loads(listed(filled).indexes[0].index_details)
    assert {key: details[key] for key in wanted} == wanted
    found = opened(filled).to_table(full_text_query="fox")
    assert found.num_rows == ROWS


def test_nested_columns_have_indexes(filled):
    create(filled, "nested.inner", "BTREE", name="i")
    create(filled, "`nested`.deep.`er`", "BITMAP", name="j")
    assert [one.columns for one in listed(filled).indexes] == [["nested.inner"], ["nested.deep.er"]]
    assert opened(filled).to_table(filter="nested.inner = 7")["number"].to_pylist() == [7]


def test_an_index_without_a_name_gets_a_free_one(filled):
    create(filled, "number", "BTREE")
    create(filled, "number", "BITMAP")
    found = names(filled)
    assert len(set(found)) == 2
    assert "number_idx" in found
    with fails(7, "number_idx"):
        create(filled, "number", "BTREE")
    assert names(filled) == found


def test_creating_an_existing_index_raises_index_exists(filled):
    create(filled, "number", "BTREE", name="i")
    for column, kind in (("number", "BTREE"), ("number", "BITMAP"), ("text", "FTS"), ("vector", "IVF_FLAT")):
        with fails(7, "'i'"):
            create(filled, column, kind, name="i")
    assert version(filled) == 2


@pytest.mark.parametrize("column", ["nowhere", "nested.nowhere", "inner", "text.inner", "Number"])
def test_a_missing_column_raises_column_not_found(filled, column):
    for kind in ("BTREE", "FTS", "IVF_FLAT"):
        with fails(12, column):
            create(filled, column, kind)
    assert version(filled) == 1


@pytest.mark.parametrize("column", [".", "nested.", ".inner", "`number", "nested..inner", "`nested`inner"])
def test_an_index_on_an_invalid_path_raises_column_not_found_or_invalid_input(filled, column):
    with pytest.raises((InvalidInputError, TableColumnNotFoundError)):
        create(filled, column, "BTREE")
    assert version(filled) == 1


REFUSED = {
    "unknown kind": ("number", "MAGIC", {}),
    "no vectors": ("number", "IVF_FLAT", {}),
    "vectors in a tree": ("vector", "BTREE", {}),
    "struct in a tree": ("nested", "BTREE", {}),
    "numbers as text": ("number", "FTS", {}),
    "numbers as labels": ("number", "LABEL_LIST", {}),
    "numbers as ngrams": ("number", "NGRAM", {}),
    "numbers as places": ("number", "RTREE", {}),
    "sub-vectors do not divide": ("vector", "IVF_PQ", {"num_sub_vectors": 5}),
    "bits of PQ": ("vector", "IVF_PQ", {"num_sub_vectors": 4, "num_bits": 7}),
    "bits of SQ": ("vector", "IVF_SQ", {"num_bits": 4}),
    "bits of RQ": ("vector", "IVF_RQ", {"num_bits": 10}),
    "metric": ("vector", "IVF_FLAT", {"distance_type": "manhattan"}),
    "hamming of floats": ("vector", "IVF_FLAT", {"distance_type": "hamming"}),
    "two sizes": ("vector", "IVF_FLAT", {"num_partitions": 2, "target_partition_size": 10}),
    "vector parameter of a tree": ("number", "BTREE", {"num_partitions": 2}),
    "metric of a tree": ("number", "BTREE", {"distance_type": "l2"}),
    "text parameter of a tree": ("number", "BTREE", {"stem": True}),
    "graph parameter without a graph": ("vector", "IVF_FLAT", {"m": 5}),
    "sub-vectors without PQ": ("vector", "IVF_SQ", {"num_sub_vectors": 4}),
    "bits of flat": ("vector", "IVF_FLAT", {"num_bits": 8}),
    "tokenizer": ("text", "FTS", {"base_tokenizer": "nonsense"}),
    "language": ("text", "FTS", {"language": "Klingon"}),
    "empty name": ("number", "BTREE", {"name": ""}),
    "name of Lance's own": ("number", "BTREE", {"name": "__lance_frag_reuse"}),
}


@pytest.mark.parametrize("case", list(REFUSED))
def test_an_invalid_index_raises_invalid_input(filled, case):
    column, kind, options = REFUSED[case]
    with fails(13):
        create(filled, column, kind, **{"name": "i", **options})
    assert names(filled) == []
    assert version(filled) == 1


def test_creating_a_vector_index_as_scalar_raises_invalid_input(filled):
    with fails(13):
        create_scalar(filled, "vector", "IVF_FLAT")
    assert names(filled) == []


@pytest.mark.parametrize("kind", ["btree", "BTree", "b_tree", "zone_map", "BloomFilter", "bloom-filter"])
def test_kinds_may_be_written_in_several_ways(ours, kind):
    create_table(ours, "t", data=ipc(rows(10)))
    create(ours, "number", kind, name="i")
    assert names(ours) == ["i"]


def test_indexes_come_in_pages(filled):
    wanted = [f"i{n}" for n in range(5)]
    for name in reversed(wanted):
        create(filled, "number", "ZONEMAP", name=name)
    found, token = [], None
    while True:
        answer = listed(filled, limit=2, page_token=token)
        assert len(answer.indexes) <= 2
        found += [one.index_name for one in answer.indexes]
        token = answer.page_token
        if not token:
            break
    assert found == wanted


def test_index_statistics_after_inserts_and_deletes(filled):
    create(filled, "number", "BTREE", name="i")
    append(filled, "t", rows(20, start=1000))
    opened(filled).delete("number < 50")
    found = stats(filled, "i")
    assert (found.num_indexed_rows, found.num_unindexed_rows, found.num_indices) == (ROWS - 50, 20, 1)
    assert plain(found.index_type) == "BTREE"
    (content,) = listed(filled).indexes
    assert (content.num_indexed_rows, content.num_unindexed_rows) == (ROWS - 50, 20)


def test_index_statistics_contain_the_metric(filled):
    create(filled, "vector", "IVF_FLAT", name="v", distance_type="dot")
    create(filled, "number", "BTREE", name="n")
    assert stats(filled, "v").distance_type == "dot"
    assert stats(filled, "n").distance_type is None


def test_indexes_of_an_old_version(filled):
    create(filled, "number", "BTREE", name="i")
    append(filled, "t", rows(5))
    drop(filled, "i")
    assert names(filled) == []
    assert names(filled, version=1) == []
    assert names(filled, version=2) == ["i"]
    assert stats(filled, "i", version=2).num_unindexed_rows == 0
    assert stats(filled, "i", version=3).num_unindexed_rows == 5
    with fails(11):
        listed(filled, version=99)
    with fails(11):
        stats(filled, "i", version=99)


def test_a_dropped_index_is_not_listed_any_more(filled):
    create(filled, "number", "BTREE", name="i")
    create(filled, "number", "BITMAP", name="j")
    answer = drop(filled, "i")
    assert answer.transaction_id
    assert names(filled) == ["j"]
    create(filled, "text", "FTS", name="i")
    assert names(filled) == ["i", "j"]


def test_a_missing_index_raises_index_not_found(filled):
    create(filled, "number", "BTREE", name="there")
    with fails(6, "gone"):
        stats(filled, "gone")
    with fails(6, "gone"):
        drop(filled, "gone")
    with fails(6):
        stats(filled, "there", version=1)
    assert names(filled) == ["there"]
    assert version(filled) == 2


def test_describing_an_index_without_a_name_raises_invalid_input(ours):
    create_table(ours, "t", data=ipc(rows(10)))
    with fails(13):
        ours.describe_table_index_stats({"id": ["t"]})
    with fails(13):
        ours.drop_table_index({"id": ["t"]})


def test_an_index_of_a_branch_is_its_own(filled):
    filled.create_table_branch(CreateTableBranchRequest(id=["t"], name="side"))
    create(filled, "number", "BTREE", name="i", branch="side")
    assert names(filled) == []
    assert names(filled, branch="side") == ["i"]
    assert stats(filled, "i", branch="side").num_indexed_rows == ROWS
    drop(filled, "i", branch="side")
    assert names(filled, branch="side") == []
    assert version(filled) == 1


def test_indexes_of_a_missing_branch_raise_branch_not_found(filled):
    asks = (
        lambda: create(filled, "number", "BTREE", branch="nowhere"),
        lambda: listed(filled, branch="nowhere"),
        lambda: stats(filled, "i", branch="nowhere"),
        lambda: drop(filled, "i", branch="nowhere"),
    )
    for ask in asks:
        with fails(22, "nowhere"):
            ask()


def test_indexes_of_a_missing_table_raise_table_not_found(namespace):
    asks = (
        lambda: create(namespace, "number", "BTREE"),
        lambda: create_scalar(namespace, "number", "BTREE"),
        lambda: listed(namespace),
        lambda: stats(namespace, "i"),
        lambda: drop(namespace, "i"),
    )
    for ask in asks:
        with fails(4):
            ask()


def test_indexes_of_a_declared_table_raise_invalid_table_state(ours):
    declare_table(ours, "t")
    for ask in (lambda: create(ours, "x", "BTREE"), lambda: listed(ours), lambda: drop(ours, "i")):
        with fails(19):
            ask()


def test_a_table_without_rows_can_have_indexes(filled):
    opened(filled).delete("true")
    create(filled, "number", "BTREE", name="i")
    found = stats(filled, "i")
    assert (found.num_indexed_rows, found.num_unindexed_rows) == (0, 0)
    append(filled, "t", rows(5))
    assert stats(filled, "i").num_unindexed_rows == 5


def test_the_versions_of_indexes_are_those_of_the_catalog(managed):
    create_table(managed, "t", data=ipc(rows(10)))
    create(managed, "number", "BTREE", name="i")
    drop(managed, "i")
    assert [one.version for one in managed.list_table_versions({"id": ["t"]}).versions] == [3, 2, 1]
    assert by_path(managed).version == 3
