"""Queries: filters, columns, limits, vector search, text search and hybrid search."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from lance_namespace import AnalyzeTableQueryPlanRequest, ExplainTableQueryPlanRequest, QueryTableRequest

from tests.support import create_table, fails, ipc
from tests.table.calls import dataset, ids, insert, query, read

ROWS = 40
WORDS = ["apple", "banana", "cherry", "damson"]
VECTORS = np.random.default_rng(7).random((ROWS, 4), dtype=np.float32)
ORIGIN = [0.0, 0.0, 0.0, 0.0]


def stock() -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(ROWS)),
            "text": [f"{WORDS[i % 4]} pie number{i}" for i in range(ROWS)],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.ravel()), 4),
            "inner": pa.array([{"a": i, "b": {"c": str(i)}} for i in range(ROWS)]),
        }
    )


def nearest(point: list[float], among: range | list[int] = range(ROWS)) -> list[int]:
    distances = ((VECTORS - np.array(point, np.float32)) ** 2).sum(axis=1)
    return sorted(among, key=lambda number: distances[number])


@pytest.fixture
def stocked(namespace):
    """Return a catalog with a table `t` that has a full-text index."""
    create_table(namespace, "t", data=ipc(stock()))
    dataset(namespace, "t").create_scalar_index("text", "INVERTED", with_position=True)
    return namespace


def test_all_rows_in_order(stocked):
    found = query(stocked, "t")
    assert found.drop_columns(["vector"]) == stock().drop_columns(["vector"])
    assert found["vector"].to_pylist() == stock()["vector"].to_pylist()


@pytest.mark.parametrize(("rows", "reads"), [(100, 1), (20_000, 2)])
def test_a_small_table_is_read_in_one_step(namespace, rows, reads):
    data = pa.table({"id": range(rows), "text": [f"number {i}" for i in range(rows)]})
    create_table(namespace, "t", data=ipc(data))
    request = {"id": ["t"], "k": 10, "vector": {}, "filter": "id >= 50"}
    plan = namespace.explain_table_query_plan({"id": ["t"], "query": request})
    assert str(plan).count("LanceRead") == reads
    assert query(namespace, "t", k=10, filter="id >= 50")["text"].to_pylist() == [f"number {i}" for i in range(50, 60)]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("id < 3", [0, 1, 2]),
        ("id % 10 = 5 AND text LIKE 'banana%'", [5, 25]),
        ("inner.a >= 38", [38, 39]),
        ("`inner`.`b`.`c` = '7'", [7]),
        ("id IN (3, 1000)", [3]),
        ("id IS NULL", []),
    ],
)
def test_a_filter_chooses_rows(stocked, where, expected):
    assert ids(query(stocked, "t", filter=where)) == expected


@pytest.mark.parametrize("where", ["id >", "nope = 1", "inner.nope = 1", "id", "", "id > 'x'", "nofunction(id) = 1"])
def test_a_bad_filter_is_refused(stocked, where):
    with fails(13):
        query(stocked, "t", filter=where)


@pytest.mark.parametrize("where", ["id / 0 = 1", "cast(text as bigint) = 1", "regexp_match(text, '(') is not null"])
def test_a_filter_that_fails_on_the_rows_is_refused(stocked, where):
    with fails(13):
        query(stocked, "t", filter=where)


def test_limit_and_offset(stocked):
    assert ids(query(stocked, "t", k=3)) == [0, 1, 2]
    assert ids(query(stocked, "t", k=3, offset=38)) == [38, 39]
    assert ids(query(stocked, "t", k=3, offset=100)) == []
    assert ids(query(stocked, "t", k=2, offset=1, filter="id > 10")) == [12, 13]
    assert query(stocked, "t", k=10**12).num_rows == ROWS


def test_a_query_for_zero_rows_returns_none(stocked):
    assert query(stocked, "t", k=0).num_rows == 0
    found = query(stocked, "t", k=0, vector=ORIGIN)
    assert (found.num_rows, "_distance" in found.column_names) == (0, True)


TEXT = {"string_query": {"query": "banana"}}
SEARCHES = {
    "vector": {"vector": ORIGIN},
    "vectors": {"vector": [ORIGIN, ORIGIN]},
    "text": {"full_text_query": TEXT},
    "hybrid": {"vector": ORIGIN, "full_text_query": TEXT},
}


@pytest.mark.parametrize("case", list(SEARCHES))
@pytest.mark.parametrize("many", [2**40, 2**62])
def test_searches_for_more_rows_than_the_table_has(ours, many, case):
    """Lance allocates memory for all of them, which would end the process."""
    create_table(ours, "t", data=ipc(stock()))
    dataset(ours, "t").create_scalar_index("text", "INVERTED")
    found = query(ours, "t", k=many, columns={"column_names": ["id"]}, **SEARCHES[case])
    assert found.num_rows == {"vector": ROWS, "vectors": 2 * ROWS, "text": ROWS // 4, "hybrid": ROWS}[case]
    assert query(ours, "t", k=many, offset=many, **SEARCHES[case]).num_rows == 0
    assert query(ours, "t", k=many, filter="id < 5", prefilter=True, **SEARCHES[case]).num_rows > 0


def test_columns_by_name(stocked):
    assert query(stocked, "t", k=1, columns={"column_names": ["text", "id"]}).to_pydict() == {
        "text": ["apple pie number0"],
        "id": [0],
    }
    assert query(stocked, "t", k=2, columns={"column_names": ["inner.b.c"]}).column(0).to_pylist() == ["0", "1"]


def test_columns_by_alias(stocked):
    aliases = {"number": "id", "deep": "inner.b.c", "twice": "id * 2"}
    found = query(stocked, "t", k=2, offset=3, columns={"column_aliases": aliases})
    assert found.to_pydict() == {"number": [3, 4], "deep": ["3", "4"], "twice": [6, 8]}


@pytest.mark.parametrize("columns", [{"column_names": ["nope"]}, {"column_names": ["inner.nope"]}])
def test_an_unknown_column_raises_column_not_found(stocked, columns):
    with fails(12, "nope"):
        query(stocked, "t", columns=columns)


def test_an_alias_for_an_unknown_column_raises_column_not_found(stocked):
    with fails(12, "nope"):
        query(stocked, "t", columns={"column_aliases": {"x": "nope"}})


@pytest.mark.parametrize(
    "columns",
    [{"column_names": ["id", "id"]}, {"column_aliases": {"x": "bad bad"}}, {"column_aliases": {"x": "sum(id)"}}],
    ids=["twice", "no SQL", "no row"],
)
def test_invalid_columns_are_refused(stocked, columns):
    with fails(13):
        query(stocked, "t", columns=columns)


def test_names_and_aliases_together_are_refused(stocked):
    with fails(13):
        query(stocked, "t", columns={"column_names": ["id"], "column_aliases": {"x": "id"}})


def test_row_ids_are_returned_on_request(stocked):
    found = query(stocked, "t", k=2, columns={"column_names": ["id"]}, with_row_id=True)
    assert set(found.column_names) == {"id", "_rowid"}
    assert found["_rowid"].to_pylist() == [0, 1]


def test_an_old_version_can_be_queried(stocked):
    insert(stocked, "t", data=stock().slice(0, 5))
    assert query(stocked, "t").num_rows == ROWS + 5
    assert query(stocked, "t", version=1).num_rows == ROWS
    with fails(11):
        query(stocked, "t", version=99)


def test_an_unknown_branch_raises_branch_not_found(stocked):
    with fails(22):
        query(stocked, "t", branch="nope")


def test_the_nearest_vectors_come_first(stocked):
    found = query(stocked, "t", k=5, vector=ORIGIN)
    assert ids(found) == nearest(ORIGIN)[:5]
    assert found["_distance"].to_pylist() == pytest.approx([(VECTORS[i] ** 2).sum() for i in ids(found)], rel=1e-5)
    few = query(stocked, "t", k=5, vector=ORIGIN, columns={"column_names": ["id"]})
    assert set(few.column_names) == {"id", "_distance"}
    named = query(stocked, "t", k=5, vector=ORIGIN, columns={"column_aliases": {"n": "id"}})
    assert named["n"].to_pylist() == ids(found)


def test_offset_skips_the_nearest_rows_and_keeps_the_limit(stocked):
    assert ids(query(stocked, "t", k=3, offset=2, vector=ORIGIN)) == nearest(ORIGIN)[2:5]


def test_filters_before_and_after_a_vector_search(stocked):
    before = query(stocked, "t", k=5, vector=ORIGIN, filter="id < 10", prefilter=True)
    assert ids(before) == nearest(ORIGIN, range(10))[:5]
    after = query(stocked, "t", k=5, vector=ORIGIN, filter="id < 10", prefilter=False)
    assert ids(after) == [number for number in nearest(ORIGIN)[:5] if number < 10]


@pytest.mark.parametrize("distance", ["l2", "cosine", "dot", "L2", "Cosine"])
def test_distance_types(stocked, distance):
    point = [0.1, 0.9, 0.2, 0.4]
    found = query(stocked, "t", k=4, vector=point, distance_type=distance)
    inner = VECTORS @ np.array(point, np.float32)
    norms = np.linalg.norm(VECTORS, axis=1) * np.linalg.norm(point)
    expected = {"l2": ((VECTORS - np.array(point)) ** 2).sum(axis=1), "cosine": 1 - inner / norms, "dot": 1 - inner}
    ranked = np.argsort(expected[distance.lower()])[:4]
    assert ids(found) == ranked.tolist()


def test_bounds_of_the_distance(stocked):
    distances = sorted(float((vector**2).sum()) for vector in VECTORS)
    low, high = (distances[9] + distances[10]) / 2, (distances[19] + distances[20]) / 2
    found = query(stocked, "t", k=ROWS, vector=ORIGIN, lower_bound=low, upper_bound=high)
    assert ids(found) == nearest(ORIGIN)[10:20]


@pytest.mark.parametrize(
    "options",
    [
        {"vector": [1.0, 2.0]},
        {"vector": ORIGIN, "distance_type": "nope"},
        {"vector": ORIGIN, "distance_type": "hamming"},
        {"vector": ORIGIN, "vector_column": "text"},
        {"vector": ORIGIN, "minimum_nprobes": 5, "maximum_nprobes": 2},
        {"vector": [ORIGIN, [1.0]]},
        {"vector": [[]]},
    ],
    ids=["length", "distance", "distance of floats", "no vectors", "probes", "lengths", "empty"],
)
def test_a_bad_vector_query_is_refused(stocked, options):
    with fails(13):
        query(stocked, "t", **options)


def test_an_unknown_vector_column_raises_column_not_found(stocked):
    with fails(12, "nope"):
        query(stocked, "t", vector=ORIGIN, vector_column="nope")


def test_the_only_vector_column_is_the_default(namespace):
    create_table(namespace, "t", data=ipc(stock().rename_columns(["id", "text", "embedding", "inner"])))
    assert ids(query(namespace, "t", k=3, vector=ORIGIN)) == nearest(ORIGIN)[:3]


def test_the_vector_column_is_required_if_there_are_several(namespace):
    table = stock().rename_columns(["id", "text", "first", "inner"])
    create_table(namespace, "t", data=ipc(table.append_column("second", table["first"])))
    with fails(13):
        query(namespace, "t", k=3, vector=ORIGIN)
    assert ids(query(namespace, "t", k=3, vector=ORIGIN, vector_column="second")) == nearest(ORIGIN)[:3]


def test_each_of_several_vectors_has_its_own_result(stocked):
    far = [1.0, 1.0, 1.0, 1.0]
    found = query(stocked, "t", k=3, vector=[ORIGIN, far])
    assert found["query_index"].to_pylist() == [0, 0, 0, 1, 1, 1]
    assert ids(found) == nearest(ORIGIN)[:3] + nearest(far)[:3]
    later = query(stocked, "t", k=2, offset=1, vector=[ORIGIN, far])
    assert ids(later) == nearest(ORIGIN)[1:3] + nearest(far)[1:3]


def test_an_index_is_used_with_its_options_or_bypassed(namespace):
    create_table(namespace, "big", data=ipc(pa.concat_tables([stock()] * 20)))
    dataset(namespace, "big").create_index("vector", "IVF_HNSW_SQ", num_partitions=4, metric="l2")
    point = [0.5, 0.5, 0.5, 0.5]
    exact = query(namespace, "big", k=20, vector=point, bypass_vector_index=True)
    assert set(ids(exact)) == {nearest(point)[0]}
    options = {"nprobes": 4, "ef": 200, "refine_factor": 10}
    assert set(ids(query(namespace, "big", k=20, vector=point, **options))) == {nearest(point)[0]}
    ranged = {"minimum_nprobes": 4, "maximum_nprobes": 4, "ef": 200, "refine_factor": 10}
    assert set(ids(query(namespace, "big", k=20, vector=point, **ranged))) == {nearest(point)[0]}

    def plan(**more) -> str:
        asked = QueryTableRequest.model_validate({"k": 20, "vector": {"single_vector": point}, **more})
        return namespace.explain_table_query_plan(ExplainTableQueryPlanRequest(id=["big"], query=asked))

    assert "ANN" in plan()
    assert "ANN" not in plan(bypass_vector_index=True)


def test_fast_search_returns_only_indexed_rows(namespace):
    create_table(namespace, "t", data=ipc(pa.concat_tables([stock()] * 20)))
    dataset(namespace, "t").create_index("vector", "IVF_FLAT", num_partitions=1, metric="l2")
    new = stock().slice(0, 1).set_column(0, "id", pa.array([777]))
    new = new.set_column(2, "vector", pa.array([ORIGIN], pa.list_(pa.float32(), 4)))
    insert(namespace, "t", data=new)
    assert ids(query(namespace, "t", k=1, vector=ORIGIN)) == [777]
    assert 777 not in ids(query(namespace, "t", k=5, vector=ORIGIN, fast_search=True))


def test_text_is_found_and_scored(stocked):
    found = query(stocked, "t", full_text_query={"string_query": {"query": "banana"}})
    assert sorted(ids(found)) == list(range(1, ROWS, 4))
    assert all(score > 0 for score in found["_score"].to_pylist())
    named = {"string_query": {"query": "banana", "columns": ["text"]}}
    assert sorted(ids(query(stocked, "t", full_text_query=named))) == list(range(1, ROWS, 4))
    few = query(stocked, "t", k=2, full_text_query=named, columns={"column_names": ["id"]})
    assert (set(few.column_names), few.num_rows) == ({"id", "_score"}, 2)


def structured(kind: str, **content) -> dict:
    return {"structured_query": {"query": {kind: content}}}


def match(terms: str, **more) -> dict:
    return {"match": {"terms": terms, "column": "text", **more}}


STRUCTURED = {
    "match": (structured("match", terms="number7", column="text"), [7]),
    "match without a column": (structured("match", terms="number7"), [7]),
    "match any": (structured("match", terms="number7 number9", column="text"), [7, 9]),
    "match all": (structured("match", terms="banana number9", column="text", operator="And"), [9]),
    "fuzzy": (structured("match", terms="bananna", column="text", fuzziness=1), list(range(1, ROWS, 4))),
    "phrase": (structured("phrase", terms="cherry pie", column="text"), list(range(2, ROWS, 4))),
    "phrase in the wrong order": (structured("phrase", terms="pie cherry", column="text"), []),
    "boost": (
        structured("boost", positive=match("number5"), negative=match("cherry"), negative_boost=0.2),
        [5],
    ),
    "multi match": (
        structured("multi_match", match_queries=[{"terms": "number3", "column": "text"}]),
        [3],
    ),
    "boolean": (
        structured("boolean", must=[match("banana")], must_not=[match("number1")], should=[match("number5")]),
        list(range(5, ROWS, 4)),
    ),
}


@pytest.mark.parametrize("case", list(STRUCTURED))
def test_structured_text_queries(stocked, case):
    asked, expected = STRUCTURED[case]
    assert sorted(ids(query(stocked, "t", full_text_query=asked))) == expected


@pytest.mark.parametrize(
    "asked",
    [
        {"structured_query": {"query": {}}},
        structured("boolean", must=[], must_not=[], should=[]),
        structured("match", terms="x", column="id"),
        structured("match", terms="x", column="text", operator="xor"),
        structured("multi_match", match_queries=[]),
        structured("match", terms="x", column="text", fuzziness=2**33),
        structured("phrase", terms="x", column="text", slop=2**33),
    ],
    ids=["nothing", "no clause", "no text", "operator", "no match", "large fuzziness", "large slop"],
)
def test_a_bad_text_query_is_refused(stocked, asked):
    with fails(13):
        query(stocked, "t", full_text_query=asked)


@pytest.mark.parametrize(
    "asked",
    [
        {"structured_query": {"query": {**match("x"), "phrase": {"terms": "x", "column": "text"}}}},
        {"string_query": {"query": "x"}, "structured_query": {"query": match("x")}},
    ],
    ids=["two kinds", "string and structure"],
)
def test_two_text_queries_at_once_are_refused(stocked, asked):
    with fails(13):
        query(stocked, "t", full_text_query=asked)


@pytest.mark.parametrize(
    "asked", [structured("match", terms="x", column="nope"), {"string_query": {"query": "x", "columns": ["nope"]}}]
)
def test_an_unknown_text_column_raises_column_not_found(stocked, asked):
    with fails(12, "nope"):
        query(stocked, "t", full_text_query=asked)


def test_text_without_an_index_needs_a_column(namespace):
    create_table(namespace, "t", data=ipc(stock()))
    with fails(13):
        query(namespace, "t", full_text_query={"string_query": {"query": "banana"}})


def test_a_text_query_with_a_filter(stocked):
    asked = {"string_query": {"query": "banana"}}
    found = query(stocked, "t", full_text_query=asked, filter="id > 30", prefilter=True)
    assert sorted(ids(found)) == [33, 37]


def test_a_hybrid_query_ranks_by_both(stocked):
    text = {"string_query": {"query": "banana"}}
    found = query(stocked, "t", k=10, vector=ORIGIN, full_text_query=text)
    both = set(nearest(ORIGIN)[:10]) & set(range(1, ROWS, 4))
    assert both
    assert set(ids(found)[: len(both)]) == both
    assert found["_relevance_score"].to_pylist() == sorted(found["_relevance_score"].to_pylist(), reverse=True)
    assert "_rowid" not in found.column_names
    for row in found.to_pylist():
        assert (row["_distance"] is not None) == (row["id"] in nearest(ORIGIN)[:10])
        assert (row["_score"] is not None) == (row["id"] % 4 == 1)
    assert len(set(ids(found))) == 10


def test_a_hybrid_query_has_columns_filter_offset_and_row_ids(stocked):
    text = {"string_query": {"query": "banana"}}
    options = {"vector": ORIGIN, "full_text_query": text, "filter": "id < 20", "prefilter": True}
    whole = query(stocked, "t", k=8, **options)
    part = query(stocked, "t", k=5, offset=3, columns={"column_names": ["id"]}, with_row_id=True, **options)
    assert ids(part) == ids(whole)[3:8]
    assert set(part.column_names) == {"id", "_rowid", "_distance", "_score", "_relevance_score"}
    assert max(ids(whole)) < 20
    assert query(stocked, "t", k=0, **options).num_rows == 0


def explain(ns, **options) -> str:
    asked = QueryTableRequest.model_validate({"k": 3, "vector": {}, **options})
    return ns.explain_table_query_plan(ExplainTableQueryPlanRequest(id=["t"], query=asked))


def analyze(ns, **options) -> str:
    body = {"id": ["t"], "k": 3, "vector": {}, **options}
    return ns.analyze_table_query_plan(AnalyzeTableQueryPlanRequest.model_validate(body))


def test_a_plan_explains_a_query(stocked):
    assert "KNN" in explain(stocked, vector={"single_vector": ORIGIN})
    assert "id@0 < 3" in explain(stocked, filter="id < 3") or "id < Int64(3)" in explain(stocked, filter="id < 3")


def test_plans_are_run_and_measured(stocked):
    told = analyze(stocked, vector={"single_vector": ORIGIN})
    assert "KNN" in told
    assert "output_rows=3" in told
    assert "elapsed" in told


def test_a_hybrid_query_has_two_plans(stocked):
    options = {"vector": {"single_vector": ORIGIN}, "full_text_query": {"string_query": {"query": "banana"}}}
    for told in (explain(stocked, **options), analyze(stocked, **options)):
        assert "KNN" in told
        assert "MatchQuery" in told


def test_plans_of_bad_queries_are_refused(stocked):
    for told in (explain, analyze):
        with fails(13):
            told(stocked, filter="nope = 1")
        with fails(12):
            told(stocked, columns={"column_names": ["nope"]})


def test_query_results_are_an_arrow_file(stocked):
    data = stocked.query_table(QueryTableRequest.model_validate({"id": ["t"], "k": 3, "vector": {}})).data
    assert isinstance(data, bytes)
    assert data.startswith(b"ARROW1")
    assert ids(read(data)) == [0, 1, 2]


def test_a_query_may_be_a_plain_dict(stocked):
    data = stocked.query_table({"id": ["t"], "k": 2, "vector": {"single_vector": ORIGIN}}).data
    assert ids(read(data)) == nearest(ORIGIN)[:2]
