"""Changing rows of a table by Spark jobs, without rewriting the table.

Executors write changed and new rows as new fragments, and deletion vectors for old rows. One commit publishes both.
Fragments without changed rows are not touched.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import errors as spark_errors
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from pennon.errors import InternalError, InvalidInputError, TableColumnNotFoundError, translate_errors
from pennon.identifiers import Identifier, format_identifier
from pennon.spark import types
from pennon.spark.merging import deletions, row_changes
from pennon.spark.merging.clauses import DELETE, INSERT, UPDATE
from pennon.spark.merging.row_changes import ADDRESS, RewriteTask, RowChange, RowChangedTwiceError
from pennon.spark.quoting import find_name
from pennon.spark.reading.pinned import declared_error
from pennon.spark.tables.destination import Destination, locate_table
from pennon.spark.tables.fragment_writer import FileSettings, FragmentWriter
from pennon.spark.types.extension import plain_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lance import LanceDataset
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from pennon.spark.address import Address
    from pennon.spark.reading.pinned import PinnedTable

EXPRESSION_ERRORS = (
    spark_errors.AnalysisException,
    spark_errors.ArithmeticException,
    spark_errors.ArrayIndexOutOfBoundsException,
    spark_errors.DateTimeException,
    spark_errors.NumberFormatException,
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
    def name(self) -> str:
        """The name of the table in messages."""
        return format_identifier(self.identifier)

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the table. Lance converts the whole schema each time it is asked."""
        return self.dataset.schema

    def resolve_columns(self, names: Iterable[str], *, case_sensitive: bool) -> list[str]:
        """Return the columns with these names; raises an error if one does not exist or is named twice."""
        own: list[str] = self.schema.names
        found: list[str] = []
        for name in names:
            column = find_name(name, own, case_sensitive=case_sensitive)
            if column is None:
                raise TableColumnNotFoundError(
                    f"Table {self.name} has no column {name!r} to set; it has {', '.join(own)}"
                )
            if column in found:
                raise InvalidInputError(f"Column {column!r} of table {self.name} is set twice")
            found.append(column)
        return found

    def plan_value(self, field: pa.Field, given: DataType) -> types.WriteTarget:
        """Return how values of a Spark type are cast to a column; raises InvalidInputError if they do not fit."""
        incoming = StructType([StructField(field.name, given)])
        return types.plan_write(incoming, pa.schema([field]), into=f"table {self.name}").targets[0]


@dataclass(frozen=True)
class RowActions:
    """The actions of a change, one for each row of `frame` (see `row_changes`)."""

    frame: DataFrame
    changes: tuple[RowChange, ...]
    targets: tuple[types.WriteTarget, ...] = ()
    """How each value is cast to the type of its column."""
    new_columns: tuple[pa.Field, ...] = ()
    repeatable: bool = False
    """Whether several rows of the source may change the same row, because all of them delete it."""
    ordered: bool = False
    """Whether the frame contains each row of the table at most once, in the order of a scan."""


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


def open_base(address: Address, identifier: Identifier, branch: str | None = None) -> RewriteBase:
    """Return the latest version of a table or branch.

    Raises NamespaceNotFoundError, TableNotFoundError or TableBranchNotFoundError.
    """
    destination = locate_table(address, identifier, branch)
    if destination.declared:
        raise declared_error(identifier)
    with translate_errors(f"Opening table {format_identifier(identifier)}"):
        dataset = destination.latest()
    return RewriteBase(destination, dataset, destination.pin_version(int(dataset.version)).identified_by(dataset))


def rewrite_rows(spark: SparkSession, base: RewriteBase, actions: RowActions, run: str | None = None) -> RewriteResult:
    """Apply actions and return the result. A failure leaves no files.

    Raises InvalidInputError for a bad expression or value, and RowChangedTwiceError.
    """
    run = run or uuid.uuid4().hex
    writer = FragmentWriter(
        base.destination,
        types.WritePlan(with_columns(plain_schema(base.schema), actions.new_columns)),
        run,
        # The ids of new columns are assigned when the operation is built.
        "overwrite" if actions.new_columns else "append",
        base.table,
        FileSettings(data_storage_version=str(base.dataset.data_storage_version)),
    ).start_run()
    task = RewriteTask(
        base.table,
        actions.changes,
        actions.targets,
        writer,
        bool(base.dataset.has_stable_row_ids),
        len(base.schema),
        actions.repeatable,
    )
    spark.addTag(run)
    try:
        frame = actions.frame if actions.ordered else _gather_by_address(actions.frame)
        reports = _run_jobs(spark, base, frame, task)
    except BaseException as error:
        spark.interruptTag(run)
        _remove_files(base, run)
        if isinstance(error, EXPRESSION_ERRORS):
            raise expression_error(base, "changed", error) from error
        raise
    finally:
        spark.removeTag(run)
    return _collect_result(base, run, reports)


def expression_error(
    base: RewriteBase, what: str, error: BaseException, source: Sequence[str] = ()
) -> InvalidInputError:
    """Return an InvalidInputError with the reason from Spark, without its whole plan. `source` are further columns."""
    reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    reason, _, _ = reason.partition(" Did you mean")
    names = ""
    if "UNRESOLVED" in reason:
        others = f", and the source has {', '.join(source)}" if source else ""
        names = f" The table has {', '.join(base.schema.names)}{others}."
    return InvalidInputError(f"Table {base.name} cannot be {what}: {reason}{names}")


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
    slot = F.coalesce(F.shiftright(ADDRESS, _SLOT_BITS), -1 - F.spark_partition_id().cast("bigint"))
    gathered = actions.withColumn(_SLOT, slot).repartition(_SLOT).drop(_SLOT)
    return gathered.sortWithinPartitions(F.col(ADDRESS).asc_nulls_last())


def _collect_result(base: RewriteBase, run: str, reports: Sequence[dict[str, Any]]) -> RewriteResult:
    added: list[dict[str, Any]] = []
    shortened: list[dict[str, Any]] = []
    emptied: list[int] = []
    counts = dict.fromkeys((INSERT, UPDATE, DELETE), 0)
    for one in reports:
        kind, content = one["kind"], one["content"]
        if kind in {row_changes.TWICE, row_changes.REFUSED}:
            _remove_files(base, run)
            if kind == row_changes.TWICE:
                raise RowChangedTwiceError(int(content))
            raise InvalidInputError(f"Table {base.name}: {content.decode()}")
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
            raise InternalError(f"Table {base.name}: a task reported {kind!r}")
    return RewriteResult(run, tuple(added), tuple(shortened), tuple(emptied), counts)


def _remove_files(base: RewriteBase, run: str) -> None:
    with base.destination.files(blobs=types.has_blobs(base.schema)) as files:
        files.settle(run)


def with_columns(schema: pa.Schema, new_columns: Sequence[pa.Field]) -> pa.Schema:
    """Return a schema with more columns."""
    for one in new_columns:
        schema = schema.append(one)
    return schema
