"""Updates whose expressions read columns that the same update sets.

Every expression is about the row as it was. Lance sets one column after the other, in an order of its own, and a later
expression sees what an earlier one has set; so these updates are written here: the rows that meet the predicate are
written anew, and deleted where they were, in one commit.
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from pennon.errors import ConcurrentModificationError, UnsupportedOperationError, is_commit_conflict
from pennon.identifiers import Identifier, format_identifier
from pennon.table.blobs import as_blobs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ATTEMPTS = 10
_LITERAL = re.compile(r"'(?:[^']|'')*'")


def reads_what_it_sets(changes: Mapping[str, str]) -> bool:
    """Tell whether an expression mentions another column that is set, or may do so."""
    bare = {path: _LITERAL.sub("", expression).lower() for path, expression in changes.items()}
    return any(
        re.search(rf"(?<!\w){re.escape(other.strip('`').lower())}(?!\w)", expression)
        for path, expression in bare.items()
        for other in changes
        if other != path
    )


def assign(
    dataset: LanceDataset, identifier: Identifier, changes: Mapping[str, str], predicate: str | None
) -> tuple[LanceDataset, int]:
    """Set columns at once; gives the table at the new version, and the number of rows. Errors 0, 13, 14, 20."""
    if dataset.has_stable_row_ids:
        raise UnsupportedOperationError(
            f"Table {format_identifier(identifier)} has stable row ids: set columns that other expressions "
            "read one by one"
        )
    set_columns = {path.strip("`"): expression for path, expression in changes.items()}
    for _ in range(_ATTEMPTS):
        written = write_fragments(
            _new_rows(dataset, set_columns, predicate), dataset, schema=dataset.schema, mode="append"
        )
        rows = sum(int(fragment.physical_rows) for fragment in written)
        if rows == 0:
            return dataset, 0
        emptied, shortened = [], []
        for fragment in dataset.get_fragments():
            left = fragment.delete(predicate or "true")
            if left is None:
                emptied.append(int(fragment.fragment_id))
            elif left != fragment.metadata:
                shortened.append(left)
        operation = LanceOperation.Update(emptied, shortened, written, update_mode="rewrite_rows")
        transaction = lance.Transaction(read_version=dataset.version, operation=operation, uuid=str(uuid.uuid4()))
        try:
            return LanceDataset.commit(dataset, transaction), rows
        except (OSError, ValueError) as error:
            if not is_commit_conflict(error):
                raise
        dataset.checkout_latest()
    raise ConcurrentModificationError(
        f"Table {format_identifier(identifier)} was changed by others whenever it was updated"
    )


def _new_rows(dataset: LanceDataset, changes: Mapping[str, str], predicate: str | None) -> pa.RecordBatchReader:
    schema = dataset.schema
    columns = {name: changes.get(name, f"`{name}`") for name in schema.names}
    found = dataset.scanner(columns, filter=predicate, blob_handling="all_binary").to_reader()
    fields = [schema.field(field.name) if field.name in changes else field for field in found.schema]
    target = pa.schema(fields, schema.metadata)

    def cast() -> Iterator[pa.RecordBatch]:
        for batch in found:
            arrays = [column.cast(field.type) for column, field in zip(batch.columns, target, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=target)

    return as_blobs(pa.RecordBatchReader.from_batches(target, cast()), dataset)
