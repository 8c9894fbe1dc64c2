"""Pennon on Spark: a lake of Lance tables for PySpark.

`attach(spark, root=...)` returns the lake. After that, `spark.read.format("pennon")` works too.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pennon import sdk_imports

if TYPE_CHECKING:
    from pennon.spark.lake import Lake, attach
    from pennon.spark.merging.clauses import Delete, Insert, Update

__all__ = ["Delete", "Insert", "Lake", "Update", "attach"]
_CLAUSES = ("Delete", "Insert", "Update")

if str(getattr(getattr(sys.modules["__main__"], "__spec__", None), "name", "")).startswith("pyspark."):
    # One of Spark's Python workers, which start on every core of every executor: they need errors, not requests.
    sdk_imports.defer()


def __dir__() -> list[str]:
    """Return the public names, including those that are not imported yet."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import a public name on first use: executors import this package, but do not need the driver's modules."""
    if name in _CLAUSES:
        from pennon.spark.merging import clauses

        return getattr(clauses, name)
    if name in __all__:
        from pennon.spark import lake

        return getattr(lake, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
