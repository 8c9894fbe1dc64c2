"""The outcomes of a job, one for each table: as a list and as a DataFrame."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pennon.errors import InternalError, LanceNamespaceError, from_error_code

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

DONE = "done"
"""The job has done its work."""
SKIPPED = "skipped"
"""There was nothing to do, or it was done before; the message states which."""
FAILED = "failed"
"""The work failed; code and message state why. The table has not changed."""
PLANNED = "planned"
"""A dry run: the job would do this."""
_COMMON = (
    "table string, status string, code int, message string, version_before bigint, version_after bigint, seconds double"
)


@dataclass(frozen=True)
class TableOutcome:
    """The outcome of a job for one table. `outcome["rows"]` returns the value of any column of the result."""

    table: str | None
    """The table's name, quoted where needed; None for a directory that belongs to no table."""
    status: str
    message: str | None = None
    code: int | None = None
    version_before: int | None = None
    version_after: int | None = None
    seconds: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)
    """The values of the job's own columns."""

    def __getitem__(self, column: str) -> Any:
        """Return the value of a column. Raises KeyError if the job has no such column."""
        return self.to_dict()[column]

    def describe(self) -> str:
        """Return the table, the status and the message as one line."""
        return ": ".join(part for part in (self.table or "(no table)", self.status, self.message) if part)

    def to_dict(self) -> dict[str, Any]:
        """Return the values by column: those that all jobs have, then the job's own."""
        return {**{name: getattr(self, name) for name in _parse_columns(_COMMON)}, **self.details}


class JobResults(list[TableOutcome]):
    """The outcomes of a job, sorted by table."""

    def __init__(self, spark: SparkSession, columns: str, outcomes: Iterable[TableOutcome]) -> None:
        """`columns` are the job's own columns, as in Spark's DDL: `rows bigint, bytes bigint`."""
        own = _parse_columns(columns)
        complete = [replace(one, details={name: one.details.get(name) for name in own}) for one in outcomes]
        super().__init__(sorted(complete, key=lambda one: (one.table is None, one.table or "")))
        self._spark = spark
        self._columns = {**_parse_columns(_COMMON), **own}

    def __repr__(self) -> str:
        """Return the number of outcomes by status, and a line for each table."""
        counts = Counter(one.status for one in self)
        summary = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        return "\n".join([f"JobResults({summary or 'no tables'})", *(f"  {one.describe()}" for one in self)])

    def to_df(self) -> DataFrame:
        """Return a DataFrame with one row for each outcome."""
        schema = ", ".join(f"`{name}` {kind}" for name, kind in self._columns.items())
        return self._spark.createDataFrame([tuple(one.to_dict().values()) for one in self], schema)

    def only(self) -> TableOutcome:
        """Return the outcome of a job for one table. Raises the error of the job if it failed."""
        (outcome,) = self
        if outcome.status == FAILED:
            raise from_error_code(outcome.code or InternalError.code, outcome.message or FAILED)
        return outcome


def failed_outcome(table: str | None, error: BaseException, **known: Any) -> TableOutcome:
    """Return a failed outcome; its code is 18 (internal) if the error is not a catalog error."""
    if isinstance(error, LanceNamespaceError):
        return TableOutcome(table, FAILED, str(error), int(error.code), **known)
    return TableOutcome(table, FAILED, f"{type(error).__name__}: {first_line(error)}", int(InternalError.code), **known)


def skipped_outcome(table: str | None, message: str, version: int | None = None, **known: Any) -> TableOutcome:
    """Return the outcome of a table that stays at its version."""
    return TableOutcome(table, SKIPPED, message, None, version, version, **known)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text. Lance and Spark add long traces."""
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__


def _parse_columns(columns: str) -> dict[str, str]:
    """Return the type of each column."""
    return dict(column.split(" ", 1) for column in columns.split(", "))
