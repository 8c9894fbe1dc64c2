"""Every type through real Spark: read in both ways, written to a new table and to the same table."""

from __future__ import annotations

import lance
import pyarrow as pa
from pyspark.sql import functions as F

from pennon.spark import types
from pennon.spark.types.extension import plain_schema
from tests.spark.test_types_lance import EMPTY, FULL, SCHEMA, read, table

# More than the driver reads by itself.
ROWS = 5_000


def opened(lake, name: str) -> lance.LanceDataset:
    return lance.dataset(lake.catalog.describe_table({"id": [name]}).location)


def arrow(frame) -> pa.Table:
    """Return a DataFrame as Arrow, sorted by its key, with times in Spark's types."""
    return frame.orderBy("id").toArrow()


def test_every_type_is_read_and_written_by_spark(lake, spark, root) -> None:
    rows = [{**(FULL if number % 3 else EMPTY), "id": number} for number in range(ROWS)]
    lance.write_dataset(table(rows), lake.catalog.declare_table({"id": ["t"]}).location)
    expected = pa.Table.from_batches([read(opened(lake, "t"))])

    direct = lake.table("t")
    plain = spark.read.format("pennon").option("root", root).load("t")
    assert direct.schema == plain.schema == types.spark_schema(SCHEMA)
    assert arrow(direct).to_pylist() == expected.to_pylist()
    assert arrow(plain.where("id < 3 AND uuid IS NOT NULL")).to_pylist() == expected.slice(1, 2).to_pylist()

    lake.write(direct, "copy", mode="create")
    lake.write(plain.where("id < 9").withColumn("id", F.col("id") + ROWS), "copy", mode="append")
    copy = opened(lake, "copy")
    assert plain_schema(copy.schema).equals(SCHEMA, check_metadata=True)
    values = pa.Table.from_batches([read(copy)]).sort_by("id")
    assert values.slice(0, ROWS).to_pylist() == expected.to_pylist()
    assert values.slice(ROWS).drop_columns("id").to_pylist() == expected.slice(0, 9).drop_columns("id").to_pylist()


def test_variants_vectors_and_blobs_of_a_dataframe(lake, spark) -> None:
    frame = spark.sql(
        """SELECT id, parse_json('{"a": ' || id || '}') AS v, array(float(id), 0.5F) AS w,
                  encode('b' || id, 'UTF-8') AS b, uuid() AS u FROM range(3)"""
    )
    frame = (
        frame.withMetadata("w", {types.VECTOR_WIDTH: 2})
        .withMetadata("b", {types.ARROW_TYPE: "lance.blob.v2"})
        .withMetadata("u", {types.ARROW_TYPE: "arrow.uuid"})
        .persist()
    )

    lake.write(frame, "t", mode="create")

    schema = opened(lake, "t").schema
    assert schema.field("w").type == pa.list_(pa.float32(), 2)
    assert schema.field("b").type.extension_name == "lance.blob.v2"
    assert schema.field("u").type == pa.uuid()
    shown = [F.col("id"), F.to_json("v").alias("v"), "w", "b", "u"]
    assert arrow(lake.table("t").select(*shown)).to_pylist() == arrow(frame.select(*shown)).to_pylist()
    frame.unpersist()
