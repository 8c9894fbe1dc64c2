"""Pennon on Spark: a lake of Lance tables for PySpark.

`attach(spark, root=...)` gives the lake; `spark.read.format("pennon")` works once it is attached.
"""

from pennon.spark.lake import Lake, attach

__all__ = ["Lake", "attach"]
