"""Changing the rows of a table: insert, merge, update, delete. Each is one commit, which is its commit point.

A crash before it leaves data files that nothing refers to; after it, nothing is left to do.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import lance
import pyarrow as pa

from pennon.errors import InvalidInputError, LanceNamespaceError, TableSchemaValidationError
from pennon.identifiers import Identifier, format_identifier
from pennon.table import assigning
from pennon.table.blobs import as_blobs
from pennon.table.casts import require_no_cast
from pennon.table.derived import emptied, emptying, without_values
from pennon.table.lance_errors import judged
from pennon.table.requirements import require_complete, require_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance import LanceDataset

_PATIENCE = timedelta(seconds=30)


@dataclass(frozen=True)
class Changed:
    """What a change did: the version that it made, and how many rows it touched."""

    version: int
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class MergeClauses:
    """What becomes of rows that a merge matches, or does not."""

    on: Sequence[str]
    update_matched: bool = False
    update_matched_if: str | None = None
    insert_unmatched: bool = False
    delete_unmatched_by_source: bool = False
    delete_unmatched_by_source_if: str | None = None
    use_index: bool = False
    patience: timedelta = _PATIENCE


def insert(
    dataset: LanceDataset, identifier: Identifier, data: pa.Table | pa.RecordBatchReader, *, overwrite: bool = False
) -> tuple[Changed, LanceDataset]:
    """Append rows, or replace all; the dataset stays where it is, and one at the new version is returned as well.

    Errors 13, 14, 20 (columns that do not fit).
    """
    if not overwrite:
        if isinstance(data, pa.Table):
            _require_no_nulls(dataset, identifier, data)
        data = as_blobs(without_values(data, dataset, identifier), dataset)
    watched = _Watched(data)
    with judged("inserting into the rows", identifier), watched.telling():
        written = lance.write_dataset(watched.rows, dataset, mode="overwrite" if overwrite else "append")
        if not overwrite:
            require_no_cast(dataset, written, identifier)
    return Changed(int(written.version), inserted=watched.number), written


def merge(
    dataset: LanceDataset, identifier: Identifier, data: pa.Table | pa.RecordBatchReader, clauses: MergeClauses
) -> Changed:
    """Update, insert and delete rows by comparing them with others; moves the dataset. Errors 12, 13, 14, 20."""
    require_fields(dataset, identifier, clauses.on)
    require_complete(identifier, clauses.update_matched_if, clauses.delete_unmatched_by_source_if)
    missing = [name for name in clauses.on if name.partition(".")[0].strip("`") not in data.schema.names]
    if missing:
        raise TableSchemaValidationError(
            f"The rows to merge into table {format_identifier(identifier)} have no column {missing}"
        )
    data = without_values(data, dataset, identifier)
    if clauses.update_matched or clauses.update_matched_if is not None:
        data = emptying(data, dataset)
    watched = _Watched(as_blobs(data, dataset))
    with judged("merging into the rows", identifier), watched.telling():
        builder = dataset.merge_insert(list(clauses.on))
        if clauses.update_matched or clauses.update_matched_if is not None:
            builder.when_matched_update_all(clauses.update_matched_if)
        if clauses.insert_unmatched:
            builder.when_not_matched_insert_all()
        if clauses.delete_unmatched_by_source or clauses.delete_unmatched_by_source_if is not None:
            builder.when_not_matched_by_source_delete(clauses.delete_unmatched_by_source_if)
        builder.use_index(clauses.use_index).retry_timeout(clauses.patience)
        done = builder.execute(watched.rows)
    return Changed(
        int(dataset.version),
        inserted=int(done["num_inserted_rows"]),
        updated=int(done["num_updated_rows"]),
        deleted=int(done["num_deleted_rows"]),
    )


def update(
    dataset: LanceDataset, identifier: Identifier, updates: Sequence[Sequence[str]], predicate: str | None
) -> tuple[Changed, LanceDataset]:
    """Set columns to what expressions give, in the rows that meet a predicate; gives the table at the new version too.

    The dataset may move. Errors 12, 13, 14.
    """
    if not updates:
        raise InvalidInputError(
            f"An update of table {format_identifier(identifier)} needs a column and an expression at least"
        )
    changes = {path: expression for path, expression in updates}  # noqa: C416 - pairs are lists
    if len(changes) < len(updates):
        raise InvalidInputError(f"An update of table {format_identifier(identifier)} sets a column more than once")
    require_fields(dataset, identifier, changes)
    require_complete(identifier, predicate, *changes.values())
    changes = emptied(changes, dataset, identifier)
    with judged("updating the rows", identifier):
        if assigning.reads_what_it_sets(changes):
            after, updated = assigning.assign(dataset, identifier, changes, predicate)
            return Changed(int(after.version), updated=updated), after
        done = dataset.update(changes, predicate)
    return Changed(int(dataset.version), updated=int(done["num_rows_updated"])), dataset


def delete(dataset: LanceDataset, identifier: Identifier, predicate: str) -> Changed:
    """Delete the rows that meet a predicate; moves the dataset. Errors 13, 14."""
    if not predicate.strip():
        raise InvalidInputError(
            f"Deleting from table {format_identifier(identifier)} needs a predicate; 'true' is all rows"
        )
    require_complete(identifier, predicate)
    with judged(f"deleting {predicate!r} from the rows", identifier):
        done = dataset.delete(predicate)
    return Changed(int(dataset.version), deleted=int(done["num_deleted_rows"]))


class _Watched:
    """Rows that are counted as they are read, and what went wrong with them: Lance makes a text of it."""

    def __init__(self, data: pa.Table | pa.RecordBatchReader) -> None:
        self.number = 0
        self.rows = data
        self._error: LanceNamespaceError | None = None
        if isinstance(data, pa.Table):
            self.number = data.num_rows
        else:
            self.rows = pa.RecordBatchReader.from_batches(data.schema, self._counting(data))

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Raise what went wrong with the rows in place of what Lance makes of it."""
        try:
            yield
        except Exception:
            if self._error is not None:
                raise self._error from None
            raise

    def _counting(self, data: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        try:
            for batch in data:
                self.number += batch.num_rows
                yield batch
        except LanceNamespaceError as error:
            self._error = error
            raise


def _require_no_nulls(dataset: LanceDataset, identifier: Identifier, data: pa.Table) -> None:
    """Find nulls where none may be before anything is written."""
    having = [name for name, column in zip(data.column_names, data.columns, strict=True) if column.null_count]
    if not having:
        return
    for column in dataset.schema:
        if column.name in having and not column.nullable:
            raise TableSchemaValidationError(
                f"Column {column.name!r} of table {format_identifier(identifier)} takes no nulls"
            )
