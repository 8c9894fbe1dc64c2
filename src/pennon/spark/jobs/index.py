"""Indexes: scalar, full text and vector, built on executors.

A table's fragments are dealt out to tasks, each of which builds a segment of the index; another task merges them, and
the driver commits the one index that comes of it. The segments of a vector index share a model, which a task trains
first. New rows come into an index by `optimize_indexes`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from pennon.errors import ConcurrentModificationError, InternalError, TableColumnNotFoundError
from pennon.spark.commits import committing
from pennon.spark.jobs import index_building as building
from pennon.spark.jobs.asking import opened, through
from pennon.spark.jobs.index_building import IndexWish, Task, ToBuild
from pennon.spark.jobs.leftovers import discard
from pennon.spark.jobs.outcome import DONE, SKIPPED, Outcome, as_frame, failure
from pennon.spark.jobs.running import DECLARED, Run, Settings, TableWork
from pennon.spark.jobs.spreading import spread

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lance.dataset import Index
    from pyspark.sql import DataFrame

    from pennon.identifiers import Identifier
    from pennon.spark.address import Address
    from pennon.spark.jobs.targets import Which
    from pennon.spark.lake import Lake

_ROUNDS = 2
COLUMNS = (("index", "string"), ("tasks", "int"), ("rows", "bigint"), ("bytes", "bigint"))


def index(
    lake: Lake,
    which: Which,
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
    """Build an index on a column of tables, one commit each; one that is there already is skipped unless replaced.

    `kind` is one of BTREE, BITMAP, LABEL_LIST, NGRAM, ZONEMAP, BLOOMFILTER, RTREE, INVERTED (or FTS), and IVF_FLAT,
    IVF_PQ, IVF_SQ, IVF_RQ, IVF_HNSW_FLAT, IVF_HNSW_PQ, IVF_HNSW_SQ. `params` are further options of Lance for that
    kind. Among several tables, those without the column are skipped. A job id is noted in the commit.
    """
    wanted = kind.upper().replace("-", "_")
    label = name or f"{column}_idx"
    wish = IndexWish(
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
    committing.check_job(wish.job)
    run = Run.begin(lake, "index", Settings(dry_run, job_id, state, progress), noted_in_tables=True)
    tables = run.targets(which)
    outcomes = run.take(_indexed(run, tables, wish), len(tables))
    return as_frame(lake.spark, outcomes, COLUMNS)


def optimize_indexes(
    lake: Lake,
    which: Which = None,
    *,
    names: Sequence[str] | None = None,
    retrain: bool = False,
    dry_run: bool = False,
    job_id: str | None = None,
    state: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> DataFrame:
    """Bring the rows that are in no index yet into the indexes of tables, all or those of some names.

    `retrain` builds them anew from all rows. Each table is one task, which commits through the catalog itself.
    """
    run = Run.begin(lake, "index", Settings(dry_run, job_id, state, progress))
    tables = run.targets(which)
    asked = (None if names is None else tuple(names), retrain, dry_run)
    outcomes = run.take(run.on_executors(_optimized, tables, asked), len(tables))
    return as_frame(lake.spark, outcomes, COLUMNS)


def _indexed(run: Run, tables: Sequence[Identifier], wish: IndexWish) -> Iterator[Outcome]:
    """Go over the tables, and once more over those at which another writer was first."""
    left = list(tables)
    for attempt in range(_ROUNDS):
        again: list[Identifier] = []
        for identifier, outcome in _one_round(run, left, wish, alone=len(tables) == 1):
            if outcome.code == ConcurrentModificationError("").code and attempt < _ROUNDS - 1:
                again.append(identifier)
            else:
                yield outcome
        left = again
        if not left:
            return


def _one_round(
    run: Run, tables: Sequence[Identifier], wish: IndexWish, *, alone: bool
) -> Iterator[tuple[Identifier, Outcome]]:
    to_build: dict[str, ToBuild] = {}
    items = [TableWork(identifier, wish) for identifier in tables]
    for answer in spread(run.lake.spark, run.lake.address, building.looked_at, items, subject=run.subject):
        identifier, value = answer.item.identifier, answer.value
        if isinstance(answer.error, TableColumnNotFoundError) and not alone:
            yield identifier, Outcome(answer.item.table, SKIPPED, f"the table has no column {wish.column!r}")
        elif value is None:
            yield identifier, failure(answer.item.table, answer.error or InternalError("no answer"))
        elif isinstance(value, Outcome):
            yield identifier, value
        elif wish.dry_run:
            did = {"index": wish.name, "tasks": len(value.groups), "rows": value.rows}
            yield identifier, Outcome(value.table, DONE, None, None, value.pinned.version, None, did=did)
        else:
            to_build[value.table] = value
    for table, outcome in _Construction(run, wish, to_build).outcomes():
        yield to_build[table].pinned.identifier, outcome


class _Construction:
    """The indexes of one round: trained, built and merged table by table, as far as tables wait for each other not."""

    def __init__(self, run: Run, wish: IndexWish, to_build: Mapping[str, ToBuild]) -> None:
        self._run, self._wish, self._to_build = run, wish, to_build
        self._seconds = {table: one.seconds for table, one in to_build.items()}
        self._made: dict[str, list[Index]] = {table: [] for table in to_build}

    def outcomes(self) -> Iterator[tuple[str, Outcome]]:
        """Give what came of each table."""
        models: dict[str, building.Model] = {}
        failed: dict[str, Exception] = {}
        training = [self._task(one, rows=one.rows) for one in self._to_build.values() if one.shared_model]
        for table, model, error in self._spread(building.trained, training):
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
        for table, made, error in self._spread(building.built, tasks):
            if error is not None:
                failed[table] = error
            else:
                self._note(table, *made)
                finished[table].append(made[0])
        merging = [
            self._task(self._to_build[table], segments=tuple(segments))
            for table, segments in finished.items()
            # Of a full-text index, even a single segment can be searched only once it was merged.
            if table not in failed and (len(segments) > 1 or self._wish.kind == "INVERTED")
        ]
        for table, made, error in self._spread(building.merged, merging):
            if error is not None:
                failed[table] = error
            else:
                self._note(table, *made)
                finished[table] = [made[0]]
        for table, one in self._to_build.items():
            if table in failed:
                discard(self._run.lake.address, one.pinned, _paths(self._made[table]))
                yield table, failure(table, failed[table], version_before=one.pinned.version)
            else:
                yield table, self._committed(one, finished[table][0])

    def _task(self, one: ToBuild, **what: Any) -> Task:
        return Task(one.pinned, self._wish, **what)

    def _spread(
        self, work: Callable[[Address, Task], Any], tasks: Sequence[Task]
    ) -> Iterator[tuple[str, Any, Exception | None]]:
        lake = self._run.lake
        for answer in spread(lake.spark, lake.address, work, tasks, subject=self._run.subject):
            error = answer.error or (InternalError("no answer") if answer.value is None else None)
            yield answer.item.table, answer.value, error

    def _note(self, table: str, segment: Index, seconds: float) -> None:
        self._made[table].append(segment)
        self._seconds[table] += seconds

    def _committed(self, one: ToBuild, segment: Index) -> Outcome:
        """Commit the index of a table: the commit point. Segments that went into it, or were in vain, are deleted."""
        from lance import LanceOperation

        begun = time.monotonic()
        table, before = one.table, one.pinned.version
        made = self._made[table]
        operation = LanceOperation.CreateIndex([segment], list(one.removed))
        try:
            committed = committing.commit(
                self._run.lake.address,
                one.pinned.identifier,
                operation,
                read_version=before,
                job_id=self._wish.job,
                expected_uri=one.pinned.uri,
            )
        except committing.OutcomeUnknownError as error:
            return failure(table, error, version_before=before)
        except Exception as error:  # noqa: BLE001 - it is this table's result
            discard(self._run.lake.address, one.pinned, _paths(made))
            return failure(table, error, version_before=before)
        vain = [other for other in made if committed.already or other.uuid != segment.uuid]
        discard(self._run.lake.address, one.pinned, _paths(vain))
        did = {
            "index": self._wish.name,
            "tasks": len(one.groups),
            "rows": one.rows,
            "bytes": sum(file.size_bytes for file in segment.files or ()),
        }
        seconds = round(self._seconds[table] + time.monotonic() - begun, 3)
        return Outcome(table, DONE, None, None, before, committed.version, seconds, did)


def _paths(segments: Any) -> Iterator[str]:
    for segment in segments:
        for file in segment.files or ():
            yield f"_indices/{segment.uuid}/{file.path}"


def _optimized(address: Address, work: TableWork) -> Outcome:
    """Optimize the indexes of one table on an executor."""
    begun = time.monotonic()
    names, retrain, dry_run = work.options
    if opened(address, work.identifier) is None:
        return Outcome(work.table, SKIPPED, DECLARED)
    dataset = through(address, work.identifier)
    before = dataset.version
    wanted = [
        one
        for one in dataset.describe_indices()
        if not one.name.startswith("__") and (names is None or one.name in names)
    ]
    rows = dataset.count_rows()
    behind = [one for one in wanted if retrain or one.num_rows_indexed < rows]
    did = {"index": ", ".join(one.name for one in behind) or None, "tasks": 1, "rows": rows}
    if not behind:
        message = "every index has all rows" if wanted else "the table has no such index"
        return Outcome(work.table, SKIPPED, message, None, before, before, round(time.monotonic() - begun, 3), did)
    if not dry_run:
        dataset.optimize.optimize_indices(index_names=[one.name for one in behind], retrain=retrain)
    after = before if dry_run else through(address, work.identifier).version
    return Outcome(work.table, DONE, None, None, before, after, round(time.monotonic() - begun, 3), did)
