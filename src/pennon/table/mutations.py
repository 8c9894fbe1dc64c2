"""Changing the rows of a table: insert, merge, update, delete.

Each is one commit, which is its commit point. A crash before it leaves data files that nothing refers to. After it,
there is nothing left to do.
"""

from __future__ import annotations

import re
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    LanceNamespaceError,
    TableSchemaValidationError,
    UnsupportedOperationError,
    is_commit_conflict,
)
from pennon.identifiers import Identifier, format_identifier
from pennon.table.blobs import convert_blobs
from pennon.table.casts import require_no_cast
from pennon.table.computed_columns import add_null_columns, require_no_values, reset_dependents
from pennon.table.lance_errors import translate_row_errors
from pennon.table.requirements import require_complete, require_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lance import FragmentMetadata

_MERGE_TIMEOUT = timedelta(seconds=30)
_ATTEMPTS = 10
_LITERAL = re.compile(r"'(?:[^']|'')*'")


@dataclass(frozen=True)
class ChangeResult:
    """The version that a change committed, and the numbers of rows that it changed."""

    version: int
    inserted: int = 0
    updated: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class MergeClauses:
    """What a merge does with rows that match, and with rows that do not."""

    on: Sequence[str]
    update_matched: bool = False
    update_matched_if: str | None = None
    insert_unmatched: bool = False
    delete_unmatched_by_source: bool = False
    delete_unmatched_by_source_if: str | None = None
    use_index: bool = False
    retry_timeout: timedelta = _MERGE_TIMEOUT


def insert(
    dataset: LanceDataset, identifier: Identifier, data: pa.Table | pa.RecordBatchReader, *, overwrite: bool = False
) -> tuple[ChangeResult, LanceDataset]:
    """Append rows, or replace all of them. Returns a dataset at the new version too; `dataset` does not move.

    Raises TableSchemaValidationError if the columns do not fit, InvalidInputError, ConcurrentModificationError.
    """
    if not overwrite:
        if isinstance(data, pa.Table):
            _require_no_nulls(dataset, identifier, data)
        data = convert_blobs(require_no_values(data, dataset, identifier), dataset)
    counted = _CountedRows(data)
    with translate_row_errors("inserting into the rows", identifier), counted.raise_own_errors():
        written = lance.write_dataset(counted.rows, dataset, mode="overwrite" if overwrite else "append")
        if not overwrite:
            require_no_cast(dataset, written, identifier)
    return ChangeResult(int(written.version), inserted=counted.number), written


def write_appended_rows(
    dataset: LanceDataset, identifier: Identifier, data: pa.Table | pa.RecordBatchReader
) -> list[FragmentMetadata]:
    """Write rows as fragments for an append that is committed later. Until then, no version refers to them.

    Raises TableSchemaValidationError if the columns do not fit, and InvalidInputError.
    """
    if isinstance(data, pa.Table):
        _require_no_nulls(dataset, identifier, data)
    counted = _CountedRows(convert_blobs(require_no_values(data, dataset, identifier), dataset))
    with translate_row_errors("inserting into the rows", identifier), counted.raise_own_errors():
        return write_fragments(counted.rows, dataset, mode="append")


def merge(
    dataset: LanceDataset, identifier: Identifier, data: pa.Table | pa.RecordBatchReader, clauses: MergeClauses
) -> ChangeResult:
    """Update, insert and delete rows by comparing them with others. Moves the dataset.

    Raises TableColumnNotFoundError, TableSchemaValidationError if the columns do not fit, InvalidInputError,
    ConcurrentModificationError.
    """
    require_fields(dataset, identifier, clauses.on)
    require_complete(identifier, clauses.update_matched_if, clauses.delete_unmatched_by_source_if)
    missing = [name for name in clauses.on if name.partition(".")[0].strip("`") not in data.schema.names]
    if missing:
        raise TableSchemaValidationError(
            f"The rows to merge into table {format_identifier(identifier)} have no column {missing}"
        )
    data = require_no_values(data, dataset, identifier)
    if clauses.update_matched or clauses.update_matched_if is not None:
        data = add_null_columns(data, dataset)
    counted = _CountedRows(convert_blobs(data, dataset))
    with translate_row_errors("merging into the rows", identifier), counted.raise_own_errors():
        builder = dataset.merge_insert(list(clauses.on))
        if clauses.update_matched or clauses.update_matched_if is not None:
            builder.when_matched_update_all(clauses.update_matched_if)
        if clauses.insert_unmatched:
            builder.when_not_matched_insert_all()
        if clauses.delete_unmatched_by_source or clauses.delete_unmatched_by_source_if is not None:
            builder.when_not_matched_by_source_delete(clauses.delete_unmatched_by_source_if)
        builder.use_index(clauses.use_index).retry_timeout(clauses.retry_timeout)
        done = builder.execute(counted.rows)
    return ChangeResult(
        int(dataset.version),
        inserted=int(done["num_inserted_rows"]),
        updated=int(done["num_updated_rows"]),
        deleted=int(done["num_deleted_rows"]),
    )


def update(
    dataset: LanceDataset, identifier: Identifier, updates: Sequence[Sequence[str]], predicate: str | None
) -> tuple[ChangeResult, LanceDataset]:
    """Set columns to the values of expressions, in the rows that meet a predicate.

    Returns a dataset at the new version too; `dataset` may move. Raises TableColumnNotFoundError, InvalidInputError,
    ConcurrentModificationError.
    """
    if not updates:
        raise InvalidInputError(
            f"An update of table {format_identifier(identifier)} needs at least one column and its expression"
        )
    changes = {path: expression for path, expression in updates}  # noqa: C416 - pairs are lists
    if len(changes) < len(updates):
        raise InvalidInputError(f"An update of table {format_identifier(identifier)} sets a column more than once")
    require_fields(dataset, identifier, changes)
    require_complete(identifier, predicate, *changes.values())
    changes = reset_dependents(changes, dataset, identifier)
    with translate_row_errors("updating the rows", identifier):
        if _reads_what_it_sets(changes):
            after, updated = _rewrite_rows(dataset, identifier, changes, predicate)
            return ChangeResult(int(after.version), updated=updated), after
        done = dataset.update(changes, predicate)
    return ChangeResult(int(dataset.version), updated=int(done["num_rows_updated"])), dataset


def delete(dataset: LanceDataset, identifier: Identifier, predicate: str) -> ChangeResult:
    """Delete the rows that meet a predicate. Moves the dataset.

    Raises InvalidInputError, ConcurrentModificationError.
    """
    if not predicate.strip():
        raise InvalidInputError(
            f"Deleting from table {format_identifier(identifier)} needs a predicate; use 'true' for all rows"
        )
    require_complete(identifier, predicate)
    with translate_row_errors(f"deleting {predicate!r} from the rows", identifier):
        done = dataset.delete(predicate)
    return ChangeResult(int(dataset.version), deleted=int(done["num_deleted_rows"]))


def _reads_what_it_sets(changes: Mapping[str, str]) -> bool:
    """Return True if an expression may mention another column that the same update sets."""
    bare = {path: _LITERAL.sub("", expression).lower() for path, expression in changes.items()}
    return any(
        re.search(rf"(?<!\w){re.escape(other.strip('`').lower())}(?!\w)", expression)
        for path, expression in bare.items()
        for other in changes
        if other != path
    )


def _rewrite_rows(
    dataset: LanceDataset, identifier: Identifier, changes: Mapping[str, str], predicate: str | None
) -> tuple[LanceDataset, int]:
    """Set columns whose expressions read each other. Returns the table at the new version, and the number of rows.

    Every expression applies to the row as it was. Lance sets the columns one after the other, in any order, so that a
    later expression would see the result of an earlier one. Instead, the changed rows are written again and the old
    ones are deleted, in one commit.
    """
    table = format_identifier(identifier)
    if dataset.has_stable_row_ids:
        raise UnsupportedOperationError(
            f"Table {table} has stable row ids: set columns that other expressions read one by one"
        )
    set_columns = {path.strip("`"): expression for path, expression in changes.items()}
    for _ in range(_ATTEMPTS):
        rows = _compute_rows(dataset, set_columns, predicate)
        written = write_fragments(rows, dataset, schema=dataset.schema, mode="append")
        count = sum(int(fragment.physical_rows) for fragment in written)
        if count == 0:
            return dataset, 0
        removed, shortened = [], []
        for fragment in dataset.get_fragments():
            remaining = fragment.delete(predicate or "true")
            if remaining is None:
                removed.append(int(fragment.fragment_id))
            elif remaining != fragment.metadata:
                shortened.append(remaining)
        operation = LanceOperation.Update(removed, shortened, written, update_mode="rewrite_rows")
        transaction = lance.Transaction(read_version=dataset.version, operation=operation, uuid=str(uuid.uuid4()))
        try:
            return LanceDataset.commit(dataset, transaction), count
        except (OSError, ValueError) as error:
            if not is_commit_conflict(error):
                raise
        dataset.checkout_latest()
    raise ConcurrentModificationError(
        f"Table {table} was changed by other clients during each of {_ATTEMPTS} attempts to update it; try again"
    )


def _compute_rows(dataset: LanceDataset, changes: Mapping[str, str], predicate: str | None) -> pa.RecordBatchReader:
    schema = dataset.schema
    columns = {name: changes.get(name, f"`{name}`") for name in schema.names}
    computed = dataset.scanner(columns, filter=predicate, blob_handling="all_binary").to_reader()
    fields = [schema.field(field.name) if field.name in changes else field for field in computed.schema]
    target = pa.schema(fields, schema.metadata)

    def cast_batches() -> Iterator[pa.RecordBatch]:
        for batch in computed:
            arrays = [column.cast(field.type) for column, field in zip(batch.columns, target, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=target)

    return convert_blobs(pa.RecordBatchReader.from_batches(target, cast_batches()), dataset)


class _CountedRows:
    """Rows that are counted as they are read. It keeps the error that they raise: Lance turns it into a text."""

    def __init__(self, data: pa.Table | pa.RecordBatchReader) -> None:
        self.number = 0
        self.rows = data
        self._error: LanceNamespaceError | None = None
        if isinstance(data, pa.Table):
            self.number = data.num_rows
        else:
            self.rows = pa.RecordBatchReader.from_batches(data.schema, self._count_batches(data))

    @contextmanager
    def raise_own_errors(self) -> Iterator[None]:
        """Raise the error of the rows instead of the one that Lance makes of it."""
        try:
            yield
        except Exception:
            if self._error is not None:
                raise self._error from None
            raise

    def _count_batches(self, data: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        try:
            for batch in data:
                self.number += batch.num_rows
                yield batch
        except LanceNamespaceError as error:
            self._error = error
            raise


def _require_no_nulls(dataset: LanceDataset, identifier: Identifier, data: pa.Table) -> None:
    """Raise TableSchemaValidationError for nulls in a column that takes none, before anything is written."""
    with_nulls = [name for name, column in zip(data.column_names, data.columns, strict=True) if column.null_count]
    if not with_nulls:
        return
    for column in dataset.schema:
        if column.name in with_nulls and not column.nullable:
            raise TableSchemaValidationError(
                f"Column {column.name!r} of table {format_identifier(identifier)} takes no nulls"
            )
