"""Rows that were written before a column was cast, and committed after it.

A cast gives a column a new id. Lance lets an append that began before the cast commit after it. It then looks for the
values under the new id and finds none: the rows exist, but the column is null in them.
"""

from __future__ import annotations

from lance import LanceDataset, LanceOperation

from pennon.errors import ConcurrentModificationError
from pennon.identifiers import Identifier, format_identifier
from pennon.table.field_paths import read_field_ids


def require_no_cast(before: LanceDataset, after: LanceDataset, identifier: Identifier) -> None:
    """Delete the rows of an append and raise ConcurrentModificationError if a column was cast between two versions.

    Nothing is read if `after` directly follows `before`. A crash before the rows are deleted leaves them without
    values.
    """
    cast = find_cast_columns(before, after)
    if not cast:
        return
    LanceDataset.commit(after, build_removal(after), read_version=after.version)
    raise cast_error(cast, identifier)


def find_cast_columns(before: LanceDataset, after: LanceDataset) -> list[tuple[str, ...]]:
    """Return the columns that were cast between two versions. Nothing is read if one directly follows the other."""
    if after.version == before.version + 1:
        return []
    ids = read_field_ids(after)
    return sorted(path for path, number in read_field_ids(before).items() if ids.get(path, number) != number)


def build_removal(appended: LanceDataset) -> LanceOperation.BaseOperation:
    """Return the operation that deletes the rows of an append. `appended` is the version that it committed."""
    transaction = appended.read_transaction(appended.version)
    fragments = getattr(transaction and transaction.operation, "fragments", ())
    files = {file.path for fragment in fragments for file in fragment.files}
    written = [
        fragment.fragment_id
        for fragment in appended.get_fragments()
        if any(file.path in files for file in fragment.metadata.files)
    ]
    return LanceOperation.Delete([], written, "false")


def cast_error(cast: list[tuple[str, ...]], identifier: Identifier) -> ConcurrentModificationError:
    """Return the error for an append that a cast invalidated."""
    return ConcurrentModificationError(
        f"Column '{'.'.join(cast[0])}' of table {format_identifier(identifier)} was cast by another client during the "
        "insert; no rows were inserted"
    )
