"""The difference between two versions of a table: columns, and rows that were added, changed and deleted.

Fragments that both versions have are not read. If the others have too many rows, only their numbers are shown.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError
from pennon.server.pages.cells import Cell, convert_values, make_cell
from pennon.table.blobs import has_blobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from lance import LanceDataset

MOST_ROWS = 20_000
MOST_BYTES = 8 << 20
SHOWN_ROWS = 20
SHOWN_COLUMNS = 12
_ROW_ID = "_rowid"
_POSITION = b"lance-schema:unenforced-primary-key:position"


@dataclass(frozen=True)
class ColumnDifference:
    """A column that only one of the versions has, or that has another type."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class ChangedRow:
    """A row that both versions have, with other values."""

    before: tuple[Cell, ...]
    after: tuple[Cell, ...]
    differs: tuple[bool, ...]


@dataclass(frozen=True)
class RowDifference:
    """The rows in which two versions differ. Of each kind, only the first are listed."""

    columns: tuple[str, ...]
    """The columns of rows that were added or deleted: the first ones of the table."""
    changed_columns: tuple[str, ...]
    """The columns of rows that were changed: keys, then those that differ, then others."""
    matched_by: str
    """How a row is found in the other version; empty if only whole rows are compared."""
    added: int
    deleted: int
    changed: int
    added_rows: tuple[tuple[Cell, ...], ...]
    deleted_rows: tuple[tuple[Cell, ...], ...]
    changed_rows: tuple[ChangedRow, ...]


@dataclass(frozen=True)
class Comparison:
    """The difference between two versions."""

    columns: tuple[ColumnDifference, ...]
    rows: RowDifference | None
    """None if there are too many rows to compare."""
    rows_before: int
    rows_after: int
    """The rows in those fragments that only one of the versions has."""
    left_columns: tuple[str, ...]
    """Columns of blobs, which are not compared."""


def compare(before: LanceDataset, after: LanceDataset, key: str = "") -> Comparison:
    """Return the difference between two open versions. `key` is a column that identifies rows.

    Raises InvalidInputError if there is no such column.
    """
    types = {field.name: field.type for field in before.schema}
    common = [field for field in after.schema if types.get(field.name) == field.type]
    blobs = tuple(field.name for field in common if has_blobs(field))
    names = [field.name for field in common if not has_blobs(field)]
    if key and key not in names:
        raise InvalidInputError(f"Both versions must have the column {key!r}, with one type")
    old, new = _different_fragments(before, after)
    rows_before, rows_after = sum(one.count_rows() for one in old), sum(one.count_rows() for one in new)
    rows = None
    if max(rows_before, rows_after) <= MOST_ROWS:
        keys = [key] if key else _find_keys(before, after, set(names))
        found = [_read_rows(*one, names, keys) for one in ((before, old), (after, new))]
        if found[0] is not None and found[1] is not None:
            rows = _compare_rows(found[0], found[1], after.schema, names, keys)
    return Comparison(compare_schemas(before.schema, after.schema), rows, rows_before, rows_after, blobs)


def compare_schemas(before: pa.Schema, after: pa.Schema) -> tuple[ColumnDifference, ...]:
    """Return the columns in which two schemas differ."""
    old, new = ({field.name: str(field.type) for field in schema} for schema in (before, after))
    return tuple(
        ColumnDifference(name, old.get(name), new.get(name))
        for name in {**old, **new}
        if old.get(name) != new.get(name)
    )


def _different_fragments(before: LanceDataset, after: LanceDataset) -> tuple[list[Any], list[Any]]:
    old = {repr(one.metadata): one for one in before.get_fragments()}
    new = {repr(one.metadata): one for one in after.get_fragments()}
    return [old[one] for one in old if one not in new], [new[one] for one in new if one not in old]


def _find_keys(before: LanceDataset, after: LanceDataset, names: set[str]) -> list[str]:
    """Return the columns that identify a row: Lance's own row ids if they are stable, or the table's primary key."""
    if before.has_stable_row_ids and after.has_stable_row_ids:
        return [_ROW_ID]
    keys = [field.name for field in after.schema if field.metadata and _POSITION in field.metadata]
    return keys if all(one in names for one in keys) else []


def _read_rows(
    dataset: LanceDataset, fragments: list[Any], names: list[str], keys: list[str]
) -> list[tuple[object, ...]] | None:
    """Return the keys of each row, followed by its values; None if they are too large."""
    if not fragments:
        return []
    with_id = keys == [_ROW_ID]
    scanner = dataset.scanner(columns=names, fragments=fragments, with_row_id=with_id or not names, batch_size=1024)
    rows: list[tuple[object, ...]] = []
    size = 0
    for batch in scanner.to_batches():
        size += batch.nbytes
        if size > MOST_BYTES:
            return None
        columns = [convert_values(batch.column(name)) for name in (*keys, *names)]
        rows += zip(*columns, strict=True) if columns else [()] * batch.num_rows
    return rows


def _compare_rows(
    before: list[tuple[object, ...]],
    after: list[tuple[object, ...]],
    schema: pa.Schema,
    names: list[str],
    keys: list[str],
) -> RowDifference:
    added, deleted, changed = _match_by_keys(before, after, len(keys)) if keys else _match_whole(before, after)
    skip = len(keys)
    changed_shown = changed[:SHOWN_ROWS]
    first = range(len(names))[:SHOWN_COLUMNS]
    chosen = _choose_columns(names, keys, [(old[skip:], new[skip:]) for old, new in changed_shown])

    def make_cells(row: tuple[object, ...], places: Sequence[int]) -> tuple[Cell, ...]:
        return tuple(make_cell(row[skip + place], schema.field(names[place]).type) for place in places)

    def make_changed(old: tuple[object, ...], new: tuple[object, ...]) -> ChangedRow:
        differs = tuple(repr(old[skip + place]) != repr(new[skip + place]) for place in chosen)
        return ChangedRow(make_cells(old, chosen), make_cells(new, chosen), differs)

    matched_by = "" if not keys else "Lance's row ids" if keys == [_ROW_ID] else ", ".join(keys)
    return RowDifference(
        tuple(names[place] for place in first),
        tuple(names[place] for place in chosen),
        matched_by,
        len(added),
        len(deleted),
        len(changed),
        tuple(make_cells(row, first) for row in added[:SHOWN_ROWS]),
        tuple(make_cells(row, first) for row in deleted[:SHOWN_ROWS]),
        tuple(make_changed(*pair) for pair in changed_shown),
    )


def _choose_columns(
    names: list[str], keys: list[str], pairs: list[tuple[tuple[object, ...], tuple[object, ...]]]
) -> list[int]:
    """Return the places of the columns to show of changed rows: keys, then those that differ, then others."""

    def rank(place: int) -> int:
        if names[place] in keys:
            return 0
        return 1 if any(repr(old[place]) != repr(new[place]) for old, new in pairs) else 2

    return sorted(range(len(names)), key=rank)[:SHOWN_COLUMNS]


_Rows = list[tuple[object, ...]]


def _match_by_keys(
    before: _Rows, after: _Rows, count: int
) -> tuple[_Rows, _Rows, list[tuple[tuple[object, ...], tuple[object, ...]]]]:
    """Return the rows that were added and deleted, and pairs of those that were changed. A key may occur repeatedly."""
    new, old, _ = _match_whole(before, after)
    waiting: dict[str, _Rows] = {}
    for row in reversed(old):
        waiting.setdefault(repr(row[:count]), []).append(row)
    added, changed = [], []
    for row in new:
        same = waiting.get(repr(row[:count]))
        if same:
            changed.append((same.pop(), row))
        else:
            added.append(row)
    left = {id(row) for rows in waiting.values() for row in rows}
    return added, [row for row in old if id(row) in left], changed


def _match_whole(before: _Rows, after: _Rows) -> tuple[_Rows, _Rows, list[Any]]:
    """Return the rows that only one of the versions has."""
    old, new = Counter(map(repr, before)), Counter(map(repr, after))
    return _subtract(after, new - old), _subtract(before, old - new), []


def _subtract(rows: _Rows, left: Counter[str]) -> _Rows:
    found = []
    for row in rows:
        text = repr(row)
        if left[text] > 0:
            left[text] -= 1
            found.append(row)
    return found
