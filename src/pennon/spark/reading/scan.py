"""Scans of tables on executors: what to read, the splits, and the task that reads a split."""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from pennon.errors import InvalidInputError, TableColumnNotFoundError
from pennon.identifiers import format_identifier
from pennon.spark import types
from pennon.spark.address import Address
from pennon.spark.reading.dense_vectors import DenseVectors, find_dense_vectors
from pennon.spark.reading.pinned import LATEST, PinnedTable, VersionOptions, pin
from pennon.spark.reading.splits import FragmentSize, Split, fragment_sizes, plan_splits
from pennon.spark.reading.unscaled_decimals import find_unscaled_decimals
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
# The driver reads this many rows itself: a Spark job would cost more.
DRIVER_ROWS = 4_096
# The driver aggregates columns of this size, if there are few groups.
_DRIVER_BYTES = 32 * 1024 * 1024
# The driver counts the rows of a table of this size; Lance uses all of its cores.
_DRIVER_COUNT_ROWS = 20_000_000
_VARIABLE_WIDTH = 32
# Spark assumes that a Python function returns as many rows as it gets, and broadcasts small inputs of a join. So the
# function gets numbers that are as large as the table, and a filter keeps only one for each split. Numbers take time
# too, so their size is at most this many times the threshold for broadcasts.
_BEYOND_BROADCAST = 8
_LARGE_THRESHOLD = 32 * 1024 * 1024  # if the setting cannot be parsed
_NUMBER_BYTES = 8
# What a row takes in Spark's memory besides its values, as Spark estimates it.
_ROW_OVERHEAD = 8
# The rows that a predicate keeps are counted before a join is planned, if the table has at most this many rows.
_COUNTED_ROWS = 2_000_000
_KEPT_COUNTS = 256
# The frames of numbers that represent splits. Spark needs milliseconds to analyze each.
_KEPT_FRAMES = 64
# Sizes in Spark's settings.
_SIZE = re.compile(r"(-?\d+)\s*([kmgtp])?b?")
ROW_ADDRESS = "_rowaddr"
# The parts of Lance's plans that show that an index is used, and that no row needs to be read for the filter.
_BY_INDEX, _WITHOUT_LOOKING = "ScalarIndexQuery", "refine_filter=--"
_CORES: WeakKeyDictionary[SparkSession, int] = WeakKeyDictionary()


@dataclass(frozen=True)
class Scan:
    """What to read of a table: a version, columns (None for all), a Lance predicate, and at most `limit` rows."""

    table: PinnedTable
    schema: pa.Schema
    fragments: tuple[FragmentSize, ...]
    columns: tuple[str, ...] | None = None
    where: str | None = None
    limit: int | None = None
    row_address: bool = False
    indexed: bool = False
    """Whether an index finds the rows; it is known only in the process that plans the scan."""

    @property
    def rows(self) -> int:
        """The number of rows on storage, including rows that are marked as deleted."""
        return sum(fragment.rows for fragment in self.fragments)

    @property
    def bytes(self) -> int:
        """An estimate of the bytes to read: the share of the projected columns in the bytes of the files."""
        return int(sum(fragment.bytes for fragment in self.fragments) * self._share())

    @property
    def memory_bytes(self) -> int:
        """An estimate of the size of the result in Spark's memory. Files may be much smaller: they are compressed."""
        rows = self.rows if self.limit is None else min(self.limit, self.rows)
        in_memory = _ROW_OVERHEAD + _row_bytes(self.projected_schema())
        return int(rows * max(self.bytes / max(self.rows, 1), in_memory))

    def projected_schema(self) -> pa.Schema:
        """Return the Arrow schema of the columns to read, with the types of the table."""
        fields = list(self.schema) if self.columns is None else [self.schema.field(name) for name in self.columns]
        if self.row_address:
            fields.append(pa.field(ROW_ADDRESS, pa.uint64(), nullable=False))
        return pa.schema(fields)

    def spark_schema(self) -> StructType:
        """Return the schema for Spark."""
        from pyspark.sql.types import LongType, StructField, StructType

        if not self.row_address:
            return types.spark_schema(self.projected_schema())
        shown_schema = types.spark_schema(replace(self, row_address=False).projected_schema())
        return StructType([*shown_schema.fields, StructField(ROW_ADDRESS, LongType(), nullable=False)])

    def read_schema(self) -> pa.Schema:
        """Return the Arrow schema of the batches for Spark."""
        if not self.row_address:
            return types.read_schema(self.projected_schema())
        shown_schema = types.read_schema(replace(self, row_address=False).projected_schema())
        return shown_schema.append(pa.field(ROW_ADDRESS, pa.int64(), nullable=False))

    def splits(self, parallelism: int, *, max_bytes: int | None = None) -> list[Split]:
        """Return the splits of the scan, one for each task."""
        share = self._share()
        if max_bytes is None:
            return plan_splits(self.fragments, parallelism=parallelism, share=share)
        return plan_splits(self.fragments, parallelism=parallelism, share=share, max_bytes=max_bytes)

    def _share(self) -> float:
        return _row_bytes(self.projected_schema()) / _row_bytes(self.schema)


def plan_scan(
    address: Address,
    identifier: Identifier,
    selector: VersionOptions = LATEST,
    *,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    limit: int | None = None,
    row_address: bool = False,
) -> Scan:
    """Return a scan of a table, resolved once for all tasks of a query.

    Raises the errors of `pin`, TableColumnNotFoundError for an unknown column, InvalidInputError for a bad predicate.
    """
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
    """Return a scan of a pinned version, which may be a staged one."""
    dataset = table.open() if dataset is None else dataset
    table = table if table.content is not None else table.identified_by(dataset)
    # The plain form can be unpickled in processes that have not imported Lance.
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
    """Return Lance's plan for a predicate; raises InvalidInputError if Lance cannot parse it."""
    require_bounded(identifier, where)
    try:
        return str(dataset.scanner(columns=[], filter=where, with_row_id=True).explain_plan())
    except (ValueError, OSError) as error:
        raise InvalidInputError(f"Bad predicate for table {format_identifier(identifier)}: {where}: {error}") from error


def _is_answered_by_index(dataset: Any, plan: str) -> bool:
    """Return True if an index finds the rows of a predicate in all fragments, without reading columns."""
    if _BY_INDEX not in plan or _WITHOUT_LOOKING not in plan:
        return False
    fragments = {fragment.fragment_id for fragment in dataset.get_fragments()}
    return all(
        fragments <= {number for segment in index.segments for number in segment.fragment_ids}
        for index in dataset.describe_indices()
    )


def to_dataframe(
    spark: SparkSession,
    scan: Scan,
    *,
    parallelism: int | None = None,
    partials: PartialAggregates | None = None,
    joined: bool = False,
) -> DataFrame:
    """Return a DataFrame of a scan, which is planned now.

    The driver reads results that are known to be small, and small results of an index. Tasks read all others, one for
    each split. With `partials`, the DataFrame contains these aggregates of the rows. If the rows are `joined` with
    others, Spark learns how many of them the predicate keeps, if counting them is cheap.
    """
    schema = scan.spark_schema() if partials is None else partials.spark_schema(scan.spark_schema())
    here = _read_on_driver(scan, partials)
    if here is not None:
        return spark.createDataFrame(pa.Table.from_batches(here) if here else [], schema)
    splits = scan.splits(parallelism or count_cores(spark))
    target = scan.read_schema()
    dense = find_dense_vectors(scan.table, scan.projected_schema(), scan.bytes) if partials is None else DenseVectors()
    decimals = find_unscaled_decimals(spark, schema, scan.rows)

    # Without keys, the aggregates are one row.
    size = scan.memory_bytes if partials is None or partials.keys else 0
    threshold = _broadcast_threshold(spark)
    if joined and partials is None and size > threshold > 0:
        size = _measure_kept_rows(scan)
    count = len(splits)
    weight = _numbers_per_split(min(size, _BEYOND_BROADCAST * threshold), count)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Spark may close the connection before it has sent all numbers, when it has enough rows.
        silence_closed_connections()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows = read_split(scan, splits[number // weight], target)
                yield from map(
                    decimals.to_sent, map(dense.check, rows) if partials is None else partials.aggregate(rows)
                )

    numbers = _split_numbers(spark, count, weight)
    sent = numbers.mapInArrow(read, decimals.sent_schema(dense.mark_non_null(schema)))
    frame = dense.restore_schema(decimals.restore_schema(sent, schema), schema)
    return frame if scan.limit is None else frame.limit(scan.limit)


@lru_cache(maxsize=_KEPT_FRAMES)
def _split_numbers(spark: SparkSession, splits: int, weight: int) -> DataFrame:
    """Return the numbers `0, weight, 2 * weight, ...`, one in each partition, which Spark takes for `weight` each."""
    numbers = spark.range(0, splits * weight, 1, splits)
    return numbers if weight == 1 else numbers.where(f"id % {weight} = 0")


def _measure_kept_rows(scan: Scan) -> int:
    """Return the size of the rows that the predicate keeps; if counting them is expensive, that of all rows."""
    if scan.where is None or not (scan.indexed or scan.rows <= _COUNTED_ROWS):
        return scan.memory_bytes
    kept = _count_kept_rows(scan.table, scan.where)
    return replace(scan, limit=kept if scan.limit is None else min(kept, scan.limit)).memory_bytes


@lru_cache(maxsize=_KEPT_COUNTS)
def _count_kept_rows(table: PinnedTable, where: str) -> int:
    """Return how many rows of a version a predicate keeps. The content of a version never changes."""
    return int(table.open().count_rows(where))


def _broadcast_threshold(spark: SparkSession) -> int:
    """Return the size up to which Spark broadcasts a side of a join; 0 if it never does."""
    # No default here: PySpark would return it instead of Spark's own default.
    setting = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    size = _SIZE.fullmatch(str(setting).strip().lower())
    if size is None:
        return _LARGE_THRESHOLD
    return max(int(size[1]), 0) * int(1024 ** " kmgtp".index(size[2] or " "))


def _numbers_per_split(size: int, splits: int) -> int:
    """Return how many numbers represent a split, so that Spark assumes at least `size` bytes.

    Spark assumes that the result of a Python function is as large as its input. The count is rounded up by at most
    1/32, so that reads of similar sizes share their numbers.
    """
    exact = max(math.ceil(size / _NUMBER_BYTES / splits), 1)
    step = 1 << max(exact.bit_length() - 6, 0)
    return -(-exact // step) * step


def read_split(scan: Scan, split: Split, target: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one split in batches for Spark."""
    silence_closed_connections()
    left = scan.limit
    scanner = _scanner(scan, split)
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


def count_rows(spark: SparkSession, scan: Scan) -> int:
    """Return the exact number of rows: from metadata, or by reading the columns of the predicate."""
    dataset = scan.table.open()
    if scan.where is None or scan.rows <= _DRIVER_COUNT_ROWS:
        return int(dataset.count_rows(scan.where))
    splits = scan.splits(count_cores(spark))

    def count_splits(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows = _scanner(replace(scan, columns=()), splits[number]).count_rows()
                yield pa.record_batch({"rows": pa.array([rows], pa.int64())})

    frame = spark.range(0, len(splits), 1, len(splits)).mapInArrow(count_splits, "rows bigint")
    return sum(row.rows for row in frame.collect())


def count_cores(spark: SparkSession) -> int:
    """Return how many tasks can run at the same time."""
    context = classic_context(spark)
    if context is not None:
        return int(context.defaultParallelism)
    if spark not in _CORES:
        # Spark Connect has no context, but the number of partitions of a range shows the default parallelism.
        row = spark.range(_BATCH_ROWS).selectExpr("spark_partition_id() AS part").agg({"part": "max"}).first()
        _CORES[spark] = 1 if row is None else 1 + int(row[0])
    return _CORES[spark]


def serialize_scan(scan: Scan) -> str:
    """Return a scan as text, for an option of the data source."""
    table = scan.table
    content = {
        "identifier": list(table.identifier),
        "uri": table.uri,
        "version": table.version,
        "branch": table.branch,
        "storage_options": table.storage_options,
        "content": table.content,
        "catalog": None if table.address is None else [table.address.impl, table.address.properties],
        "schema": base64.b64encode(scan.schema.serialize().to_pybytes()).decode(),
        "fragments": [(one.id, one.rows, one.bytes) for one in scan.fragments],
        "columns": scan.columns,
        "where": scan.where,
        "limit": scan.limit,
    }
    return base64.b64encode(zlib.compress(json.dumps(content).encode())).decode()


def parse_scan(text: str) -> Scan:
    """Return the scan that `serialize_scan` wrote."""
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


def _read_on_driver(scan: Scan, partials: PartialAggregates | None) -> list[pa.RecordBatch] | None:
    """Return the result if it is small, or None."""
    few = min(scan.limit, scan.rows) if scan.limit is not None else scan.rows
    if few > DRIVER_ROWS:
        if not (scan.indexed if partials is None else scan.bytes <= _DRIVER_BYTES):
            return None
        if partials is None:
            # With an index, finding that there are too many rows is as fast as reading a few.
            scan = replace(scan, limit=DRIVER_ROWS + 1)
    everything = Split(tuple(fragment.id for fragment in scan.fragments))
    rows = read_split(scan, everything, scan.read_schema()) if scan.fragments else iter(())
    batches: list[pa.RecordBatch] = []
    for batch in rows if partials is None else partials.aggregate(rows):
        batches.append(batch)
        if sum(one.num_rows for one in batches) > DRIVER_ROWS:
            return None
    return batches


def _scanner(scan: Scan, split: Split) -> Any:
    dataset = scan.table.open()
    conditions = [f"({one})" for one in (split.condition(), scan.where) if one is not None]
    projected = scan.projected_schema()
    return dataset.scanner(
        columns=[name for name in projected.names if name != ROW_ADDRESS],
        filter=" AND ".join(conditions) or None,
        fragments=[fragment for number in split.fragments if (fragment := dataset.get_fragment(number)) is not None],
        with_row_address=scan.row_address,
        batch_size=max(1, min(_BATCH_ROWS, int(_BATCH_BYTES / _row_bytes(projected)))),
        limit=scan.limit,
        blob_handling="all_binary" if types.has_blobs(projected) else None,
    )


def _row_bytes(schema: pa.Schema) -> float:
    """Return an estimate of the bytes of a row."""
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
