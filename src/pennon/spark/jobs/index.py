"""Indexes, built on executors: scalar, full text and vector.

The fragments of a table are divided among tasks. Each task builds a segment of the index. Another task merges the
segments, and the driver commits the merged index. The segments of a vector index share a model, which a task trains
first. `optimize_indexes` adds new rows to an index.
"""

from __future__ import annotations

from dataclasses import replace as copy_with
from typing import TYPE_CHECKING, Any

from pennon.errors import TableColumnNotFoundError
from pennon.spark.jobs import index_building as building
from pennon.spark.jobs.catalog_access import discard_files, open_for_commit, open_latest, open_single
from pennon.spark.jobs.index_building import IndexJobSpec, IndexPlan, IndexTask
from pennon.spark.jobs.job_run import DECLARED, JobRun, JobSettings, TableTask, retry_conflicts
from pennon.spark.jobs.outcome import DONE, JobResults, TableOutcome, failed_outcome, skipped_outcome
from pennon.spark.tables import job_commits
from pennon.table import index_kinds

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lance.dataset import Index

    from pennon.identifiers import Identifier
    from pennon.spark.address import Address
    from pennon.spark.jobs.table_selection import TableSelector
    from pennon.spark.lake import Lake

_ROUNDS = 2
_NO_COLUMN = int(TableColumnNotFoundError.code)
COLUMNS = "index string, tasks int, rows bigint, bytes bigint"


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
) -> JobResults:
    """Build an index on a column of tables, with one commit for each, and return one outcome for each table.

    `kind` is one of BTREE, BITMAP, LABEL_LIST, NGRAM, ZONEMAP, BLOOMFILTER, RTREE, INVERTED (or FTS), and IVF_FLAT,
    IVF_PQ, IVF_SQ, IVF_RQ, IVF_HNSW_FLAT, IVF_HNSW_PQ, IVF_HNSW_SQ. `params` are further options of Lance for that
    kind. An existing index is skipped, unless `replace` is True. If there are several tables, those without the column
    are skipped. `job_id` is stored in the commit. Raises InvalidInputError if an option is invalid.
    """
    label = name or f"{column}_idx"
    spec = IndexJobSpec(
        column,
        index_kinds.parse_kind(kind),
        label,
        index_kinds.parse_metric(metric),
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
    run = JobRun(lake, "index", COLUMNS, JobSettings(dry_run, job_id, state, progress), noted_in_tables=True)
    tables = run.find_tables(which)
    alone = len(tables) == 1
    rounds = retry_conflicts(tables, lambda left: _index_once(run, left, spec, alone=alone), _ROUNDS)
    return run.collect(rounds, len(tables))


def require_column(address: Address, which: TableSelector, column: str) -> None:
    """Raise TableColumnNotFoundError if a single table is selected and lacks a column. Several are told apart later."""
    for table, dataset in open_single(address, which):
        building.require_column(dataset, table, column)


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
) -> JobResults:
    """Add the rows that are not indexed yet to the indexes of tables, and return one outcome for each table.

    `names` selects indexes. `retrain` rebuilds them from all rows. Each table is one task, which commits through the
    catalog.
    """
    run = JobRun(lake, "index", COLUMNS, JobSettings(dry_run, job_id, state, progress))
    tables = run.find_tables(which)
    options = (None if names is None else tuple(names), retrain, dry_run)
    return run.collect(run.map_tables(_optimize_table, tables, options), len(tables))


def _index_once(
    run: JobRun, tables: Sequence[Identifier], spec: IndexJobSpec, *, alone: bool
) -> Iterator[TableOutcome]:
    plans: dict[str, IndexPlan] = {}
    for plan in run.map_tables(building.plan_index, tables, spec):
        if isinstance(plan, TableOutcome):
            is_skipped = plan.code == _NO_COLUMN and not alone
            yield skipped_outcome(plan.table, f"the table has no column {spec.column!r}") if is_skipped else plan
        elif spec.dry_run:
            details = {"index": spec.name, "tasks": len(plan.groups), "rows": plan.rows}
            yield TableOutcome(plan.table, DONE, None, None, plan.pinned.version, None, details=details)
        else:
            plans[plan.table] = plan
    yield from _build_indexes(run, spec, plans)


def _build_indexes(run: JobRun, spec: IndexJobSpec, plans: Mapping[str, IndexPlan]) -> Iterator[TableOutcome]:
    """Train, build and merge on executors; commit each table when all tables have been merged."""
    failed: dict[str, TableOutcome] = {}

    def run_stage(work: Callable[[Address, IndexTask], Any], tasks: Sequence[IndexTask]) -> dict[str, list[Any]]:
        made = {}
        for table, values, failures in run.map_parts(work, [task for task in tasks if task.table not in failed]):
            made[table] = values
            if failures:
                failed[table] = failures[0]
        return made

    models = run_stage(
        building.train_model,
        [IndexTask(plan.pinned, spec, rows=plan.rows) for plan in plans.values() if plan.shared_model],
    )
    segments = run_stage(
        building.build_segment,
        [
            IndexTask(plan.pinned, spec, fragments=group, model=next(iter(models.get(table, ())), None))
            for table, plan in plans.items()
            for group in plan.groups
        ],
    )
    merged = run_stage(
        building.merge_segments,
        [
            IndexTask(plans[table].pinned, spec, segments=tuple(some))
            for table, some in segments.items()
            # Even a single segment of a full-text index has to be merged before it can be searched.
            if len(some) > 1 or spec.kind == index_kinds.FULL_TEXT
        ],
    )
    for table, plan in plans.items():
        written = [*segments.get(table, ()), *merged.get(table, ())]
        if table in failed:
            discard_files(run.lake.address, plan.pinned, _segment_files(written))
            yield copy_with(failed[table], version_before=plan.pinned.version)
        else:
            yield _commit(run, spec, plan, written)


def _commit(run: JobRun, spec: IndexJobSpec, plan: IndexPlan, written: Sequence[Index]) -> TableOutcome:
    """Commit the last of the written segments as the index of a table: the commit point. Delete the others."""
    from lance import LanceOperation

    address, pinned, merged = run.lake.address, plan.pinned, written[-1]
    with run.timed(plan.table):
        try:
            committed = job_commits.commit(
                address,
                pinned.identifier,
                LanceOperation.CreateIndex([merged], list(plan.removed)),
                read_version=pinned.version,
                job_id=spec.job,
                expected_uri=pinned.uri,
            )
        except Exception as error:  # noqa: BLE001 - it is this table's result
            if not isinstance(error, job_commits.OutcomeUnknownError):
                discard_files(address, pinned, _segment_files(written))
            return failed_outcome(plan.table, error, version_before=pinned.version)
        discard_files(address, pinned, _segment_files(written if committed.already else written[:-1]))
    size = sum(file.size_bytes for file in merged.files or ())
    details = {"index": spec.name, "tasks": len(plan.groups), "rows": plan.rows, "bytes": size}
    return TableOutcome(plan.table, DONE, None, None, pinned.version, committed.version, details=details)


def _segment_files(segments: Sequence[Index]) -> Iterator[str]:
    for segment in segments:
        for file in segment.files or ():
            yield f"_indices/{segment.uuid}/{file.path}"


def _optimize_table(address: Address, task: TableTask) -> TableOutcome:
    """Optimize the indexes of one table, on an executor."""
    names, retrain, dry_run = task.options
    if open_latest(address, task.identifier) is None:
        return skipped_outcome(task.table, DECLARED)
    dataset = open_for_commit(address, task.identifier)
    before, rows = dataset.version, dataset.count_rows()
    wanted = [
        one
        for one in dataset.describe_indices()
        if not one.name.startswith("__") and (names is None or one.name in names)
    ]
    behind = [one.name for one in wanted if retrain or one.num_rows_indexed < rows]
    details = {"index": ", ".join(behind) or None, "tasks": 1, "rows": rows}
    if not behind:
        message = "every index has all rows" if wanted else "the table has no such index"
        return skipped_outcome(task.table, message, before, details=details)
    if dry_run:
        return TableOutcome(task.table, DONE, None, None, before, before, details=details)
    dataset.optimize.optimize_indices(index_names=behind, retrain=retrain)
    after = open_for_commit(address, task.identifier).version
    return TableOutcome(task.table, DONE, None, None, before, after, details=details)
