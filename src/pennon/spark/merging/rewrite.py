"""Changing rows of a table by Spark jobs, without rewriting the table.

Executors write changed and new rows as new fragments, and deletion vectors for old rows. One commit publishes both.
Fragments without changed rows are not touched.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
)

from pennon.errors import InternalError, InvalidInputError, translate_errors
from pennon.identifiers import Identifier, format_identifier
from pennon.spark import types
from pennon.spark.merging import deletions, row_changes
from pennon.spark.merging.row_changes import ADDRESS, IdentityPlan, RewriteTask, RowChange
from pennon.spark.reading.pinned import declared_error
from pennon.spark.tables.destination import Destination, locate_table
from pennon.spark.tables.fragment_writer import FileSettings, FragmentWriter
from pennon.spark.types.extension import plain_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from lance import LanceDataset
    from pyspark.sql import DataFrame, SparkSession

    from pennon.spark.lake import Lake
    from pennon.spark.reading.pinned import PinnedTable

EXPRESSION_ERRORS = (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
)
"""Errors that Spark raises if an expression is invalid or cannot be evaluated for a row."""
_SLOT = "__pennon_slot"
# Neighbouring rows go to one task, which reads their kept values together; large fragments go to several tasks.
_SLOT_BITS = 17
# The driver writes the deletion vectors of this many fragments faster than another job starts.
_DRIVER_FRAGMENTS = 16


@dataclass(frozen=True)
class RewriteBase:
    """The version of a table that a change is based on."""

    destination: Destination
    dataset: LanceDataset
    table: PinnedTable

    @property
    def identifier(self) -> Identifier:
        """The identifier of the table."""
        return self.destination.identifier

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table."""
        return self.dataset.schema


@dataclass(frozen=True)
class RewriteResult:
    """The result of a rewrite, whose files are written but not yet visible."""

    run: str
    added: tuple[dict[str, Any], ...] = ()
    shortened: tuple[dict[str, Any], ...] = ()
    emptied: tuple[int, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of changed rows."""
        return sum(self.counts.values())


class RowChangedTwiceError(Exception):
    """Several rows of the source would change the same row of the table."""

    def __init__(self, address: int) -> None:
        super().__init__(address)
        self.address = address


def open_base(lake: Lake, identifier: Identifier, branch: str | None = None) -> RewriteBase:
    """Return the latest version of a table or branch.

    Raises NamespaceNotFoundError, TableNotFoundError or TableBranchNotFoundError.
    """
    destination = locate_table(lake.address, identifier, branch)
    if destination.declared:
        raise declared_error(identifier)
    with translate_errors(f"Opening table {format_identifier(identifier)}"):
        dataset = destination.latest()
    return RewriteBase(destination, dataset, destination.pin_version(int(dataset.version)).identified_by(dataset))


def rewrite_rows(
    spark: SparkSession,
    base: RewriteBase,
    actions: DataFrame,
    wanted: Sequence[RowChange],
    values: Sequence[types.WritePlan],
    *,
    new_columns: Sequence[pa.Field] = (),
    repeatable: bool = False,
    ordered: bool = False,
    run: str | None = None,
) -> RewriteResult:
    """Apply actions (see `row_changes`) and return the result. A failure leaves no files.

    Raises InvalidInputError for a bad expression or value, and RowChangedTwiceError. `ordered` actions contain each row
    of the table at most once, in the order of a scan.
    """
    run = run or uuid.uuid4().hex
    plan: Any = IdentityPlan(with_columns(plain_schema(base.schema), new_columns))
    writer = FragmentWriter(
        base.destination,
        plan,
        run,
        # The ids of new columns are assigned when the operation is built.
        "overwrite" if new_columns else "append",
        base.table,
        FileSettings(data_storage_version=str(base.dataset.data_storage_version)),
    ).start_run()
    task = RewriteTask(
        base.table,
        tuple(wanted),
        tuple(values),
        writer,
        bool(base.dataset.has_stable_row_ids),
        len(base.schema),
        repeatable,
    )
    spark.addTag(run)
    try:
        reports = _run_jobs(spark, base, actions if ordered else _gather_by_address(actions), task)
    except BaseException as error:
        spark.interruptTag(run)
        _remove_files(base, run)
        if isinstance(error, EXPRESSION_ERRORS):
            raise expression_error(base, "changed", error) from error
        raise
    finally:
        spark.removeTag(run)
    return _collect_result(base, run, reports)


def expression_error(base: RewriteBase, what: str, error: BaseException) -> InvalidInputError:
    """Return an InvalidInputError with the reason from Spark, without its whole plan."""
    reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    reason, _, _ = reason.partition(" Did you mean")
    names = f" The table has {', '.join(base.schema.names)}." if "UNRESOLVED" in reason else ""
    return InvalidInputError(f"Table {format_identifier(base.identifier)} cannot be {what}: {reason}{names}")


def _run_jobs(spark: SparkSession, base: RewriteBase, actions: DataFrame, task: RewriteTask) -> list[dict[str, Any]]:
    """Change rows, then write deletion vectors, and return the reports. The driver writes vectors of a few fragments.

    Reports pass through the driver, not from one stage of a job to the next: they name files, and a repeated task names
    others. Spark aborts a job if some of its tasks have seen the first names.
    """
    table, destination, run = base.table, base.destination, task.writer.run

    def change(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return row_changes.apply_changes(task, batches)

    def write_vectors(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return deletions.write_deletion_vectors(table, destination, run, batches)

    reports, gone = deletions.split_reports(actions.mapInArrow(change, deletions.REPORT).toArrow())
    if gone.num_rows <= _DRIVER_FRAGMENTS:
        done = list(write_vectors(iter(gone.to_batches())))
    else:
        done = spark.createDataFrame(gone).mapInArrow(write_vectors, deletions.REPORT).toArrow().to_batches()
    return [*reports, *(report for batch in done for report in batch.to_pylist())]


def _gather_by_address(actions: DataFrame) -> DataFrame:
    """Return the actions with neighbouring rows in one task, in order; new rows stay in their partitions."""
    from pyspark.sql import functions as F

    slot = F.coalesce(F.shiftright(ADDRESS, _SLOT_BITS), -1 - F.spark_partition_id().cast("bigint"))
    gathered = actions.withColumn(_SLOT, slot).repartition(_SLOT).drop(_SLOT)
    return gathered.sortWithinPartitions(F.col(ADDRESS).asc_nulls_last())


def _collect_result(base: RewriteBase, run: str, reports: Sequence[dict[str, Any]]) -> RewriteResult:
    added: list[dict[str, Any]] = []
    shortened: list[dict[str, Any]] = []
    emptied: list[int] = []
    counts = dict.fromkeys((row_changes.INSERT, row_changes.UPDATE, row_changes.DELETE), 0)
    for one in reports:
        kind, content = one["kind"], one["content"]
        if kind in {row_changes.TWICE, row_changes.REFUSED}:
            _remove_files(base, run)
            if kind == row_changes.TWICE:
                raise RowChangedTwiceError(int(content))
            raise InvalidInputError(f"Table {format_identifier(base.identifier)}: {content.decode()}")
        if kind == row_changes.WRITTEN:
            written = json.loads(content)
            added += written["fragments"]
            for kind, count in written["rows"].items():
                counts[kind] += count
        elif kind == deletions.SHORTENED:
            shortened.append(json.loads(content))
        elif kind == deletions.EMPTIED:
            emptied.append(int(one["fragment"]))
        else:
            raise InternalError(f"Table {format_identifier(base.identifier)}: a task reported {kind!r}")
    return RewriteResult(run, tuple(added), tuple(shortened), tuple(emptied), counts)


def _remove_files(base: RewriteBase, run: str) -> None:
    with base.destination.files(blobs=types.has_blobs(base.schema)) as files:
        files.settle(run)


def with_columns(schema: pa.Schema, new_columns: Sequence[pa.Field]) -> pa.Schema:
    """Return a schema with more columns."""
    for one in new_columns:
        schema = schema.append(one)
    return schema
