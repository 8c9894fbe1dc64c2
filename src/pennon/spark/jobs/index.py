"""Indexes, built on executors: scalar, full text and vector.

The fragments of a table are divided among tasks. Each task builds a segment of the index. Another task merges the
segments, and the driver commits the merged index. The segments of a vector index share a model, which a task trains
first. `optimize_indexes` adds new rows to an index.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from pennon.errors import InternalError, TableColumnNotFoundError
from pennon.spark.jobs import index_building as building
from pennon.spark.jobs.catalog_access import open_for_commit, open_latest
from pennon.spark.jobs.executor_tasks import run_tasks
from pennon.spark.jobs.index_building import IndexJobSpec, IndexPlan, IndexTask
from pennon.spark.jobs.job_run import DECLARED, JobRun, JobSettings, TableTask
from pennon.spark.jobs.leftovers import discard_files
from pennon.spark.jobs.outcome import DONE, SKIPPED, TableOutcome, failed_outcome, to_dataframe
from pennon.spark.tables import job_commits

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lance.dataset import Index
    from pyspark.sql import DataFrame

    from pennon.identifiers import Identifier
    from pennon.spark.address import Address
    from pennon.spark.jobs.table_selection import TableSelector
    from pennon.spark.lake import Lake

_ROUNDS = 2
COLUMNS = (("index", "string"), ("tasks", "int"), ("rows", "bigint"), ("bytes", "bigint"))


def index(
    lake: Lake,
    which: TableSelector,
    column: str,
    kind: str = "BTREE",
    *,
    name: str | None = None,
    metric: str = "l2",
    num_partitions: int | None = None,
    num_sub_vectors: int | None = None,
    num_bits: int | None = None,
    params: Mapping[str, Any] | None = None,
    replace: bool = False,
    rows_per_task: int = 1_000_000,
    dry_run: bool = False,
    job_id: str | None = None,
    state: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> DataFrame:
    """Build an index on a column of tables, with one commit for each, and return one row for each table.

    `kind` is one of BTREE, BITMAP, LABEL_LIST, NGRAM, ZONEMAP, BLOOMFILTER, RTREE, INVERTED (or FTS), and IVF_FLAT,
    IVF_PQ, IVF_SQ, IVF_RQ, IVF_HNSW_FLAT, IVF_HNSW_PQ, IVF_HNSW_SQ. `params` are further options of Lance for that
    kind. An existing index is skipped, unless `replace` is True. If there are several tables, those without the column
    are skipped. `job_id` is stored in the commit. Raises InvalidInputError if an option is invalid.
    """
    wanted = kind.upper().replace("-", "_")
    label = name or f"{column}_idx"
    spec = IndexJobSpec(
        column,
        "INVERTED" if wanted == "FTS" else wanted,
        label,
        metric.lower(),
        num_partitions,
        num_sub_vectors,
        num_bits,
        replace,
        rows_per_task,
        None if job_id is None else f"index {label}: {job_id}",
        dry_run,
        dict(params or {}),
    )
    job_commits.require_job_id(spec.job)
    run = JobRun.start(lake, "index", JobSettings(dry_run, job_id, state, progress), noted_in_tables=True)
    tables = run.find_tables(which)
    alone = len(tables) == 1
    rounds = run.retry_conflicts(tables, lambda left: _index_once(run, left, spec, alone=alone), _ROUNDS)
    outcomes = run.collect(rounds, len(tables))
    return to_dataframe(lake.spark, outcomes, COLUMNS)


def optimize_indexes(
    lake: Lake,
    which: TableSelector = None,
    *,
    names: Sequence[str] | None = None,
    retrain: bool = False,
    dry_run: bool = False,
    job_id: str | None = None,
    state: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> DataFrame:
    """Add the rows that are not indexed yet to the indexes of tables, and return one row for each table.

    `names` selects indexes. `retrain` rebuilds them from all rows. Each table is one task, which commits through the
    catalog.
    """
    run = JobRun.start(lake, "index", JobSettings(dry_run, job_id, state, progress))
    tables = run.find_tables(which)
    options = (None if names is None else tuple(names), retrain, dry_run)
    outcomes = run.collect(run.run_on_executors(_optimize_table, tables, options), len(tables))
    return to_dataframe(lake.spark, outcomes, COLUMNS)


def _index_once(
    run: JobRun, tables: Sequence[Identifier], spec: IndexJobSpec, *, alone: bool
) -> Iterator[tuple[Identifier, TableOutcome]]:
    to_build: dict[str, IndexPlan] = {}
    items = [TableTask(identifier, spec) for identifier in tables]
    for result in run_tasks(run.lake.spark, run.lake.address, building.plan_index, items, subject=run.describe_task):
        identifier, value = result.item.identifier, result.value
        if isinstance(result.error, TableColumnNotFoundError) and not alone:
            yield identifier, TableOutcome(result.item.table, SKIPPED, f"the table has no column {spec.column!r}")
        elif value is None:
            yield identifier, failed_outcome(result.item.table, result.error or InternalError("no result"))
        elif isinstance(value, TableOutcome):
            yield identifier, value
        elif spec.dry_run:
            details = {"index": spec.name, "tasks": len(value.groups), "rows": value.rows}
            yield identifier, TableOutcome(value.table, DONE, None, None, value.pinned.version, None, details=details)
        else:
            to_build[value.table] = value
    for table, outcome in _IndexRound(run, spec, to_build).outcomes():
        yield to_build[table].pinned.identifier, outcome


class _IndexRound:
    """One round of building indexes: train, build and merge. A table is committed when all tables have been merged."""

    def __init__(self, run: JobRun, spec: IndexJobSpec, to_build: Mapping[str, IndexPlan]) -> None:
        self._run, self._spec, self._to_build = run, spec, to_build
        self._seconds = {table: one.seconds for table, one in to_build.items()}
        self._made: dict[str, list[Index]] = {table: [] for table in to_build}

    def outcomes(self) -> Iterator[tuple[str, TableOutcome]]:
        """Yield the outcome of each table."""
        models: dict[str, building.VectorModel] = {}
        failed: dict[str, Exception] = {}
        training = [self._task(one, rows=one.rows) for one in self._to_build.values() if one.shared_model]
        for table, model, error in self._run_tasks(building.train_model, training):
            if error is not None:
                failed[table] = error
            else:
                models[table] = model
        tasks = [
            self._task(one, fragments=group, model=models.get(table))
            for table, one in self._to_build.items()
            if table not in failed
            for group in one.groups
        ]
        finished: dict[str, list[Index]] = defaultdict(list)
        for table, made, error in self._run_tasks(building.build_segment, tasks):
            if error is not None:
                failed[table] = error
            else:
                self._add_segment(table, *made)
                finished[table].append(made[0])
        merging = [
            self._task(self._to_build[table], segments=tuple(segments))
            for table, segments in finished.items()
            # Even a single segment of a full-text index has to be merged before it can be searched.
            if table not in failed and (len(segments) > 1 or self._spec.kind == "INVERTED")
        ]
        for table, made, error in self._run_tasks(building.merge_segments, merging):
            if error is not None:
                failed[table] = error
            else:
                self._add_segment(table, *made)
                finished[table] = [made[0]]
        for table, one in self._to_build.items():
            if table in failed:
                discard_files(self._run.lake.address, one.pinned, _segment_files(self._made[table]))
                yield table, failed_outcome(table, failed[table], version_before=one.pinned.version)
            else:
                yield table, self._commit(one, finished[table][0])

    def _task(self, one: IndexPlan, **what: Any) -> IndexTask:
        return IndexTask(one.pinned, self._spec, **what)

    def _run_tasks(
        self, work: Callable[[Address, IndexTask], Any], tasks: Sequence[IndexTask]
    ) -> Iterator[tuple[str, Any, Exception | None]]:
        lake = self._run.lake
        for result in run_tasks(lake.spark, lake.address, work, tasks, subject=self._run.describe_task):
            error = result.error or (InternalError("no result") if result.value is None else None)
            yield result.item.table, result.value, error

    def _add_segment(self, table: str, segment: Index, seconds: float) -> None:
        self._made[table].append(segment)
        self._seconds[table] += seconds

    def _commit(self, one: IndexPlan, segment: Index) -> TableOutcome:
        """Commit the index of a table: the commit point. Delete the segments that did not become the index."""
        from lance import LanceOperation

        begun = time.monotonic()
        table, before = one.table, one.pinned.version
        made = self._made[table]
        operation = LanceOperation.CreateIndex([segment], list(one.removed))
        try:
            committed = job_commits.commit(
                self._run.lake.address,
                one.pinned.identifier,
                operation,
                read_version=before,
                job_id=self._spec.job,
                expected_uri=one.pinned.uri,
            )
        except job_commits.OutcomeUnknownError as error:
            return failed_outcome(table, error, version_before=before)
        except Exception as error:  # noqa: BLE001 - it is this table's result
            discard_files(self._run.lake.address, one.pinned, _segment_files(made))
            return failed_outcome(table, error, version_before=before)
        vain = [other for other in made if committed.already or other.uuid != segment.uuid]
        discard_files(self._run.lake.address, one.pinned, _segment_files(vain))
        details = {
            "index": self._spec.name,
            "tasks": len(one.groups),
            "rows": one.rows,
            "bytes": sum(file.size_bytes for file in segment.files or ()),
        }
        seconds = round(self._seconds[table] + time.monotonic() - begun, 3)
        return TableOutcome(table, DONE, None, None, before, committed.version, seconds, details)


def _segment_files(segments: Any) -> Iterator[str]:
    for segment in segments:
        for file in segment.files or ():
            yield f"_indices/{segment.uuid}/{file.path}"


def _optimize_table(address: Address, task: TableTask) -> TableOutcome:
    """Optimize the indexes of one table, on an executor."""
    begun = time.monotonic()
    names, retrain, dry_run = task.options
    if open_latest(address, task.identifier) is None:
        return TableOutcome(task.table, SKIPPED, DECLARED)
    dataset = open_for_commit(address, task.identifier)
    before = dataset.version
    wanted = [
        one
        for one in dataset.describe_indices()
        if not one.name.startswith("__") and (names is None or one.name in names)
    ]
    rows = dataset.count_rows()
    behind = [one for one in wanted if retrain or one.num_rows_indexed < rows]
    details = {"index": ", ".join(one.name for one in behind) or None, "tasks": 1, "rows": rows}
    if not behind:
        message = "every index has all rows" if wanted else "the table has no such index"
        return TableOutcome(
            task.table, SKIPPED, message, None, before, before, round(time.monotonic() - begun, 3), details
        )
    if not dry_run:
        dataset.optimize.optimize_indices(index_names=[one.name for one in behind], retrain=retrain)
    after = before if dry_run else open_for_commit(address, task.identifier).version
    return TableOutcome(task.table, DONE, None, None, before, after, round(time.monotonic() - begun, 3), details)
