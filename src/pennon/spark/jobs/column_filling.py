"""Filling columns of fragments on executors: new data files that are invisible until a commit refers to them."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pennon.errors import InvalidInputError, LanceNamespaceError, from_error_code
from pennon.identifiers import quote_identifier
from pennon.spark import types
from pennon.spark.jobs.job_run import PinnedTask
from pennon.spark.jobs.table_files import data_files
from pennon.spark.merging.row_lookup import split_by_fragment
from pennon.spark.quoting import quote_name
from pennon.spark.reading import scan

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from lance import LanceDataset
    from lance.fragment import FragmentMetadata, LanceFragment
    from pyspark.sql import DataFrame, SparkSession

    from pennon.spark.address import Address
    from pennon.spark.reading.pinned import PinnedTable

ADDRESS = "_rowaddr"
FRAGMENT = "_pennon_fragment"
ANSWER = "answer binary"


@dataclass(frozen=True)
class FilledFragment:
    """A fragment with its columns filled, as the commit will contain it."""

    base: tuple[str, ...]
    """The data files of the fragment that was filled."""
    metadata: FragmentMetadata
    schema: Any
    """The table's schema with the new columns; None if all columns existed."""
    fields: tuple[int, ...] = ()
    """The field ids of existing columns that were changed."""
    offsets: bytes | None = None
    """The rows that were changed, for tables with stable row ids."""
    rows: int = 0

    def files(self) -> list[str]:
        """Return the files that were written for it, relative to the table's directory."""
        return [f"data/{path}" for path in data_files(self.metadata) if path not in self.base]


@dataclass(frozen=True)
class ExpressionTask(PinnedTask):
    """A task that fills columns of one fragment by expressions in Lance's SQL."""

    fragment: int
    columns: Mapping[str, str]
    is_new: bool


def fill_by_expressions(_: Address, task: ExpressionTask) -> FilledFragment:
    """Fill the columns of a fragment by expressions over its own rows."""
    dataset = task.pinned.open()
    (fragment,) = [one for one in dataset.get_fragments() if one.fragment_id == task.fragment]
    base, rows = data_files(fragment.metadata), fragment.metadata.num_rows
    if task.is_new:
        metadata, schema = fragment.merge_columns(dict(task.columns))
        return FilledFragment(base, metadata, schema, rows=rows)
    table = dataset.scanner(columns=dict(task.columns), fragments=[fragment], with_row_address=True).to_table()
    target = pa.schema([dataset.schema.field(name) for name in task.columns])
    values = [table[field.name].cast(field.type) for field in target]
    schema = target.append(pa.field(ADDRESS, pa.uint64()))
    return _update_columns(dataset, fragment, pa.table([*values, table[ADDRESS]], schema=schema))


def fill_from_rows(
    pinned: PinnedTable, plan: types.WritePlan, *, is_new: bool, batches: Iterable[pa.RecordBatch]
) -> Iterator[bytes]:
    """Fill the columns of fragments from joined rows that are sorted by row address.

    A batch has the columns of the plan, then the row address. Yields pickled FilledFragments. Raises InvalidInputError
    if two rows have the same address.
    """
    dataset = pinned.open()
    numbers = {fragment.fragment_id: fragment for fragment in dataset.get_fragments()}
    for number, rows in _group_by_fragment(batches):
        _require_unique_addresses(rows, pinned)
        values = [plan.cast(batch) for batch in rows.to_batches()]
        addresses = rows.column(rows.num_columns - 1).cast(pa.uint64())
        table = pa.Table.from_batches(values).append_column(ADDRESS, addresses)
        fragment = numbers[number]
        if is_new:
            base = data_files(fragment.metadata)
            metadata, schema = fragment.merge(table, ADDRESS)
            filled = FilledFragment(base, metadata, schema, rows=table.num_rows)
        else:
            filled = _update_columns(dataset, fragment, table)
        yield pickle.dumps(filled)


def join_by_key(
    spark: SparkSession,
    pinned: PinnedTable,
    df: DataFrame,
    on: Sequence[str],
    fragments: Collection[int] | None = None,
) -> DataFrame:
    """Return the DataFrame's other columns and the address of the table row that has the same key."""
    keys = scan.scan_pinned(pinned, columns=on, row_address=True)
    if fragments is not None:
        keys = replace(keys, fragments=tuple(one for one in keys.fragments if one.id in fragments))
    values = [quote_name(name) for name in df.columns if name not in on]
    return scan.to_dataframe(spark, keys).join(df, on=list(on), how="inner").select(*values, ADDRESS)


def fill_from_dataframe(
    spark: SparkSession,
    pinned: PinnedTable,
    df: DataFrame,
    on: Sequence[str],
    fragments: Collection[int],
    *,
    is_new: bool,
) -> Iterator[FilledFragment]:
    """Fill the columns of fragments on executors, from a DataFrame by key.

    Raises InvalidInputError if the DataFrame has a key twice, after the fragments that could be filled.
    """
    from pyspark.sql.types import StructType

    rows = join_by_key(spark, pinned, df, on, fragments)
    values = StructType(rows.schema.fields[:-1])
    schema = pinned.open().schema
    there = pa.schema([schema.field(name) for name in values.names if not is_new])
    target = types.table_schema(values) if is_new else there
    plan = types.plan_write(values, target, into=f"table '{quote_identifier(pinned.identifier)}'")

    def fill(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # An exception would make Spark run the task again, so a bad value or key is returned as an answer.
        try:
            for answer in fill_from_rows(pinned, plan, is_new=is_new, batches=batches):
                yield pa.record_batch({"answer": [answer]})
        except LanceNamespaceError as error:
            yield pa.record_batch({"answer": [pickle.dumps(from_error_code(int(error.code), str(error)))]})

    count = max(1, min(len(fragments), scan.count_cores(spark) * 4))
    dealt = rows.selectExpr("*", f"shiftright({ADDRESS}, 32) AS {FRAGMENT}").repartition(count, FRAGMENT)
    answers = dealt.sortWithinPartitions(ADDRESS).drop(FRAGMENT).mapInArrow(fill, ANSWER).collect()
    loaded = [pickle.loads(row.answer) for row in answers]  # noqa: S301 - they come from our own tasks
    yield from (answer for answer in loaded if isinstance(answer, FilledFragment))
    for error in (answer for answer in loaded if isinstance(answer, LanceNamespaceError)):
        raise error


def schema_fingerprint(dataset: LanceDataset) -> bytes:
    """Return bytes that change with the table's schema, including its field ids."""
    return pickle.dumps(dataset.lance_schema) + bytes(dataset.schema.serialize())


def _update_columns(dataset: LanceDataset, fragment: LanceFragment, table: pa.Table) -> FilledFragment:
    base = data_files(fragment.metadata)
    metadata, fields, offsets = fragment.update_columns(table, ADDRESS, with_offsets=True)
    kept = offsets if dataset.has_stable_row_ids else None
    return FilledFragment(base, metadata, None, tuple(fields), kept, table.num_rows)


def _group_by_fragment(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of each fragment. They arrive sorted, so only one fragment is in memory at a time."""
    for number, parts in groupby(_split_by_fragment(batches), key=lambda part: part[0]):
        yield number, pa.Table.from_batches([rows for _, rows in parts])


def _split_by_fragment(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    for batch in batches:
        start = 0
        for number, addresses in split_by_fragment(batch.column(batch.num_columns - 1)):
            yield number, batch.slice(start, len(addresses))
            start += len(addresses)


def _require_unique_addresses(rows: pa.Table, pinned: PinnedTable) -> None:
    addresses = rows.column(rows.num_columns - 1)
    if pc.count_distinct(addresses).as_py() != rows.num_rows:
        raise InvalidInputError(
            f"Several rows have the same key and would fill one row of table '{quote_identifier(pinned.identifier)}': "
            "a backfill needs at most one row for each key"
        )
