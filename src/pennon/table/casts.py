"""Rows that were written before a column was cast, and committed after it.

A cast gives a column a new id. Lance lets an append that was begun before commit after it, and looks for the values of
the column under the new id, where there are none: the rows are there, and the column is null in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance import LanceDataset, LanceOperation

from pennon.errors import ConcurrentModificationError
from pennon.identifiers import Identifier, format_identifier

if TYPE_CHECKING:
    from collections.abc import Iterator


def require_no_cast(before: LanceDataset, after: LanceDataset, identifier: Identifier) -> None:
    """Take the rows of an append away again if a column was cast between its two versions, and raise 14.

    It costs nothing if no version came in between. A crash before the rows are taken away leaves them without values.
    """
    cast = cast_columns(before, after)
    if not cast:
        return
    LanceDataset.commit(after, taking_back(after), read_version=after.version)
    raise refusal(cast, identifier)


def cast_columns(before: LanceDataset, after: LanceDataset) -> list[tuple[str, ...]]:
    """Name the columns that were cast between two versions; free of charge if the one follows the other."""
    if after.version == before.version + 1:
        return []
    now = dict(_ids(after.lance_schema.fields()))
    return sorted(path for path, number in _ids(before.lance_schema.fields()) if now.get(path, number) != number)


def taking_back(appended: LanceDataset) -> LanceOperation.BaseOperation:
    """Give the operation that takes the rows of an append away again, of which this is the version."""
    made = appended.read_transaction(appended.version)
    files = {file.path for fragment in getattr(made and made.operation, "fragments", ()) for file in fragment.files}
    written = [
        fragment.fragment_id
        for fragment in appended.get_fragments()
        if any(file.path in files for file in fragment.metadata.files)
    ]
    return LanceOperation.Delete([], written, "false")


def refusal(cast: list[tuple[str, ...]], identifier: Identifier) -> ConcurrentModificationError:
    """Say what came in between."""
    return ConcurrentModificationError(
        f"Column '{'.'.join(cast[0])}' of table {format_identifier(identifier)} was cast meanwhile; no rows "
        "were inserted"
    )


def _ids(fields: list[Any], parent: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    for field in fields:
        path = (*parent, field.name())
        yield path, int(field.id())
        yield from _ids(field.children(), path)
