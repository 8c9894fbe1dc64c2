"""Backfill: fill new or existing columns of a table, from a DataFrame by key or by an expression.

Executors write the files of the columns, fragment by fragment. One commit publishes them all. If other writers commit
first, the files are applied to the newest version: deleted rows stay deleted, and appended rows are filled too.
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
from pennon.spark.jobs import column_filling as filling
from pennon.spark.jobs.catalog_access import open_latest
from pennon.spark.jobs.executor_tasks import run_tasks
from pennon.spark.jobs.job_run import DECLARED, JobRun, JobSettings
from pennon.spark.jobs.leftovers import discard_files
from pennon.spark.jobs.outcome import DONE, SKIPPED, TableOutcome, failed_outcome, to_dataframe
from pennon.spark.jobs.table_files import data_files
from pennon.spark.tables import job_commits

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from lance import LanceDataset, LanceOperation
    from pyspark.sql import DataFrame

    from pennon.spark.jobs.column_filling import FilledFragment
    from pennon.spark.jobs.table_selection import TableSelector
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
    which: TableSelector,
    df: DataFrame | None = None,
    *,
    on: str | Sequence[str] | None = None,
    expressions: Mapping[str, str] | None = None,
    dry_run: bool = False,
    job_id: str | None = None,
    state: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> DataFrame:
    """Fill columns of tables, with one commit for each table, and return one row for each table.

    The values come from `df`, whose columns `on` are the key, or from `expressions` in Lance's SQL. With `df`, all
    other columns are filled; with `expressions`, the columns that it names. Either all of the columns are new, or all
    exist. A new column is null where `df` has no row; an existing one keeps its value there. `job_id` is stored in the
    commit.

    A table fails with InvalidInputError if `df` has a key twice. Raises InvalidInputError if the arguments are invalid.
    """
    spec = _BackfillSpec.of(df, on, expressions, job_id)
    run = JobRun.start(lake, "backfill", JobSettings(dry_run, job_id, state, progress), noted_in_tables=True)
    tables = run.find_tables(which)
    outcomes = run.collect((_backfill_table(run, identifier, spec) for identifier in tables), len(tables))
    return to_dataframe(lake.spark, outcomes, COLUMNS)


@dataclass(frozen=True)
class _BackfillSpec:
    """The columns to fill, and where their values come from."""

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
    ) -> _BackfillSpec:
        if (df is None) == (not expressions):
            raise InvalidInputError(
                "A backfill takes its values from a DataFrame or from expressions: pass exactly one of them"
            )
        keys = (on,) if isinstance(on, str) else tuple(on or ())
        if df is None:
            if keys:
                raise InvalidInputError("Expressions are computed from a table's own rows: remove the key ('on')")
            columns = tuple(expressions or ())
        else:
            missing = [key for key in keys if key not in df.columns]
            if not keys or missing:
                raise InvalidInputError(
                    f"A backfill from a DataFrame needs key columns ('on') that it has; missing: {missing or 'all'}"
                )
            columns = tuple(name for name in df.columns if name not in keys)
        if not columns or len(set(columns)) != len(columns):
            raise InvalidInputError(
                f"A backfill needs at least one column to fill, each named once, got {list(columns)}"
            )
        job = None if job_id is None else f"backfill {', '.join(columns)}: {job_id}"
        job_commits.require_job_id(job)
        return cls(columns, keys, df, dict(expressions or {}), job)


@dataclass
class _TableBackfill:
    """The progress of one table's backfill."""

    spec: _BackfillSpec
    pinned: PinnedTable
    is_new: bool
    fingerprint: bytes
    first: PinnedTable
    """The version at the start. All files of the backfill were written after it."""
    made: dict[int, FilledFragment] = field(default_factory=dict)
    visited: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """The fragments that were processed, with their files. Not all of them have rows to fill."""

    def files(self) -> list[str]:
        return [path for one in self.made.values() for path in one.files()]


def _backfill_table(run: JobRun, identifier: Identifier, spec: _BackfillSpec) -> TableOutcome:
    """Fill one table, and return its outcome. An error becomes a failed outcome."""
    begun = time.monotonic()
    table = quote_identifier(identifier)
    try:
        with translate_errors(f"backfill of {table}"):
            outcome = _backfill_or_raise(run, identifier, spec)
    except Exception as error:  # noqa: BLE001 - it is this table's result, and must not stop the others
        return failed_outcome(table, _short_error(error)).after(time.monotonic() - begun)
    return outcome.after(time.monotonic() - begun)


def _backfill_or_raise(run: JobRun, identifier: Identifier, spec: _BackfillSpec) -> TableOutcome:
    address, table = run.lake.address, quote_identifier(identifier)
    there = open_latest(address, identifier)
    if there is None:
        return TableOutcome(table, SKIPPED, DECLARED)
    pinned, dataset = there
    before = pinned.version
    if spec.job is not None and (made := job_commits.find_job(address, identifier, spec.job)) is not None:
        message = f"done by an earlier run of this job, as version {made.version}"
        return TableOutcome(table, SKIPPED, message, None, before, before)
    is_new = _check_columns(dataset, identifier, spec)
    work = _TableBackfill(spec, pinned, is_new, filling.schema_fingerprint(dataset), pinned)
    if run.settings.dry_run:
        rows = (
            dataset.count_rows()
            if spec.df is None
            else filling.join_by_key(run.lake.spark, pinned, spec.df, spec.on).count()
        )
        return TableOutcome(table, DONE, None, None, before, None, details=_details(work, rows))
    try:
        version = _fill_and_commit(run, identifier, work, dataset)
    except job_commits.OutcomeUnknownError:
        raise
    except BaseException:
        discard_files(address, work.first, work.files())
        raise
    rows = sum(one.rows for one in work.made.values())
    if version is None:
        return TableOutcome(table, SKIPPED, "no row of the table has a row to fill it from", None, before, before)
    return TableOutcome(table, DONE, None, None, before, version, details=_details(work, rows))


def _check_columns(dataset: LanceDataset, identifier: Identifier, spec: _BackfillSpec) -> bool:
    """Return True if the columns are new.

    Raises TableColumnNotFoundError if a key column is missing. Raises InvalidInputError if the columns or an expression
    do not fit the table.
    """
    names = dataset.schema.names
    missing = [key for key in spec.on if key not in names]
    if missing:
        raise TableColumnNotFoundError(
            f"Table {format_identifier(identifier)} has no column {', '.join(map(repr, missing))}"
        )
    old = [name for name in spec.columns if name in names]
    if old and len(old) < len(spec.columns):
        raise InvalidInputError(
            f"Table {format_identifier(identifier)} has only some of the columns {list(spec.columns)}: "
            "fill new and existing columns in two jobs"
        )
    if spec.expressions:
        try:
            dataset.scanner(columns=dict(spec.expressions), limit=1).explain_plan()
        except (ValueError, OSError) as error:
            raise InvalidInputError(f"Bad expression for table {format_identifier(identifier)}: {error}") from error
    return not old


def _fill_and_commit(run: JobRun, identifier: Identifier, work: _TableBackfill, dataset: LanceDataset) -> int | None:
    """Fill the fragments that lack the columns, commit, and return the version, or None if there was nothing to fill.

    If another writer commits first, this is repeated on the new version. The commit point is the one commit that
    succeeds. A crash before it leaves files that no version refers to.
    """
    address = run.lake.address
    for _ in range(_ROUNDS):
        fragments, lacking = filling.attach_columns(dataset, work.made)
        current = {one.id: data_files(one) for one in fragments}
        todo = sorted(number for number in lacking if work.visited.get(number) != current[number])
        if todo:
            _fill(run, work, todo)
            work.visited.update({number: current[number] for number in todo})
            fragments, _ = filling.attach_columns(dataset, work.made)
        if not work.made:
            return None
        operation = _operation(work, fragments)
        try:
            committed = job_commits.commit(
                address,
                identifier,
                operation,
                read_version=work.pinned.version,
                job_id=work.spec.job,
                expected_uri=work.pinned.uri,
            )
        except ConcurrentModificationError:
            _rebase(run, identifier, work)
            dataset = work.pinned.open()
            continue
        if committed.already:
            discard_files(address, work.first, work.files())
        return committed.version
    raise ConcurrentModificationError(
        f"Could not backfill {format_identifier(identifier)}: another writer committed first {_ROUNDS} times"
    )


def _rebase(run: JobRun, identifier: Identifier, work: _TableBackfill) -> None:
    """Continue from the version that another writer committed.

    Files for fragments that no longer exist, or for another schema, are discarded.
    """
    there = open_latest(run.lake.address, identifier)
    if there is None or there[0].uri != work.pinned.uri:
        raise ConcurrentModificationError(
            f"Table {format_identifier(identifier)} was dropped and created again; nothing was committed"
        )
    pinned, dataset = there
    fingerprint = filling.schema_fingerprint(dataset)
    current = {one.fragment_id: data_files(one.metadata) for one in dataset.get_fragments()}
    useless = [
        number
        for number, one in work.made.items()
        if fingerprint != work.fingerprint or current.get(number) != one.base
    ]
    discard_files(run.lake.address, work.first, [path for number in useless for path in work.made[number].files()])
    for number in useless:
        del work.made[number]
    if fingerprint != work.fingerprint:
        work.visited.clear()
        if _check_columns(dataset, identifier, work.spec) != work.is_new:
            raise ConcurrentModificationError(
                f"The columns {list(work.spec.columns)} of table {format_identifier(identifier)} "
                "were added or dropped during the backfill"
            )
        work.fingerprint = fingerprint
    work.pinned = pinned


def _operation(work: _TableBackfill, fragments: Sequence[Any]) -> LanceOperation.BaseOperation:
    from lance import LanceOperation

    some = next(iter(work.made.values()))
    if work.is_new:
        # Concurrent appends lack the new columns. The columns are nullable, so those appends need not fail.
        return LanceOperation.Merge(list(fragments), some.schema, preserves_nullability=True)
    offsets = {number: one.offsets for number, one in work.made.items() if one.offsets is not None}
    return LanceOperation.Update(
        updated_fragments=[one for one in fragments if one.id in work.made],
        fields_modified=sorted({number for one in work.made.values() for number in one.fields}),
        update_mode="rewrite_columns",
        updated_fragment_offsets=offsets or None,
    )


def _fill(run: JobRun, work: _TableBackfill, todo: Sequence[int]) -> None:
    if work.spec.df is None:
        for one in _fill_by_expressions(run, work, todo):
            work.made[one.metadata.id] = one
        return
    frame = work.spec.df, work.spec.on
    for one in filling.fill_from_dataframe(run.lake.spark, work.pinned, *frame, set(todo), is_new=work.is_new):
        work.made[one.metadata.id] = one


def _fill_by_expressions(run: JobRun, work: _TableBackfill, todo: Sequence[int]) -> Iterator[FilledFragment]:
    columns = tuple(work.spec.expressions.items())
    items = [filling.ExpressionTask(work.pinned, (number,), columns, work.is_new) for number in todo]
    failed: LanceNamespaceError | None = None
    for result in run_tasks(
        run.lake.spark, run.lake.address, filling.fill_by_expressions, items, subject=run.describe_task
    ):
        if result.value is None:
            failed = result.error or InternalError("no result")
        else:
            yield from result.value
    if failed is not None:
        raise failed


def _details(work: _TableBackfill, rows: int) -> dict[str, Any]:
    return {
        "columns": list(work.spec.columns),
        "is_new": work.is_new,
        "rows_filled": rows,
        "fragments": len(work.made),
        "files_added": len(work.files()),
    }


def _short_error(error: Exception) -> Exception:
    """Return the error itself, or an InternalError with the first line of an error of Spark."""
    if isinstance(error, LanceNamespaceError):
        return error
    lines = str(error).strip().splitlines()
    return InternalError(f"{type(error).__name__}: {lines[0] if lines else ''}")
