"""Backfill: fill new or existing columns of a table, from a DataFrame by key or by an expression.

Executors write the files of the columns, fragment by fragment. One commit publishes them all. If other writers commit
first, the files are applied to the newest version: deleted rows stay deleted, and appended rows are filled too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TableColumnNotFoundError,
    from_error_code,
    translate_errors,
)
from pennon.identifiers import Identifier, quote_identifier
from pennon.spark.jobs import column_filling as filling
from pennon.spark.jobs.catalog_access import discard_files, open_latest, open_single, skip_committed
from pennon.spark.jobs.column_filling import FilledFragment
from pennon.spark.jobs.job_run import DECLARED, JobRun, JobSettings
from pennon.spark.jobs.outcome import DONE, JobResults, TableOutcome, failed_outcome, skipped_outcome
from pennon.spark.jobs.table_files import data_files
from pennon.spark.tables import job_commits

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lance import LanceDataset, LanceOperation
    from pyspark.sql import DataFrame

    from pennon.spark.address import Address
    from pennon.spark.jobs.table_selection import TableSelector
    from pennon.spark.lake import Lake
    from pennon.spark.reading.pinned import PinnedTable

_ROUNDS = 10
COLUMNS = "columns array<string>, is_new boolean, rows_filled bigint, fragments bigint, files_added bigint"


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
) -> JobResults:
    """Fill columns of tables, with one commit for each table, and return one outcome for each table.

    The values come from `df`, whose columns `on` are the key, or from `expressions` in Lance's SQL. With `df`, all
    other columns are filled; with `expressions`, the columns that it names. Either all of the columns are new, or all
    exist. A new column is null where `df` has no row; an existing one keeps its value there. `job_id` is stored in the
    commit.

    A table fails with InvalidInputError if `df` has a key twice. Raises InvalidInputError if the arguments are invalid.
    """
    spec = _check_arguments(df, [on] if isinstance(on, str) else on or (), dict(expressions or {}), job_id)
    run = JobRun(lake, "backfill", COLUMNS, JobSettings(dry_run, job_id, state, progress), noted_in_tables=True)
    tables = run.find_tables(which)
    return run.collect((_backfill_table(run, identifier, spec) for identifier in tables), len(tables))


def require_fitting_columns(
    address: Address, which: TableSelector, *, on: Sequence[str], expressions: Mapping[str, str]
) -> None:
    """Raise the errors of a backfill that need no Spark, if a single table is selected: bad keys and expressions."""
    for table, dataset in open_single(address, which):
        _check_columns(dataset, table, _BackfillSpec(tuple(expressions), tuple(on), None, expressions, None))


@dataclass(frozen=True)
class _BackfillSpec:
    """The columns to fill, and where their values come from."""

    columns: tuple[str, ...]
    on: tuple[str, ...]
    df: DataFrame | None
    expressions: Mapping[str, str]
    job: str | None


def _check_arguments(
    df: DataFrame | None, keys: Sequence[str], expressions: Mapping[str, str], job_id: str | None
) -> _BackfillSpec:
    """Return what to fill. Raises InvalidInputError if the arguments are invalid."""
    if (df is None) == (not expressions):
        raise InvalidInputError(
            "A backfill takes its values from a DataFrame or from expressions: pass exactly one of them"
        )
    if df is None and keys:
        raise InvalidInputError("Expressions are computed from a table's own rows: remove the key ('on')")
    missing = [] if df is None else [key for key in keys if key not in df.columns]
    if df is not None and (missing or not keys):
        raise InvalidInputError(
            f"A backfill from a DataFrame needs key columns ('on') that it has; missing: {missing or 'all'}"
        )
    columns = tuple(expressions) if df is None else tuple(name for name in df.columns if name not in keys)
    if not columns or len(set(columns)) != len(columns):
        raise InvalidInputError(f"A backfill needs at least one column to fill, each named once, got {list(columns)}")
    job = None if job_id is None else f"backfill {', '.join(columns)}: {job_id}"
    job_commits.require_job_id(job)
    return _BackfillSpec(columns, tuple(keys), df, expressions, job)


def _backfill_table(run: JobRun, identifier: Identifier, spec: _BackfillSpec) -> TableOutcome:
    """Fill one table, and return its outcome. An error becomes a failed outcome."""
    table = quote_identifier(identifier)
    with run.timed(table):
        try:
            with translate_errors(f"backfill of {table}"):
                there = open_latest(run.lake.address, identifier)
                if there is None:
                    return skipped_outcome(table, DECLARED)
                earlier = skip_committed(there[0], table, run.lake.address, spec.job)
                return earlier or _TableBackfill(run, table, spec, *there).outcome()
        except Exception as error:  # noqa: BLE001 - it is this table's result, and must not stop the others
            return failed_outcome(table, error)


class _TableBackfill:
    """The backfill of one table: fill all fragments, commit, and start over if another writer has committed first."""

    def __init__(
        self, run: JobRun, table: str, spec: _BackfillSpec, pinned: PinnedTable, dataset: LanceDataset
    ) -> None:
        self._run, self._table, self._spec = run, table, spec
        self._first = self._pinned = pinned
        self._dataset = dataset
        self._is_new = _check_columns(dataset, table, spec)
        self._fingerprint = filling.schema_fingerprint(dataset)
        self._filled: dict[int, FilledFragment] = {}
        """The fragments that were processed. A fragment without a row to fill has no new files."""

    def outcome(self) -> TableOutcome:
        """Fill the table, or count the rows to fill in a dry run, and return the outcome."""
        before = self._first.version
        if self._run.settings.dry_run:
            details = self._details(self._count_rows())
            return TableOutcome(self._table, DONE, None, None, before, None, details=details)
        try:
            version = self._fill_and_commit()
        except job_commits.OutcomeUnknownError:
            raise
        except BaseException:
            self._discard(self._filled)
            raise
        if version is None:
            return skipped_outcome(self._table, "no row of the table has a row to fill it from", before)
        details = self._details(sum(one.rows for one in self._filled.values()))
        return TableOutcome(self._table, DONE, None, None, before, version, details=details)

    def _fill_and_commit(self) -> int | None:
        """Fill all fragments, commit, and return the version, or None if there was nothing to fill.

        If another writer commits first, this is repeated on the new version. The commit point is the one commit that
        succeeds. A crash before it leaves files that no version refers to.
        """
        for _ in range(_ROUNDS):
            self._fill_fragments()
            changed = [one for one in self._filled.values() if one.files()]
            if not changed:
                return None
            try:
                committed = job_commits.commit(
                    self._run.lake.address,
                    self._pinned.identifier,
                    self._operation(changed),
                    read_version=self._pinned.version,
                    job_id=self._spec.job,
                    expected_uri=self._pinned.uri,
                )
            except ConcurrentModificationError:
                self._move_to_latest()
                continue
            if committed.already:
                self._discard(self._filled)
            return committed.version
        raise ConcurrentModificationError(
            f"Could not backfill '{self._table}': another writer committed first {_ROUNDS} times"
        )

    def _fill_fragments(self) -> None:
        """Fill the fragments that have not been processed yet."""
        new = {
            fragment.fragment_id: fragment.metadata
            for fragment in self._dataset.get_fragments()
            if fragment.fragment_id not in self._filled
        }
        for one in self._fill(new) if new else ():
            self._filled[one.metadata.id] = one
        for number, metadata in new.items():
            self._filled.setdefault(number, FilledFragment(data_files(metadata), metadata, None))

    def _fill(self, fragments: Collection[int]) -> Iterator[FilledFragment]:
        """Yield the fragments that have rows to fill. Raises an error after those that were filled."""
        run, spec = self._run, self._spec
        if spec.df is not None:
            yield from filling.fill_from_dataframe(
                run.lake.spark, self._pinned, spec.df, spec.on, fragments, is_new=self._is_new
            )
            return
        tasks = [filling.ExpressionTask(self._pinned, number, spec.expressions, self._is_new) for number in fragments]
        for _, made, failures in run.map_parts(filling.fill_by_expressions, tasks):
            yield from made
            for failure in failures:
                raise from_error_code(failure.code or 0, failure.message or "")

    def _operation(self, changed: Sequence[FilledFragment]) -> LanceOperation.BaseOperation:
        """Return the operation that attaches the new files to the fragments of the version that is pinned.

        A fragment keeps rows that were deleted after it was filled as deleted.
        """
        from lance import LanceOperation

        fragments = {
            fragment.fragment_id: replace(fragment.metadata, files=self._filled[fragment.fragment_id].metadata.files)
            for fragment in self._dataset.get_fragments()
        }
        if self._is_new:
            # Concurrent appends lack the new columns. The columns are nullable, so those appends need not fail.
            return LanceOperation.Merge(list(fragments.values()), changed[0].schema, preserves_nullability=True)
        offsets = {one.metadata.id: one.offsets for one in changed if one.offsets is not None}
        return LanceOperation.Update(
            updated_fragments=[fragments[one.metadata.id] for one in changed],
            fields_modified=sorted({number for one in changed for number in one.fields}),
            update_mode="rewrite_columns",
            updated_fragment_offsets=offsets or None,
        )

    def _move_to_latest(self) -> None:
        """Continue from the version that another writer committed.

        What was filled for fragments that are rewritten since, or for another schema, is discarded.
        """
        there = open_latest(self._run.lake.address, self._pinned.identifier)
        if there is None or there[0].uri != self._pinned.uri:
            raise ConcurrentModificationError(
                f"Table '{self._table}' was dropped and created again; nothing was committed"
            )
        self._pinned, self._dataset = there
        fingerprint = filling.schema_fingerprint(self._dataset)
        same_schema = fingerprint == self._fingerprint
        self._fingerprint = fingerprint
        current = {one.fragment_id: data_files(one.metadata) for one in self._dataset.get_fragments()}
        useless = [number for number, one in self._filled.items() if not same_schema or current.get(number) != one.base]
        self._discard(useless)
        for number in useless:
            del self._filled[number]
        if not same_schema and _check_columns(self._dataset, self._table, self._spec) != self._is_new:
            raise ConcurrentModificationError(
                f"The columns {list(self._spec.columns)} of table '{self._table}' were added or dropped "
                "during the backfill"
            )

    def _discard(self, fragments: Collection[int]) -> None:
        """Delete the files that were written for some fragments, except those that a version refers to."""
        files = [path for number in fragments for path in self._filled[number].files()]
        discard_files(self._run.lake.address, self._first, files)

    def _count_rows(self) -> int:
        spec = self._spec
        if spec.df is None:
            return self._dataset.count_rows()
        return filling.join_by_key(self._run.lake.spark, self._pinned, spec.df, spec.on).count()

    def _details(self, rows: int) -> dict[str, Any]:
        files = [one.files() for one in self._filled.values()]
        return {
            "columns": list(self._spec.columns),
            "is_new": self._is_new,
            "rows_filled": rows,
            "fragments": sum(bool(some) for some in files),
            "files_added": sum(len(some) for some in files),
        }


def _check_columns(dataset: LanceDataset, table: str, spec: _BackfillSpec) -> bool:
    """Return True if the columns are new.

    Raises TableColumnNotFoundError if a key column is missing. Raises InvalidInputError if the columns or an expression
    do not fit the table.
    """
    names = dataset.schema.names
    missing = [key for key in spec.on if key not in names]
    if missing:
        raise TableColumnNotFoundError(f"Table '{table}' has no column {', '.join(map(repr, missing))}")
    old = [name for name in spec.columns if name in names]
    if old and len(old) < len(spec.columns):
        raise InvalidInputError(
            f"Table '{table}' has only some of the columns {list(spec.columns)}: "
            "fill new and existing columns in two jobs"
        )
    if spec.expressions:
        try:
            dataset.scanner(columns=dict(spec.expressions), limit=1).explain_plan()
        except (ValueError, OSError) as error:
            raise InvalidInputError(f"Bad expression for table '{table}': {error}") from error
    return not old
