"""Tables of a catalog: creating, reading, searching and changing them, the same on every implementation."""

from __future__ import annotations

import lance
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import pennon
from pennon.errors import (
    InvalidInputError,
    InvalidTableStateError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableColumnNotFoundError,
    TableNotFoundError,
    TableSchemaValidationError,
    TableTagAlreadyExistsError,
)

ROWS = {"id": [1, 2, 3], "name": ["one", "two", None]}


@pytest.fixture
def orders(lake):
    """Create a table."""
    return lake.create_table("sales.orders", ROWS)


SOURCES = {
    "table": lambda: pa.table(ROWS),
    "batch": lambda: pa.record_batch(ROWS),
    "reader": lambda: pa.table(ROWS).to_reader(max_chunksize=2),
    "dataset": lambda: pa.dataset.dataset(pa.table(ROWS)),
    "dict": lambda: ROWS,
    "dicts": lambda: pa.table(ROWS).to_pylist(),
    "batches": lambda: iter(pa.table(ROWS).to_batches(max_chunksize=2)),
    "pandas": lambda: pd.DataFrame(ROWS),
    "polars": lambda: pl.DataFrame(ROWS),
    "lazy polars": lambda: pl.LazyFrame(ROWS),
}


def test_rows_of_any_kind_make_a_table_and_can_be_appended(lake, place):
    sources = {"polars", "batches"} if place.kind in {"compatibility", "iceberg"} else SOURCES
    plain = lake.create_table("sales.plain", pa.table(ROWS))
    for count, name in enumerate(sources, 2):
        table = lake.create_table(["sales", name], SOURCES[name]())
        assert table.to_list() == pa.table(ROWS).to_pylist()
        assert plain.append(SOURCES[name]()).count() == 3 * count
        assert plain.schema.types == [pa.int64(), pa.string()]
    assert plain.merge(SOURCES["polars"](), on="id", update_matched=False).inserted == 0


def test_schema_makes_a_table_without_rows(lake):
    schema = pa.schema(
        [
            pa.field("id", pa.int32(), nullable=False),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("took", pa.duration("ms")),
            pa.field("price", pa.decimal128(9, 2)),
            pa.field("kind", pa.dictionary(pa.int32(), pa.string())),
            pa.field("vector", pa.list_(pa.float32(), 2), metadata={"of": "words"}),
            pa.field("inner", pa.struct([pa.field("a", pa.time64("us")), pa.field("b", pa.list_(pa.large_string()))])),
        ]
    )
    table = lake.create_table("sales.empty", schema)
    assert table.schema.equals(schema, check_metadata=True)
    assert table.count() == 0
    assert table.to_arrow().num_rows == 0


def test_named_index_of_pandas_becomes_a_column(lake):
    frame = pd.DataFrame({"v": [1, 2]}, index=pd.Index(["a", "b"], name="key"))
    assert lake.create_table("sales.indexed", frame).to_list() == [{"v": 1, "key": "a"}, {"v": 2, "key": "b"}]


@pytest.mark.parametrize("data", ["text", b"bytes", 7, [], [1, 2], pd.Series([1]), iter([])])
def test_data_that_is_no_rows_raises_invalid_input(tmp_path, data):
    with pennon.open(tmp_path) as lake:
        with pytest.raises(InvalidInputError):
            lake.create_table("orders", data)
        assert "orders" not in lake


def test_creating_follows_the_mode(lake, orders):
    with pytest.raises(TableAlreadyExistsError, match="orders"):
        lake.create_table("sales.orders", {"x": [1]})
    assert lake.create_table("sales.orders", {"x": [1]}, mode="exist_ok").schema == orders.schema
    assert lake.create_table("sales.orders", {"x": [1]}, mode="overwrite").to_list() == [{"x": 1}]
    assert orders.at(version=1).count() == 3
    with pytest.raises(NamespaceNotFoundError, match=r"create_namespace\('nowhere'\)"):
        lake.create_table("nowhere.orders", ROWS)


def test_rows_are_read_in_every_form(orders):
    expected = pa.table(ROWS).to_pylist()
    assert orders.to_arrow().to_pylist() == orders.to_batches().read_all().to_pylist() == expected
    assert orders.to_lance().to_table().to_pylist() == expected
    assert isinstance(orders.to_lance(), lance.LanceDataset)
    assert orders.to_pandas()["id"].sum() == 6
    assert orders.to_polars().equals(pl.DataFrame(ROWS))
    assert orders.to_duckdb().filter("id > 1").order("id").fetchall() == [(2, "two"), (3, None)]
    assert orders.head(2).num_rows == 2
    assert (orders.count(), orders.count("name IS NULL")) == (3, 1)


def test_search_filters_selects_and_limits(orders):
    found = orders.search().where("id > 1").where("name IS NOT NULL").select(["name"])
    assert found.to_list() == [{"name": "two"}]
    assert orders.where("id < 3").select({"double": "id * 2"}).to_pandas()["double"].tolist() == [2, 4]
    assert orders.search().offset(1).limit(1).to_polars()["id"].to_list() == [2]
    assert orders.search().limit(0).to_list() == []
    assert orders.select("id").to_duckdb().sum("id").fetchall() == [(6,)]
    with pytest.raises(TableColumnNotFoundError):
        orders.select(["nothing"]).to_arrow()
    with pytest.raises(InvalidInputError):
        orders.where("id >").to_arrow()


def test_vectors_and_texts_are_found(lake):
    vectors = pa.array([[float(number), 1.0] for number in range(20)], pa.list_(pa.float32(), 2))
    table = lake.create_table("sales.texts", {"id": range(20), "vector": vectors, "body": ["apple", "pear"] * 10})
    for vector in ([3.2, 1.0], np.array([3.2, 1.0]), pa.array([3.2, 1.0])):
        assert [one["id"] for one in table.search(vector).limit(2).to_list()] == [3, 4]
    assert len(table.search([3.2, 1.0]).to_list()) == 10
    assert [one["id"] for one in table.search([3.2, 1.0]).where("id > 10").limit(1).to_list()] == [11]
    assert len(table.search([[1.0, 1.0], [2.0, 1.0]]).limit(2).to_list()) == 4
    table.create_index("body", "FTS")
    assert {one["body"] for one in table.search("apple").limit(3).to_list()} == {"apple"}
    both = table.search([3.0, 1.0], text="apple", metric="cosine").limit(4).to_arrow()
    assert "_relevance_score" in both.column_names
    for bad in ([], ["a"], 7, [[]]):
        with pytest.raises(InvalidInputError):
            table.search(bad)
    (index,) = table.indexes()
    assert (index.columns, index.type) == (("body",), "Inverted")
    table.drop_index(index.name)
    assert table.indexes() == []


def test_rows_are_changed(orders):
    assert orders.append({"id": [4], "name": ["four"]}) is orders
    merged = orders.merge({"id": [4, 5], "name": ["vier", "five"]}, on="id")
    assert (merged.updated, merged.inserted, merged.version) == (1, 1, 3)
    assert orders.update({"name": "upper(name)"}, where="id = 5").updated == 1
    assert orders.where("id >= 4").to_list() == [{"id": 4, "name": "vier"}, {"id": 5, "name": "FIVE"}]
    assert orders.delete("id >= 4").version == orders.version == 5
    assert orders.merge({"id": [1], "name": ["x"]}, on="id", delete_missing=True).deleted == 2
    assert orders.overwrite({"other": [1]}).to_list() == [{"other": 1}]


def test_rows_whose_types_differ_in_form_fit(lake):
    kinds = pa.schema({"small": pa.int16(), "vector": pa.list_(pa.float32(), 2), "text": pa.string()})
    table = lake.create_table("sales.forms", kinds)
    rows = {"small": [1], "vector": [[1.0, 2.0]], "text": [None]}
    table.append(rows).append(iter([pa.record_batch(rows)]))
    assert table.merge(rows, on="small").updated == 2
    assert table.to_list() == [{"small": 1, "vector": [1.0, 2.0], "text": None}] * 2
    for wrong in ({**rows, "small": [70000]}, {**rows, "vector": [[1.0]]}, {**rows, "text": [7]}):
        with pytest.raises(TableSchemaValidationError):
            table.append(wrong)
    with pytest.raises(TableSchemaValidationError):
        table.append(iter([pa.record_batch({**rows, "small": [70000]})]))
    assert table.count() == 2


def test_versions_tags_and_branches(orders):
    orders.append({"id": [4], "name": ["four"]}).tag("all")
    assert [one.version for one in orders.history()] == [2, 1]
    newest, _ = orders.history(operations=True)
    assert (newest.tags, newest.operation) == (("all",), "Append")
    assert newest.committed_at is not None
    assert len(orders.history(limit=1)) == 1
    old = orders.at(version=1)
    assert (old.count(), old.version, orders.at(tag="all").count(), old.to_lance().count_rows()) == (3, 1, 4, 3)
    with pytest.raises(InvalidInputError, match="old version"):
        old.append(ROWS)
    with pytest.raises(TableTagAlreadyExistsError):
        orders.tag("all", 1)
    assert [one.version for one in orders.tag("all", 1, move=True).tags()] == [1]
    orders.delete_tag("all")
    assert orders.tags() == []
    trial = orders.create_branch("trial")
    trial.append({"id": [9], "name": ["nine"]})
    assert (trial.count(), orders.count()) == (5, 4)
    assert [one.name for one in orders.branches()] == ["trial"]
    orders.delete_branch("trial")
    assert orders.branches() == []
    assert orders.restore(1).count() == 3
    assert orders.version == 3


def test_missing_table_is_named_with_similar_ones(lake, orders):
    with pytest.raises(TableNotFoundError, match=r"did you mean 'sales\.orders'"):
        lake["sales.ordres"]
    with pytest.raises(NamespaceNotFoundError, match=r"did you mean 'sales\.orders'"):
        lake["sale.orders"]
    assert ("sales.orders" in lake, ["sales", "orders"] in lake, "sales" in lake, "a//b" in lake) == (
        True,
        True,
        False,
        False,
    )


def test_sdk_interface_takes_a_table(lake):
    lake.namespace.create_table({"id": ["sales", "orders"]}, pa.table(ROWS))
    lake.namespace.insert_into_table({"id": ["sales", "orders"]}, pa.table(ROWS))
    assert lake["sales.orders"].count() == 6
    with pytest.raises(InvalidInputError):
        lake.namespace.create_table({"id": ["sales", "none"]}, pa.table({}))


def test_location_and_implementation_must_fit(tmp_path):
    for wrong in ({"impl": "rest"}, {"token": "t"}, {"impl": "nothing"}):
        with pytest.raises(InvalidInputError):
            pennon.open(tmp_path, **wrong)
    with pytest.raises(InvalidInputError):
        pennon.open("http://127.0.0.1:1", impl="dir")
    with pennon.open("memory://api", properties={"dir_listing_enabled": "false"}) as lake:
        assert lake.create_table("t", ROWS).count() == 3


def test_directory_without_a_version_is_a_table_without_data(tmp_path):
    (tmp_path / "begun.lance").mkdir()
    (tmp_path / "begun.lance" / "note.txt").write_text("no version")
    with pennon.open(tmp_path) as lake:
        assert lake.tables() == ["begun"]
        for read in (lake["begun"].to_lance, lake["begun"].summary, lake["begun"].count):
            with pytest.raises(InvalidTableStateError, match="'begun'"):
                read()
