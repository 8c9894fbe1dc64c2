"""The columns of a stream, and how a version of the table gives them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from pennon.errors import InvalidInputError, InvalidTableStateError
from pennon.identifiers import Identifier, format_identifier
from pennon.spark import types

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from lance import LanceDataset
    from pyspark.sql.types import StructType

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
_FEED = (
    pa.field(CHANGE_TYPE, pa.string(), nullable=False),
    pa.field(COMMIT_VERSION, pa.int64(), nullable=False),
    pa.field(COMMIT_TIMESTAMP, pa.timestamp("us", "UTC"), nullable=False),
)


@dataclass(frozen=True)
class FeedCommit:
    """The version that a row of a change feed comes from."""

    version: int
    timestamp: datetime


@dataclass(frozen=True)
class StreamColumns:
    """What a stream delivers: columns of the table, as it was when the stream was started, and those of a feed."""

    identifier: Identifier
    table: pa.Schema
    feed: bool
    whole: bool = True
    """Whether these are all columns of the table: a new one then changes what the stream should deliver."""
    field_ids: tuple[tuple[str, int], ...] = ()
    """The field_ids by which the table knows these columns: a column that is renamed keeps its own."""

    @classmethod
    def of(cls, table: pa.Schema, identifier: Identifier, *, feed: bool, whole: bool = True) -> StreamColumns:
        """Give the columns of a stream; a feed of a table with columns of the same names raises 13."""
        taken = [field.name for field in _FEED if feed and field.name in table.names]
        if taken:
            raise InvalidInputError(
                f"Table {format_identifier(identifier)} has columns that a change feed adds itself: "
                f"{', '.join(taken)}; "
                "read the others, with option columns"
            )
        return cls(identifier, table, feed, whole)

    @property
    def names(self) -> tuple[str, ...]:
        """Name the table's columns in the stream."""
        return tuple(self.table.names)

    def spark_schema(self) -> StructType:
        """Give the schema that Spark sees."""
        return types.spark_schema(self._schema())

    def select(self, names: Sequence[str]) -> StreamColumns:
        """Give fewer columns, or others in order: those that the caller's schema names."""
        own = [name for name in names if not (self.feed and name in {field.name for field in _FEED})]
        if tuple(names) == tuple(self._schema().names):
            return self
        unknown = [name for name in own if name not in self.table.names]
        if unknown or (self.feed and len(own) + len(_FEED) != len(names)):
            raise InvalidInputError(
                f"A stream of table {format_identifier(self.identifier)} delivers "
                f"{', '.join(self._schema().names)}; the schema "
                f"that was given has {', '.join(names)}"
            )
        return StreamColumns(
            self.identifier, pa.schema([self.table.field(name) for name in own]), self.feed, whole=False
        )

    def with_field_ids(self, dataset: LanceDataset) -> StreamColumns:
        """Look the columns' field_ids up in the version that gave the stream its schema."""
        found = _field_ids(dataset)
        return replace(self, field_ids=tuple((name, found[name]) for name in self.names))

    def find_present(self, dataset: LanceDataset, *, later: bool) -> tuple[str, ...]:
        """Tell which columns a version has; those that were added since are null in it.

        `later` says that the version is younger than the stream's start: then every change of the schema raises 19,
        for Spark cannot change the schema of a query that runs. A column of another type or of another name raises in
        any case.
        """
        version, number = dataset.schema, int(dataset.version)
        taken = {one: name for name, one in _field_ids(dataset).items()}
        field_ids = dict(self.field_ids)
        if later and self.whole:
            added = [name for name in version.names if name not in self.table.names]
            if added:
                raise self._schema_error(
                    number, f"column {', '.join(added)} was added", "Start the query again to read it"
                )
        present = []
        for field in self.table:
            if field.name in version.names:
                self._compare(field, version.field(field.name), number)
                present.append(field.name)
            elif later:
                raise self._schema_error(
                    number, f"column {field.name} is gone", "Start the query again to go on without it"
                )
            elif field_ids.get(field.name) in taken:
                # Renamed; or the table was overwritten, which field_ids all columns anew.
                raise self._schema_error(
                    number, f"column {field.name} is called {taken[field_ids[field.name]]} there", _ANEW
                )
            elif not field.nullable:
                raise self._schema_error(number, f"it has no column {field.name} yet, which is never null now", _ANEW)
        return tuple(present)

    def complete_batch(self, batch: pa.RecordBatch, commit: FeedCommit, labels: pa.Array | str) -> pa.RecordBatch:
        """Complete a batch, already in Spark's types, by what a version does not have and what a feed tells."""
        target = types.read_schema(self._schema())
        arrays = []
        for field in target:
            if field.name in batch.schema.names:
                arrays.append(batch.column(field.name))
            elif self.feed and field.name == CHANGE_TYPE:
                arrays.append(_repeat(labels, batch.num_rows, field.type) if isinstance(labels, str) else labels)
            elif self.feed and field.name == COMMIT_VERSION:
                arrays.append(_repeat(commit.version, batch.num_rows, field.type))
            elif self.feed and field.name == COMMIT_TIMESTAMP:
                arrays.append(_repeat(commit.timestamp, batch.num_rows, field.type))
            else:
                arrays.append(pa.nulls(batch.num_rows, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=target)

    def _schema(self) -> pa.Schema:
        return pa.schema([*self.table, *_FEED]) if self.feed else self.table

    def _compare(self, ours: pa.Field, theirs: pa.Field, number: int) -> None:
        if ours.type != theirs.type:
            raise self._schema_error(number, f"column {ours.name} is {theirs.type}, in the stream {ours.type}", _ANEW)
        if theirs.nullable and not ours.nullable:
            raise self._schema_error(number, f"column {ours.name} may be null, in the stream it may not", _ANEW)

    def _schema_error(self, number: int, what: str, remedy: str) -> InvalidTableStateError:
        return InvalidTableStateError(
            f"Version {number} of table {format_identifier(self.identifier)} has another schema than the "
            f"stream: {what}. {remedy}"
        )


_ANEW = "Start the query again; if this stays, start it after that version (startingVersion), with another checkpoint"


def _field_ids(dataset: LanceDataset) -> dict[str, int]:
    return {field.name(): field.id() for field in dataset.lance_schema.fields()}


def _repeat(value: object, rows: int, kind: pa.DataType) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), rows)
