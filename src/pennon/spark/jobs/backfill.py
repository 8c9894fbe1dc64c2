"""Backfill: fill columns of a table, new or there already, from a DataFrame by key, or by an expression.

Executors write the columns' files, fragment by fragment; one commit shows them all. Rows that others append or delete
meanwhile stay appended and deleted: what was written is put onto the table as it is by then, and what came new is
filled too.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pennon.errors import (
    ConcurrentModificationError,
    InternalError,
    InvalidInputError,
    LanceNamespaceError,
    TableColumnNotFoundError,
    translate_errors,
)
from pennon.identifiers import Identifier, format_identifier, quote_identifier
from pennon.spark.commits import committing
from pennon.spark.jobs import column_filling as filling
from pennon.spark.jobs.asking import opened
from pennon.spark.jobs.leftovers import discard
from pennon.spark.jobs.outcome import DONE, SKIPPED, Outcome, as_frame, failure
from pennon.spark.jobs.running import DECLARED, Run, Settings
from pennon.spark.jobs.spreading import spread
from pennon.spark.jobs.table_files import data_files

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from lance import LanceDataset, LanceOperation
    from pyspark.sql import DataFrame

    from pennon.spark.jobs.column_filling import Filled
    from pennon.spark.jobs.targets import Which
    from pennon.spark.lake import Lake
    from pennon.spark.reading.pinned import PinnedTable

_ROUNDS = 10
COLUMNS = (
    ("columns", "array<string>"),
    ("is_new", "boolean"),
    ("rows_filled", "bigint"),
    ("fragments", "bigint"),
    ("files_added", "bigint"),
)


def backfill(
    lake: Lake,
    which: Which,
    df: DataFrame | None = None,
    *,
    on: str | Sequence[str] | None = None,
    expressions: Mapping[str, str] | None = None,
    dry_run: bool = False,
    job_id: str | None = None,
    state: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> DataFrame:
    """Fill columns of tables in one commit each: from `df`, whose columns `on` are the key, or by `expressions`.

    All columns of `df` that are not the key are filled, or those that `expressions` names, each by an expression in
    Lance's SQL. Either all of them are new, and null where `df` has no row; or all are there already, and keep their
    value where `df` has no row. A key that `df` has twice raises 13. A job id is noted in the commit.
    """
    wish = _Wish.of(df, on, expressions, job_id)
    run = Run.begin(lake, "backfill", Settings(dry_run, job_id, state, progress), noted_in_tables=True)
    tables = run.targets(which)
    outcomes = run.take((_filled(run, identifier, wish) for identifier in tables), len(tables))
    return as_frame(lake.spark, outcomes, COLUMNS)


@dataclass(frozen=True)
class _Wish:
    columns: tuple[str, ...]
    on: tuple[str, ...]
    df: DataFrame | None
    expressions: Mapping[str, str]
    job: str | None

    @classmethod
    def of(
        cls,
        df: DataFrame | None,
        on: str | Sequence[str] | None,
        expressions: Mapping[str, str] | None,
        job_id: str | None,
    ) -> _Wish:
        if (df is None) == (not expressions):
            raise InvalidInputError(
                "A backfill takes its values from a DataFrame or from expressions: give one of them"
            )
        keys = (on,) if isinstance(on, str) else tuple(on or ())
        if df is None:
            if keys:
                raise InvalidInputError("Expressions are computed from a table's own rows: they need no key")
            columns = tuple(expressions or ())
        else:
            missing = [key for key in keys if key not in df.columns]
            if not keys or missing:
                raise InvalidInputError(
                    f"A backfill from a DataFrame needs its key columns, missing: {missing or 'all'}"
                )
            columns = tuple(name for name in df.columns if name not in keys)
        if not columns or len(set(columns)) != len(columns):
            raise InvalidInputError(f"A backfill needs columns to fill, each once, got {list(columns)}")
        job = None if job_id is None else f"backfill {', '.join(columns)}: {job_id}"
        committing.check_job(job)
        return cls(columns, keys, df, dict(expressions or {}), job)


@dataclass
class _Work:
    """The backfill of one table as far as it has come."""

    wish: _Wish
    pinned: PinnedTable
    is_new: bool
    mark: bytes
    first: PinnedTable
    """The version with which it began; files were written since."""
    made: dict[int, Filled] = field(default_factory=dict)
    looked_at: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Fragments that were looked at, with their files: not all of them have rows to fill."""

    def files(self) -> list[str]:
        return [path for one in self.made.values() for path in one.files()]


def _filled(run: Run, identifier: Identifier, wish: _Wish) -> Outcome:
    """Fill one table; whatever goes wrong is its outcome."""
    begun = time.monotonic()
    table = quote_identifier(identifier)
    try:
        with translate_errors(f"backfill of {table}"):
            outcome = _filled_or_raised(run, identifier, wish)
    except Exception as error:  # noqa: BLE001 - it is this table's result, and must not stop the others
        return failure(table, _reason(error)).after(time.monotonic() - begun)
    return outcome.after(time.monotonic() - begun)


def _filled_or_raised(run: Run, identifier: Identifier, wish: _Wish) -> Outcome:
    address, table = run.lake.address, quote_identifier(identifier)
    there = opened(address, identifier)
    if there is None:
        return Outcome(table, SKIPPED, DECLARED)
    pinned, dataset = there
    before = pinned.version
    if wish.job is not None and (made := committing.find(address, identifier, wish.job)) is not None:
        message = f"done by an earlier run of this job, as version {made.version}"
        return Outcome(table, SKIPPED, message, None, before, before)
    is_new = _check(dataset, identifier, wish)
    work = _Work(wish, pinned, is_new, filling.schema_mark(dataset), pinned)
    if run.settings.dry_run:
        rows = (
            dataset.count_rows()
            if wish.df is None
            else filling.joined(run.lake.spark, pinned, wish.df, wish.on).count()
        )
        return Outcome(table, DONE, None, None, before, None, did=_did(work, rows))
    try:
        version = _committed(run, identifier, work, dataset)
    except committing.OutcomeUnknownError:
        raise
    except BaseException:
        discard(address, work.first, work.files())
        raise
    rows = sum(one.rows for one in work.made.values())
    if version is None:
        return Outcome(table, SKIPPED, "no row of the table has a row to fill it from", None, before, before)
    return Outcome(table, DONE, None, None, before, version, did=_did(work, rows))


def _check(dataset: LanceDataset, identifier: Identifier, wish: _Wish) -> bool:
    """Tell whether the columns are new; raises 12 or 13 if they, the key or an expression do not fit the table."""
    names = dataset.schema.names
    missing = [key for key in wish.on if key not in names]
    if missing:
        raise TableColumnNotFoundError(
            f"Table {format_identifier(identifier)} has no column {', '.join(map(repr, missing))}"
        )
    old = [name for name in wish.columns if name in names]
    if old and len(old) < len(wish.columns):
        raise InvalidInputError(
            f"Table {format_identifier(identifier)} has some of the columns {list(wish.columns)} and lacks others: "
            "fill new ones and those that are there in two jobs"
        )
    if wish.expressions:
        try:
            dataset.scanner(columns=dict(wish.expressions), limit=1).explain_plan()
        except (ValueError, OSError) as error:
            raise InvalidInputError(f"Bad expression for table {format_identifier(identifier)}: {error}") from error
    return not old


def _committed(run: Run, identifier: Identifier, work: _Work, dataset: LanceDataset) -> int | None:
    """Fill what lacks the columns and commit, again and again until nobody came in between; None if there was nothing.

    The commit point is the one commit that succeeds. A crash before it leaves files that no version names.
    """
    address = run.lake.address
    for _ in range(_ROUNDS):
        fragments, lacking = filling.grafted(dataset, work.made)
        current = {one.id: data_files(one) for one in fragments}
        todo = sorted(number for number in lacking if work.looked_at.get(number) != current[number])
        if todo:
            _fill(run, work, todo)
            work.looked_at.update({number: current[number] for number in todo})
            fragments, _ = filling.grafted(dataset, work.made)
        if not work.made:
            return None
        operation = _operation(work, fragments)
        try:
            committed = committing.commit(
                address,
                identifier,
                operation,
                read_version=work.pinned.version,
                job_id=work.wish.job,
                expected_uri=work.pinned.uri,
            )
        except ConcurrentModificationError:
            _move_on(run, identifier, work)
            dataset = work.pinned.open()
            continue
        if committed.already:
            discard(address, work.first, work.files())
        return committed.version
    raise ConcurrentModificationError(
        f"Could not backfill {format_identifier(identifier)}: others committed first every time"
    )


def _move_on(run: Run, identifier: Identifier, work: _Work) -> None:
    """Go on from the version that won, without what was made for fragments that are gone, or for another schema."""
    there = opened(run.lake.address, identifier)
    if there is None or there[0].uri != work.pinned.uri:
        raise ConcurrentModificationError(
            f"Table {format_identifier(identifier)} was dropped and made anew; nothing was committed"
        )
    pinned, dataset = there
    mark = filling.schema_mark(dataset)
    current = {one.fragment_id: data_files(one.metadata) for one in dataset.get_fragments()}
    useless = [number for number, one in work.made.items() if mark != work.mark or current.get(number) != one.base]
    discard(run.lake.address, work.first, [path for number in useless for path in work.made[number].files()])
    for number in useless:
        del work.made[number]
    if mark != work.mark:
        work.looked_at.clear()
        if _check(dataset, identifier, work.wish) != work.is_new:
            raise ConcurrentModificationError(
                f"The columns {list(work.wish.columns)} of table {format_identifier(identifier)} came or went meanwhile"
            )
        work.mark = mark
    work.pinned = pinned


def _operation(work: _Work, fragments: Sequence[Any]) -> LanceOperation.BaseOperation:
    from lance import LanceOperation

    some = next(iter(work.made.values()))
    if work.is_new:
        # Appends that come in between lack the new columns, which are nullable: they need not fail.
        return LanceOperation.Merge(list(fragments), some.schema, preserves_nullability=True)
    offsets = {number: one.offsets for number, one in work.made.items() if one.offsets is not None}
    return LanceOperation.Update(
        updated_fragments=[one for one in fragments if one.id in work.made],
        fields_modified=sorted({number for one in work.made.values() for number in one.fields}),
        update_mode="rewrite_columns",
        updated_fragment_offsets=offsets or None,
    )


def _fill(run: Run, work: _Work, todo: Sequence[int]) -> None:
    if work.wish.df is None:
        for one in _by_expressions(run, work, todo):
            work.made[one.metadata.id] = one
        return
    frame = work.wish.df, work.wish.on
    for one in filling.from_frame(run.lake.spark, work.pinned, *frame, set(todo), is_new=work.is_new):
        work.made[one.metadata.id] = one


def _by_expressions(run: Run, work: _Work, todo: Sequence[int]) -> Iterator[Filled]:
    columns = tuple(work.wish.expressions.items())
    items = [filling.Expressions(work.pinned, (number,), columns, work.is_new) for number in todo]
    failed: LanceNamespaceError | None = None
    for answer in spread(run.lake.spark, run.lake.address, filling.by_expressions, items, subject=run.subject):
        if answer.value is None:
            failed = answer.error or InternalError("no answer")
        else:
            yield from answer.value
    if failed is not None:
        raise failed


def _did(work: _Work, rows: int) -> dict[str, Any]:
    return {
        "columns": list(work.wish.columns),
        "is_new": work.is_new,
        "rows_filled": rows,
        "fragments": len(work.made),
        "files_added": len(work.files()),
    }


def _reason(error: Exception) -> Exception:
    """Give an error of Spark's in one line."""
    if isinstance(error, LanceNamespaceError):
        return error
    lines = str(error).strip().splitlines()
    return InternalError(f"{type(error).__name__}: {lines[0] if lines else ''}")
