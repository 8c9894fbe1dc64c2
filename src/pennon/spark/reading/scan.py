"""Reading tables on executors: what to read, how it is cut, and the task that reads it."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from pennon.errors import InvalidInputError, TableColumnNotFoundError
from pennon.identifiers import format_identifier
from pennon.spark import types
from pennon.spark.address import Address
from pennon.spark.reading.dense_vectors import DenseVectors, find_dense_vectors
from pennon.spark.reading.pinned import LATEST, PinnedTable, VersionSelector, pin
from pennon.spark.reading.splits import FragmentSize, Split, fragment_sizes, plan_splits
from pennon.spark.session_settings import classic_context
from pennon.spark.types.extension import plain_schema
from pennon.spark.workers import freeze_imports, silence_closed_connections
from pennon.table.requirements import require_bounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pennon.identifiers import Identifier
    from pennon.spark.reading.partial_aggregates import PartialAggregates

_BATCH_BYTES = 16 * 1024 * 1024
_BATCH_ROWS = 65_536
# What the driver reads itself: a Spark job costs more than these rows.
DRIVER_ROWS = 4_096
# Columns of this size are aggregated by the driver, if few groups come of them.
_DRIVER_BYTES = 32 * 1024 * 1024
# A table of this size is counted by the driver alone; Lance uses all of its cores.
_DRIVER_COUNT_ROWS = 20_000_000
_VARIABLE_WIDTH = 32
# Spark takes what a Python function gives to have as many rows as what it got, and broadcasts what is small in a join.
# So a large table is announced by numbers, of which all but one for each split are left out again: as one of its size,
# or of this many times of what would still be broadcast, as a number takes its time too.
_BEYOND_BROADCAST = 8
_ALWAYS_LARGE = 256 * 1024 * 1024
_NUMBER_BYTES = 8
# As Spark's settings give sizes.
_SIZE = re.compile(r"(-?\d+)\s*([kmgtp])?b?")
ROW_ADDRESS = "_rowaddr"
# As Lance's plans say that an index is asked, and that no row is looked at in order to leave it out.
_BY_INDEX, _WITHOUT_LOOKING = "ScalarIndexQuery", "refine_filter=--"
_CORES: WeakKeyDictionary[SparkSession, int] = WeakKeyDictionary()


@dataclass(frozen=True)
class Scan:
    """What to read of a table: a version, columns (all if None), rows that meet a Lance predicate, at most `limit`."""

    table: PinnedTable
    schema: pa.Schema
    fragments: tuple[FragmentSize, ...]
    columns: tuple[str, ...] | None = None
    where: str | None = None
    limit: int | None = None
    row_address: bool = False
    indexed: bool = False
    """Whether an index finds the rows; only the process that plans it knows."""

    @property
    def rows(self) -> int:
        """Count the rows on storage, those that are marked as deleted included."""
        return sum(fragment.rows for fragment in self.fragments)

    @property
    def bytes(self) -> int:
        """Estimate what is read: the share of the files' bytes that the wanted columns take."""
        return int(sum(fragment.bytes for fragment in self.fragments) * self._share())

    def projected_schema(self) -> pa.Schema:
        """Give the Arrow schema of what is read, as the table has it."""
        fields = list(self.schema) if self.columns is None else [self.schema.field(name) for name in self.columns]
        if self.row_address:
            fields.append(pa.field(ROW_ADDRESS, pa.uint64(), nullable=False))
        return pa.schema(fields)

    def spark_schema(self) -> StructType:
        """Give the schema that Spark sees."""
        from pyspark.sql.types import LongType, StructField, StructType

        if not self.row_address:
            return types.spark_schema(self.projected_schema())
        shown_schema = types.spark_schema(replace(self, row_address=False).projected_schema())
        return StructType([*shown_schema.fields, StructField(ROW_ADDRESS, LongType(), nullable=False)])

    def read_schema(self) -> pa.Schema:
        """Give the Arrow schema in which batches are handed to Spark."""
        if not self.row_address:
            return types.read_schema(self.projected_schema())
        shown_schema = types.read_schema(replace(self, row_address=False).projected_schema())
        return shown_schema.append(pa.field(ROW_ADDRESS, pa.int64(), nullable=False))

    def splits(self, parallelism: int, *, max_bytes: int | None = None) -> list[Split]:
        """Cut the scan into tasks."""
        share = self._share()
        if max_bytes is None:
            return plan_splits(self.fragments, parallelism=parallelism, share=share)
        return plan_splits(self.fragments, parallelism=parallelism, share=share, max_bytes=max_bytes)

    def _share(self) -> float:
        return _row_bytes(self.projected_schema()) / _row_bytes(self.schema)


def plan_scan(
    address: Address,
    identifier: Identifier,
    selector: VersionSelector = LATEST,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    limit: int | None = None,
    row_address: bool = False,
) -> Scan:
    """Resolve a table once, for all tasks of a query; a column that it does not have raises 12, a bad predicate 13."""
    table, dataset = pin(address, identifier, selector)
    return scan_pinned(
        table,
        dataset,
        columns=columns,
        where=where,
        limit=limit,
        row_address=row_address,
    )


def scan_pinned(
    table: PinnedTable,
    dataset: Any = None,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    limit: int | None = None,
    row_address: bool = False,
) -> Scan:
    """Scan a version that is already pinned, a staged one too."""
    dataset = table.open() if dataset is None else dataset
    table = table if table.content is not None else table.identified_by(dataset)
    # In this form it reaches processes that have not imported Lance.
    schema: pa.Schema = plain_schema(dataset.schema)
    if columns is not None:
        unknown = [name for name in columns if name not in schema.names]
        if unknown:
            raise TableColumnNotFoundError(
                f"Table {format_identifier(table.identifier)} has no column {', '.join(map(repr, unknown))}; it has "
                f"{', '.join(schema.names)}"
            )
    if limit is not None and limit < 0:
        raise InvalidInputError(
            f"The limit of a read of table {format_identifier(table.identifier)} is negative: {limit}"
        )
    plan = "" if where is None else check_predicate(dataset, table.identifier, where)
    return Scan(
        table,
        schema,
        fragment_sizes(dataset),
        None if columns is None else tuple(columns),
        where,
        limit,
        row_address,
        _is_answered_by_index(dataset, plan),
    )


def check_predicate(dataset: Any, identifier: Identifier, where: str) -> str:
    """Give Lance's plan for a predicate; raise 13 if Lance does not understand it."""
    require_bounded(identifier, where)
    try:
        return str(dataset.scanner(columns=[], filter=where, with_row_id=True).explain_plan())
    except (ValueError, OSError) as error:
        raise InvalidInputError(f"Bad predicate for table {format_identifier(identifier)}: {where}: {error}") from error


def _is_answered_by_index(dataset: Any, plan: str) -> bool:
    """Tell whether an index alone tells which rows meet a predicate, in all of the table's fragments."""
    if _BY_INDEX not in plan or _WITHOUT_LOOKING not in plan:
        return False
    fragments = {fragment.fragment_id for fragment in dataset.get_fragments()}
    return all(
        fragments <= {number for segment in index.segments for number in segment.fragment_ids}
        for index in dataset.describe_indices()
    )


def to_dataframe(
    spark: SparkSession, wanted: Scan, *, parallelism: int | None = None, partials: PartialAggregates | None = None
) -> DataFrame:
    """Give what a scan reads as a DataFrame, planned here and now, so that Spark has nothing left to plan.

    Results that are known to be small, and what an index finds if it is little, are read by the driver; all others by
    tasks, one for each split. With `partials`, the DataFrame has these aggregates of the rows.
    """
    schema = wanted.spark_schema() if partials is None else partials.spark_schema(wanted.spark_schema())
    here = _read_on_driver(wanted, partials)
    if here is not None:
        return spark.createDataFrame(pa.Table.from_batches(here) if here else [], schema)
    splits = wanted.splits(parallelism or count_cores(spark))
    target = wanted.read_schema()
    dense = (
        find_dense_vectors(wanted.table, wanted.projected_schema(), wanted.bytes)
        if partials is None
        else DenseVectors()
    )

    weight = _numbers_per_split(min(wanted.bytes, _announced_bytes(spark)), len(splits)) if partials is None else 1

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark may have enough rows before it has passed the number of a split.
        silence_closed_connections()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows = read_split(wanted, splits[number // weight], target)
                yield from map(dense.check, rows) if partials is None else partials.aggregate(rows)

    numbers = spark.range(0, len(splits) * weight, 1, len(splits))
    rows = numbers if weight == 1 else numbers.where(f"id & {weight - 1} = 0")
    frame = dense.restore_schema(rows.mapInArrow(read, dense.mark_non_null(schema)), schema)
    return frame if wanted.limit is None else frame.limit(wanted.limit)


def _announced_bytes(spark: SparkSession) -> int:
    """Return a size that Spark surely does not broadcast."""
    # Without a default of ours: PySpark would return that one wherever nothing is set, instead of Spark's own.
    setting = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    size = _SIZE.fullmatch(str(setting).strip().lower())
    if size is None:
        return _ALWAYS_LARGE
    return _BEYOND_BROADCAST * max(int(size[1]), 0) * int(1024 ** " kmgtp".index(size[2] or " "))


def _numbers_per_split(size: int, splits: int) -> int:
    """Return how many numbers, a power of two, stand for a split: Spark takes the table for this large at least.

    Spark takes what a Python function makes of numbers to be as large as these.
    """
    numbers = size // _NUMBER_BYTES // splits
    return 1 << max(numbers - 1, 0).bit_length()


def read_split(wanted: Scan, split: Split, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Read the rows of one split, as Spark wants them."""
    silence_closed_connections()
    left = wanted.limit
    scanner = _scanner(wanted, split)
    freeze_imports()
    for batch in scanner.to_batches():
        if not batch.num_rows:
            continue
        kept = batch if left is None else batch.slice(0, left)
        for piece in types.split_batch(kept):
            yield types.to_spark(piece, target)
        if left is not None:
            left -= kept.num_rows
            if left <= 0:
                return


def count_rows(spark: SparkSession, wanted: Scan) -> int:
    """Count rows exactly: from metadata where nothing is filtered, else by reading what the predicate needs."""
    dataset = wanted.table.open()
    if wanted.where is None or wanted.rows <= _DRIVER_COUNT_ROWS:
        return int(dataset.count_rows(wanted.where))
    splits = wanted.splits(count_cores(spark))

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows = _scanner(replace(wanted, columns=()), splits[number]).count_rows()
                yield pa.record_batch({"rows": pa.array([rows], pa.int64())})

    frame = spark.range(0, len(splits), 1, len(splits)).mapInArrow(counted, "rows bigint")
    return sum(row.rows for row in frame.collect())


def count_cores(spark: SparkSession) -> int:
    """Tell how many tasks can run at once, as far as the session says."""
    context = classic_context(spark)
    if context is not None:
        return int(context.defaultParallelism)
    if spark not in _CORES:
        # A client of Spark Connect has no context to ask; it sees into how many partitions Spark cuts numbers.
        row = spark.range(_BATCH_ROWS).selectExpr("spark_partition_id() AS part").agg({"part": "max"}).first()
        _CORES[spark] = 1 if row is None else 1 + int(row[0])
    return _CORES[spark]


def serialize_scan(wanted: Scan) -> str:
    """Write a scan as text, for an option of the data source."""
    table = wanted.table
    content = {
        "identifier": list(table.identifier),
        "uri": table.uri,
        "version": table.version,
        "branch": table.branch,
        "storage_options": table.storage_options,
        "content": table.content,
        "catalog": None if table.address is None else [table.address.impl, table.address.properties],
        "schema": base64.b64encode(wanted.schema.serialize().to_pybytes()).decode(),
        "fragments": [(one.id, one.rows, one.bytes) for one in wanted.fragments],
        "columns": wanted.columns,
        "where": wanted.where,
        "limit": wanted.limit,
    }
    return base64.b64encode(zlib.compress(json.dumps(content).encode())).decode()


def parse_scan(text: str) -> Scan:
    """Read what `packed` wrote."""
    content = json.loads(zlib.decompress(base64.b64decode(text)))
    options = tuple((key, value) for key, value in content["storage_options"])
    catalog = content["catalog"]
    address = None if catalog is None else Address(catalog[0], tuple((key, value) for key, value in catalog[1]))
    table = PinnedTable(
        tuple(content["identifier"]),
        content["uri"],
        content["version"],
        content["branch"],
        options,
        address,
        content["content"],
    )
    return Scan(
        table,
        pa.ipc.read_schema(pa.py_buffer(base64.b64decode(content["schema"]))),
        tuple(FragmentSize(*one) for one in content["fragments"]),
        None if content["columns"] is None else tuple(content["columns"]),
        content["where"],
        content["limit"],
    )


def _read_on_driver(wanted: Scan, partials: PartialAggregates | None) -> list[pa.RecordBatch] | None:
    """Read what is known to be small, or what may be; None if it is not."""
    few = min(wanted.limit, wanted.rows) if wanted.limit is not None else wanted.rows
    if few > DRIVER_ROWS:
        if not (wanted.indexed if partials is None else wanted.bytes <= _DRIVER_BYTES):
            return None
        if partials is None:
            # By an index, a few rows are found as fast as it is found that there are more.
            wanted = replace(wanted, limit=DRIVER_ROWS + 1)
    everything = Split(tuple(fragment.id for fragment in wanted.fragments))
    rows = read_split(wanted, everything, wanted.read_schema()) if wanted.fragments else iter(())
    batches: list[pa.RecordBatch] = []
    for batch in rows if partials is None else partials.aggregate(rows):
        batches.append(batch)
        if sum(one.num_rows for one in batches) > DRIVER_ROWS:
            return None
    return batches


def _scanner(wanted: Scan, split: Split) -> Any:
    dataset = wanted.table.open()
    conditions = [f"({one})" for one in (split.condition(), wanted.where) if one is not None]
    projected = wanted.projected_schema()
    return dataset.scanner(
        columns=[name for name in projected.names if name != ROW_ADDRESS],
        filter=" AND ".join(conditions) or None,
        fragments=[fragment for number in split.fragments if (fragment := dataset.get_fragment(number)) is not None],
        with_row_address=wanted.row_address,
        batch_size=max(1, min(_BATCH_ROWS, int(_BATCH_BYTES / _row_bytes(projected)))),
        limit=wanted.limit,
        blob_handling="all_binary" if any(types.is_blob(field) for field in projected) else None,
    )


def _row_bytes(schema: pa.Schema) -> float:
    """Estimate the bytes of a row."""
    return sum(_value_bytes(field.type) for field in schema) or 1


def _value_bytes(kind: pa.DataType) -> float:
    if pa.types.is_fixed_size_list(kind):
        return float(kind.list_size) * _value_bytes(kind.value_type)
    if pa.types.is_struct(kind):
        return sum(_value_bytes(kind.field(number).type) for number in range(kind.num_fields))
    try:
        return max(float(kind.bit_width) / 8, 0.125)
    except ValueError:
        return _VARIABLE_WIDTH
