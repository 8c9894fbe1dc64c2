"""Running checks with as few passes over the data as possible, and only over the columns that they name."""

from __future__ import annotations

import base64
import math
import re
import time
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError, LanceNamespaceError
from pennon.pipeline_runs.report import CheckReport
from pennon.spark.pipeline.model import format_scalar
from pennon.spark.pipeline.scrubbing import Scrubber
from pennon.spark.pipeline.spark_errors import shorten_error
from pennon.spark.quoting import find_name, quote_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from pennon.spark.pipeline.model import Check, RowCount

_LONGEST_TEXT = 200
_MOST_ITEMS = 8
"""Sample values are truncated to these sizes."""
_FIRST_NAME = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


@dataclass(frozen=True)
class CheckSubject:
    """The data that checks read."""

    label: str
    schema: StructType
    frame: Callable[[Sequence[str]], DataFrame]
    """Returns a DataFrame with only these columns."""
    count: Callable[[], int]
    query: Callable[[str], DataFrame]
    """Runs a query in which `this` is the data."""
    published_rows: int | None = None
    """The number of rows of the published version, or None if there is none."""
    scrubber: Scrubber = field(default_factory=Scrubber)

    def top_level(self, column: str) -> str:
        """Return the top-level column of a column in a check. Raises InvalidInputError if there is none."""
        return resolve_column(self.label, self.schema, column)[0]

    def expression(self, column: str) -> str:
        """Return a column of a check as an expression in Spark's SQL."""
        name, rest = resolve_column(self.label, self.schema, column)
        return f"{quote_name(name)}{rest}"

    def is_text(self, column: str) -> bool:
        """Return True if a column is a top-level column of texts."""
        name, rest = resolve_column(self.label, self.schema, column)
        return not rest and self.schema[name].dataType.typeName() == "string"


def resolve_column(label: str, schema: StructType, column: str) -> tuple[str, str]:
    """Return the top-level column of a column in a check, and the rest. Raises InvalidInputError if there is none."""
    whole = find_name(column, schema.names)
    if whole is not None:
        return whole, ""
    parsed = _FIRST_NAME.match(column)
    first = None if parsed is None else find_name((parsed[1] or "").replace("``", "`") or parsed[2], schema.names)
    if parsed is None or first is None:
        there = ", ".join(schema.names)
        raise InvalidInputError(f"A check of {label} names the column {column!r}, but the columns are {there}")
    return first, column[parsed.end() :]


def run_checks(subject: CheckSubject, checks: Sequence[Check], *, samples: int) -> list[CheckReport]:
    """Run the checks of one subject, and return a report for each, in order.

    Raises InvalidInputError if a check cannot be run.
    """
    by_row = [one for one in checks if one.not_null or one.accepted_values]
    try:
        found = dict(zip(map(id, by_row), _check_rows(subject, by_row, samples), strict=True))
        return [found[id(one)] if id(one) in found else _run_check(subject, one, samples) for one in checks]
    except LanceNamespaceError:
        raise
    except Exception as error:
        reason = shorten_error(error, subject.scrubber.scrub_text)
        raise InvalidInputError(f"A check of {subject.label} cannot be run: {reason}") from error


def _run_check(subject: CheckSubject, check: Check, samples: int) -> CheckReport:
    started = time.monotonic()
    if check.unique is not None:
        report = _check_unique(subject, check, check.unique, samples)
    elif check.row_count is not None:
        report = _check_row_count(subject, check, check.row_count)
    else:
        report = _check_sql(subject, check, str(check.sql), samples)
    return replace(report, seconds=round(time.monotonic() - started, 3))


def _check_rows(subject: CheckSubject, checks: Sequence[Check], samples: int) -> list[CheckReport]:
    """Run all checks that examine single rows, in one pass."""
    if not checks:
        return []
    started = time.monotonic()
    faults = [_fault_condition(subject, check) for check in checks]
    frame = subject.frame(list(dict.fromkeys(subject.top_level(name) for check in checks for name in check.columns)))
    counted = _count_matches(frame, faults)
    share = round((time.monotonic() - started) / len(checks), 3)
    reports = []
    for check, fault, failing in zip(checks, faults, counted, strict=True):
        shown = frame.where(fault).selectExpr(*map(subject.expression, check.columns)) if failing else None
        reports.append(replace(_report(subject, check, failing, "rows", shown=shown, samples=samples), seconds=share))
    return reports


def _fault_condition(subject: CheckSubject, check: Check) -> Column:
    """Return the condition that is true for rows that fail, and never null."""
    from pyspark.sql import functions as sql

    if check.not_null is not None:
        conditions = [sql.expr(f"{subject.expression(name)} IS NULL") for name in check.not_null]
    else:
        conditions = []
        for name, accepted in (check.accepted_values or {}).items():
            column = sql.expr(subject.expression(name))
            values = [format_scalar(one) for one in accepted] if subject.is_text(name) else list(accepted)
            conditions.append(column.isNotNull() & ~column.isin(values))
    return reduce(or_, conditions)


def _count_matches(frame: DataFrame, conditions: Iterable[Column]) -> list[int]:
    from pyspark.sql import functions as sql

    sums = [sql.count_if(condition).alias(f"c{number}") for number, condition in enumerate(conditions)]
    (row,) = frame.agg(*sums).collect()
    return [int(value) for value in row]


def _check_unique(subject: CheckSubject, check: Check, keys: Sequence[str], samples: int) -> CheckReport:
    """Count duplicate keys. A key that contains a null equals no other, as in SQL."""
    expressions = [subject.expression(key) for key in keys]
    frame = subject.frame(list(dict.fromkeys(subject.top_level(key) for key in keys)))
    named = frame.selectExpr(*(f"{one} AS k{number}" for number, one in enumerate(expressions)))
    known = named.where(" AND ".join(f"k{number} IS NOT NULL" for number in range(len(keys))))
    again = known.groupBy(*named.columns).count().where("count > 1")
    shown = again.orderBy("count", ascending=False).toDF(*keys, "count")
    return _report(subject, check, again.count(), "keys are not unique", shown=shown, samples=samples)


def _check_row_count(subject: CheckSubject, check: Check, bounds: RowCount) -> CheckReport:
    rows, before = subject.count(), subject.published_rows
    faults = []
    if bounds.min is not None and rows < bounds.min:
        faults.append(f"fewer than {bounds.min:,}")
    if bounds.max is not None and rows > bounds.max:
        faults.append(f"more than {bounds.max:,}")
    if before is not None and bounds.min_ratio is not None and rows < bounds.min_ratio * before:
        faults.append(f"fewer than {bounds.min_ratio:g} of the {before:,} that are published")
    if before is not None and bounds.max_ratio is not None and rows > bounds.max_ratio * before:
        faults.append(f"more than {bounds.max_ratio:g} of the {before:,} that are published")
    message = f"{rows:,} rows" + (f": {' and '.join(faults)}" if faults else "")
    return CheckReport(subject.label, subject.scrubber.scrub_title(check), check.severity, not faults, None, message)


def _check_sql(subject: CheckSubject, check: Check, text: str, samples: int) -> CheckReport:
    frame = subject.query(text)
    if check.expect == "empty":
        return _report(subject, check, frame.count(), "rows", shown=frame, samples=samples)
    if [field.dataType.typeName() for field in frame.schema.fields] != ["boolean"]:
        raise InvalidInputError(
            f"The check {subject.scrubber.scrub_title(check)!r} of {subject.label} has 'expect: true', "
            "so it must return one boolean column"
        )
    result = frame.toDF("result")
    failing, held = _count_matches(result, [result["result"].isNull() | ~result["result"], result["result"]])
    if not failing and not held:
        return replace(_report(subject, check, 0, ""), passed=False, message="it returned no row")
    return _report(subject, check, failing, "rows are not true")


def _report(
    subject: CheckSubject, check: Check, failing: int, what: str, *, shown: DataFrame | None = None, samples: int = 0
) -> CheckReport:
    """Return the report of a check with the number of failures, and some rows of `shown` if there are any."""
    rows = _sample_rows(shown, samples, subject.scrubber) if failing and shown is not None else ()
    message = f"{failing:,} {what}" if failing else None
    title = subject.scrubber.scrub_title(check)
    return CheckReport(subject.label, title, check.severity, not failing, failing, message, samples=rows)


def _sample_rows(frame: DataFrame, number: int, scrubber: Scrubber) -> tuple[dict[str, Any], ...]:
    """Return the first rows of a DataFrame, without secrets."""
    if not number:
        return ()
    rows = [row.asDict() for row in frame.limit(number).collect()]
    return tuple({scrubber.scrub_text(name): _to_json(value, scrubber) for name, value in row.items()} for row in rows)


def _to_json(value: Any, scrubber: Scrubber) -> Any:
    if value is None or isinstance(value, (bool, int)):
        return scrubber.scrub_scalar(value)
    if isinstance(value, float):
        return scrubber.scrub_scalar(value if math.isfinite(value) else str(value))
    if isinstance(value, (bytes, bytearray)):
        return _cut(base64.b64encode(_scrub_bytes(bytes(value), scrubber)[:_LONGEST_TEXT]).decode())
    if isinstance(value, (list, tuple)) and not hasattr(value, "asDict"):
        return [_to_json(one, scrubber) for one in value[:_MOST_ITEMS]]
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, dict):
        few = list(value.items())[:_MOST_ITEMS]
        return {scrubber.scrub_text(str(key)): _to_json(one, scrubber) for key, one in few}
    return _cut(scrubber.scrub_text(str(value)))


def _scrub_bytes(value: bytes, scrubber: Scrubber) -> bytes:
    return scrubber.scrub_text(value.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 3]}..."
