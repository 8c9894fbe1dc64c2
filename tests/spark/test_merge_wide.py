"""Merges into tables with many columns: Spark handles a few columns, however many the source has."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pennon.spark.merging.clauses import Delete, Insert, MergeSpec, Update
from pennon.spark.merging.matching import MergePlanner, MergeSource
from pennon.spark.merging.rewrite import open_base
from tests.spark.merging import assert_clean, read_rows, write_table

COLUMNS = 300


def wide(ids, added=0):
    """Return rows in which column `c7` is `id + 7 + added`."""
    columns = {f"c{number}": [one + number + added for one in ids] for number in range(COLUMNS)}
    return pa.table({"id": list(ids), **columns})


@pytest.mark.parametrize(
    ("clauses", "columns"),
    [
        ({}, ["__pennon_copied"]),
        ({"when_not_matched_by_source": "delete"}, ["__pennon_copied"]),
        (
            {"when_matched": [Delete("source.c1 > target.c2"), Update({"c3": "source.c3 + 1"})]},
            ["__pennon_copied", f"__pennon_value_{COLUMNS + 1}"],
        ),
        (
            {"when_matched": [Update({"c3": "source.c3"})], "when_not_matched": [Insert({"id": "id"})]},
            ["__pennon_value_0", "__pennon_value_1"],
        ),
    ],
)
def test_spark_moves_one_struct_instead_of_all_columns(spark, lake, clauses, columns):
    write_table(lake, "t", wide(range(8)))
    source = spark.createDataFrame(wide(range(4, 12)))
    planner = MergePlanner(open_base(lake.address, ("t",)), source, MergeSpec(on=["id"], **clauses))
    selected = planner.select_source(source)
    assert len(selected.columns) <= 5
    frame = planner.actions(MergeSource(selected)).frame
    assert frame.columns == ["__pennon_action", "__pennon_address", *columns]


def test_all_columns_of_a_wide_source_are_merged(spark, lake):
    write_table(lake, "t", wide(range(8)))
    # The order of the source's columns differs from the table's.
    source = spark.createDataFrame(wide(range(4, 12), 1000)).select(*[f"c{one}" for one in range(COLUMNS)][::-1], "id")
    result = lake.merge(source, "t", on="id", when_matched=[Update(condition="target.id > 5")])
    assert (result.inserted, result.updated) == (4, 2)
    old, new = wide(range(6)).to_pylist(), wide(range(6, 12), 1000).to_pylist()
    assert read_rows(lake) == [*old, *new]
    assert_clean(lake)


def test_the_schema_of_a_wide_table_is_converted_once(lake):
    write_table(lake, "t", wide(range(2)))
    base = open_base(lake.address, ("t",))
    assert base.schema is base.schema
