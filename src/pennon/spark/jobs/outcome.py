"""The outcome of a job for one table, and the outcomes as a DataFrame."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pennon.errors import LanceNamespaceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

DONE = "done"
"""The job has done its work."""
SKIPPED = "skipped"
"""There was nothing to do, or it was done before; the message states which."""
FAILED = "failed"
"""The work failed; code and message state why. The table has not changed."""
PLANNED = "planned"
"""A dry run: the job would do this."""

COMMON = (
    ("table", "string"),
    ("status", "string"),
    ("code", "int"),
    ("message", "string"),
    ("version_before", "bigint"),
    ("version_after", "bigint"),
    ("seconds", "double"),
)
"""The columns that the result of every job has, with Spark's types. The columns of the job follow them."""

Columns = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class TableOutcome:
    """One row of a job's result."""

    table: str | None
    status: str
    message: str | None = None
    code: int | None = None
    version_before: int | None = None
    version_after: int | None = None
    seconds: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)
    """The values of the job's own columns."""

    def after(self, seconds: float) -> TableOutcome:
        """Return the outcome with its duration."""
        return replace(self, seconds=round(seconds, 3))

    def row(self, columns: Columns) -> dict[str, Any]:
        """Return the row with the common columns and those of the job."""
        own = {name: self.details.get(name) for name, _ in columns}
        return {**{name: getattr(self, name) for name, _ in COMMON}, **own}


def failed_outcome(table: str | None, error: BaseException, **known: Any) -> TableOutcome:
    """Return a failed outcome with the code of the error; 18 (internal) if it is not a catalog error."""
    code = int(error.code) if isinstance(error, LanceNamespaceError) else 18
    return TableOutcome(table, FAILED, f"{error}" or type(error).__name__, code, **known)


def to_rows(outcomes: Sequence[TableOutcome], columns: Columns) -> list[dict[str, Any]]:
    """Return the rows of a result, sorted by table."""
    return [one.row(columns) for one in sorted(outcomes, key=lambda one: (one.table is None, one.table or ""))]


def to_dataframe(spark: SparkSession, outcomes: Sequence[TableOutcome], columns: Columns) -> DataFrame:
    """Return the result as a DataFrame with one row for each table."""
    schema = ", ".join(f"`{name}` {kind}" for name, kind in (*COMMON, *columns))
    rows = [tuple(row.values()) for row in to_rows(outcomes, columns)]
    return spark.createDataFrame(rows, schema)
