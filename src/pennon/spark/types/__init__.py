"""Conversion between Arrow's types and Spark's (docs/reference/spark-types.md)."""

from pennon.spark.types.arrow_to_spark import read_schema, spark_schema
from pennon.spark.types.column_matching import WritePlan, plan_write
from pennon.spark.types.extension import has_blobs, is_blob
from pennon.spark.types.field_metadata import ARROW_TYPE, NOT_NULL, VECTOR_WIDTH
from pennon.spark.types.read_cast import split_batch, to_spark
from pennon.spark.types.spark_to_arrow import table_schema
from pennon.spark.types.write_cast import WriteTarget

__all__ = [
    "ARROW_TYPE",
    "NOT_NULL",
    "VECTOR_WIDTH",
    "WritePlan",
    "WriteTarget",
    "has_blobs",
    "is_blob",
    "plan_write",
    "read_schema",
    "spark_schema",
    "split_batch",
    "table_schema",
    "to_spark",
]
