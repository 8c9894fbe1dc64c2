"""Pennon on Spark: a lake of Lance tables for PySpark.

`attach(spark, root=...)` gives the lake; `spark.read.format("pennon")` works once it is attached.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pennon.spark.lake import Lake, attach

__all__ = ["Lake", "attach"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    """Import late: executors import modules of this package, and must not pay for the driver's."""
    if name in __all__:
        from pennon.spark import lake  # noqa: PLC0415 - see above

        return getattr(lake, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
