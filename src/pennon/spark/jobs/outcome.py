"""What came of a job at one table, and all of that as a DataFrame."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pennon.errors import LanceNamespaceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

DONE = "done"
"""The job did what there was to do."""
SKIPPED = "skipped"
"""There was nothing to do, or it was done before; the message says which."""
FAILED = "failed"
"""It could not be done; code and message say why. Nothing of the table has changed."""
PLANNED = "planned"
"""A dry run: this is what would be done."""

COMMON = (
    ("table", "string"),
    ("status", "string"),
    ("code", "int"),
    ("message", "string"),
    ("version_before", "bigint"),
    ("version_after", "bigint"),
    ("seconds", "double"),
)
"""The columns that every job's result has, with Spark's types; those of the job stand behind them."""

Columns = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Outcome:
    """One row of a job's result."""

    table: str | None
    status: str
    message: str | None = None
    code: int | None = None
    version_before: int | None = None
    version_after: int | None = None
    seconds: float = 0.0
    did: Mapping[str, Any] = field(default_factory=dict)
    """The job's own columns."""

    def after(self, seconds: float) -> Outcome:
        """Say how long it took."""
        return replace(self, seconds=round(seconds, 3))

    def row(self, columns: Columns) -> dict[str, Any]:
        """Give the row with all columns of the job."""
        own = {name: self.did.get(name) for name, _ in columns}
        return {**{name: getattr(self, name) for name, _ in COMMON}, **own}


def failure(table: str | None, error: BaseException, **known: Any) -> Outcome:
    """Say that a table could not be done, by the error's code; 18 for what is no error of the catalog."""
    code = int(error.code) if isinstance(error, LanceNamespaceError) else 18
    return Outcome(table, FAILED, f"{error}" or type(error).__name__, code, **known)


def as_rows(outcomes: Sequence[Outcome], columns: Columns) -> list[dict[str, Any]]:
    """Give the rows of a result, sorted by table."""
    return [one.row(columns) for one in sorted(outcomes, key=lambda one: (one.table is None, one.table or ""))]


def as_frame(spark: SparkSession, outcomes: Sequence[Outcome], columns: Columns) -> DataFrame:
    """Give the result as a DataFrame, one row per table."""
    schema = ", ".join(f"`{name}` {kind}" for name, kind in (*COMMON, *columns))
    rows = [tuple(row.values()) for row in as_rows(outcomes, columns)]
    return spark.createDataFrame(rows, schema)
