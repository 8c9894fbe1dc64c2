"""Arrow's types and Spark's, both ways (docs/reference/spark-types.md)."""

from pennon.spark.types.creating import table_schema
from pennon.spark.types.extension import is_blob
from pennon.spark.types.metadata import ARROW_TYPE, NOT_NULL, VECTOR_WIDTH
from pennon.spark.types.plan import WritePlan, write_plan
from pennon.spark.types.read_cast import pieces, to_spark
from pennon.spark.types.reading import read_schema, spark_schema

__all__ = [
    "ARROW_TYPE",
    "NOT_NULL",
    "VECTOR_WIDTH",
    "WritePlan",
    "is_blob",
    "pieces",
    "read_schema",
    "spark_schema",
    "table_schema",
    "to_spark",
    "write_plan",
]
