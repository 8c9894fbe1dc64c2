"""SQL over the tables of a lake: `run(lake, text)`. docs/guides/spark-sql.md lists every statement."""

from pennon.spark.statements.dispatch import run

__all__ = ["run"]
