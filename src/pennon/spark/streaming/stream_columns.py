"""The columns of a stream, and how a version of the table provides them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from pennon.errors import InvalidInputError, InvalidTableStateError
from pennon.identifiers import Identifier, format_identifier
from pennon.spark import types
from pennon.spark.types.field_ids import list_field_ids

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

_RESTART = (
    "Start the query again; if this stays, start it after that version (startingVersion), with another checkpoint"
)


@dataclass(frozen=True)
class FeedCommit:
    """The version that a row of a change feed comes from."""

    version: int
    timestamp: datetime


@dataclass(frozen=True)
class StreamColumns:
    """The columns of a stream: those of the table when the stream started, and those of a change feed."""

    identifier: Identifier
    table: pa.Schema
    feed: bool
    whole: bool = True
    """Whether these are all columns of the table, so that a new column changes the stream's schema."""
    field_ids: tuple[tuple[str, int], ...] = ()
    """The field ids of these columns: a renamed column keeps its id."""

    @classmethod
    def of(cls, table: pa.Schema, identifier: Identifier, *, feed: bool, whole: bool = True) -> StreamColumns:
        """Return the columns of a stream; raises InvalidInputError if the table has a column of a feed's name."""
        taken = [field.name for field in _FEED if feed and field.name in table.names]
        if taken:
            raise InvalidInputError(
                f"Table {format_identifier(identifier)} has columns that a change feed adds itself: "
                f"{', '.join(taken)}; read the other columns with option columns"
            )
        return cls(identifier, table, feed, whole)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the table's columns in the stream."""
        return tuple(self.table.names)

    def spark_schema(self) -> StructType:
        """Return the schema for Spark."""
        return types.spark_schema(self._schema())

    def select(self, names: Sequence[str]) -> StreamColumns:
        """Return the columns that the user's schema names, in its order; raises InvalidInputError for unknown names."""
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
        """Return the columns with their field ids in the version that defines the stream's schema."""
        found = list_field_ids(dataset)
        return replace(self, field_ids=tuple((name, found[name][0]) for name in self.names))

    def find_present(self, dataset: LanceDataset, *, later: bool) -> tuple[str, ...]:
        """Return the columns that a version has; columns that were added later are null in it.

        Raises InvalidTableStateError if a column has another type or another name. If the version is `later` than the
        start of the stream, any change of the schema raises it, because Spark cannot change the schema of a running
        query.
        """
        version, number = dataset.schema, int(dataset.version)
        names = {ids[0]: name for name, ids in list_field_ids(dataset).items()}
        field_ids = dict(self.field_ids)
        added = [name for name in version.names if name not in self.table.names] if later and self.whole else []
        if added:
            raise self._schema_error(number, f"column {', '.join(added)} was added", "Start the query again to read it")
        present = []
        for field in self.table:
            if field.name in version.names:
                self._compare(field, version.field(field.name), number)
                present.append(field.name)
            elif later:
                remedy = "Start the query again to go on without it"
                raise self._schema_error(number, f"column {field.name} is gone", remedy)
            elif field_ids.get(field.name) in names:
                # It was renamed, or the table was overwritten, which assigns new field ids.
                other = names[field_ids[field.name]]
                raise self._schema_error(number, f"column {field.name} is called {other} there")
            elif not field.nullable:
                raise self._schema_error(number, f"it has no column {field.name} yet, which is never null now")
        return tuple(present)

    def complete_batch(self, batch: pa.RecordBatch, commit: FeedCommit, labels: pa.Array | str) -> pa.RecordBatch:
        """Return a batch in Spark's types with nulls for missing columns, and with the columns of a feed."""
        target, rows = types.read_schema(self._schema()), batch.num_rows
        known = {CHANGE_TYPE: labels, COMMIT_VERSION: commit.version, COMMIT_TIMESTAMP: commit.timestamp}
        arrays = []
        for field in target:
            value = known.get(field.name) if self.feed else None
            if field.name in batch.schema.names:
                arrays.append(batch.column(field.name))
            elif value is None:
                arrays.append(pa.nulls(rows, field.type))
            else:
                arrays.append(value if isinstance(value, pa.Array) else pa.repeat(pa.scalar(value, field.type), rows))
        return pa.RecordBatch.from_arrays(arrays, schema=target)

    def _schema(self) -> pa.Schema:
        return pa.schema([*self.table, *_FEED]) if self.feed else self.table

    def _compare(self, ours: pa.Field, theirs: pa.Field, number: int) -> None:
        if ours.type != theirs.type:
            raise self._schema_error(number, f"column {ours.name} is {theirs.type}, in the stream {ours.type}")
        if theirs.nullable and not ours.nullable:
            raise self._schema_error(number, f"column {ours.name} may be null, in the stream it may not")

    def _schema_error(self, number: int, what: str, remedy: str = _RESTART) -> InvalidTableStateError:
        return InvalidTableStateError(
            f"Version {number} of table {format_identifier(self.identifier)} has another schema than the "
            f"stream: {what}. {remedy}"
        )
