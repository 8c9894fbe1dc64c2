"""Version rows in a snapshot or a draft of the manifest. Nothing here does I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.directory.manifest import TABLE, Draft, Snapshot, version_key
from pennon.directory.versions.record import VersionRecord, parse_version_row
from pennon.errors import (
    ConcurrentModificationError,
    InvalidTableStateError,
    TableNotFoundError,
    TableVersionAlreadyExistsError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pennon.directory.manifest import Row


@dataclass(frozen=True)
class ManagedTable:
    """A table whose versions the catalog manages: its key in the manifest and its directory."""

    key: str
    location: str


def find_record(rows: Draft | Snapshot, table: ManagedTable, version: int) -> VersionRecord | None:
    """Return a version by its row, or None if it has no usable row."""
    return parse_version_row(rows.get(version_key(table.key, version)), table.location)


def parse_records(rows: Draft | Snapshot, table: ManagedTable) -> tuple[dict[int, VersionRecord], list[Row]]:
    """Return the versions of a table that have usable rows, by number, and the rows that are unusable."""
    records: dict[int, VersionRecord] = {}
    unusable: list[Row] = []
    for row in rows.version_rows(table.key):
        record = parse_version_row(row, table.location)
        if record is None:
            unusable.append(row)
        else:
            records[record.version] = record
    return records, unusable


def list_records(rows: Draft | Snapshot, table: ManagedTable) -> dict[int, VersionRecord]:
    """Return the versions of a table that have usable rows, by number."""
    return parse_records(rows, table)[0]


def list_unfinished(rows: Draft | Snapshot, table: ManagedTable) -> list[tuple[ManagedTable, VersionRecord]]:
    """Return the unfinished versions of a table, as `managed.finish` takes them."""
    return [(table, record) for record in list_records(rows, table).values() if record.is_unfinished]


def find_newest(rows: Draft | Snapshot, table: ManagedTable) -> tuple[VersionRecord | None, list[Row]]:
    """Return the newest version that has a usable row, and the unusable rows of newer versions."""
    unusable: list[Row] = []
    for row in rows.version_rows(table.key, newest_first=True):
        record = parse_version_row(row, table.location)
        if record is not None:
            return record, unusable
        unusable.append(row)
    return None, unusable


def newest_number(rows: Draft | Snapshot, table: ManagedTable) -> int:
    """Return the number of the newest version that has a usable row, or 0."""
    record, _ = find_newest(rows, table)
    return 0 if record is None else record.version


def require_table(draft: Draft, table: ManagedTable) -> None:
    """Raise TableNotFoundError unless the table has a row with the same location as before."""
    row = draft.get(table.key)
    if row is None or row.object_type != TABLE or row.location != table.location:
        raise TableNotFoundError(f"Table not found: '{table.key}'")


def add_next_version(draft: Draft, table: ManagedTable, record: VersionRecord) -> VersionRecord:
    """Add the row of the next version and return its record; the same request may come twice.

    Raises TableVersionAlreadyExistsError if the version exists, ConcurrentModificationError if it is not the next one,
    and TableNotFoundError if the table is gone.
    """
    require_table(draft, table)
    existing = find_record(draft, table, record.version)
    if existing is not None and existing.staged_path == record.staged_path:
        return existing
    newest = newest_number(draft, table)
    if record.version <= newest:
        raise TableVersionAlreadyExistsError(f"Version {record.version} of table '{table.key}' already exists")
    if record.version != newest + 1:
        raise ConcurrentModificationError(
            f"Version {record.version} of table '{table.key}' cannot be created: the latest is {newest}"
        )
    draft.put(record.to_row(table.key))
    return record


def import_rows(draft: Draft, key: str, records: Iterable[VersionRecord]) -> int:
    """Add rows for versions that the files of a table show, and return how many had no usable row."""
    row = draft.get(key)
    known = list_records(draft, ManagedTable(key, "" if row is None else str(row.location)))
    missing = [record for record in records if record.version not in known]
    for record in missing:
        draft.put(record.to_row(key))
    return len(missing)


def replace_rows(draft: Draft, key: str, records: Sequence[VersionRecord]) -> int:
    """Make the version rows of a table agree with its files, and return how many versions had no usable row."""
    in_files = {record.version for record in records}
    for version in draft.versions_of(key):
        if version not in in_files:
            draft.remove_version(key, version)
    return import_rows(draft, key, records)


def plan_removal(
    table: ManagedTable, choose: Callable[[list[int]], list[int]]
) -> Callable[[Draft], list[VersionRecord]]:
    """Return a plan that removes the rows of the versions that `choose` selects, and returns their records.

    The plan raises TableNotFoundError if the table is gone, and InvalidTableStateError if the latest version is chosen.
    """

    def plan(draft: Draft) -> list[VersionRecord]:
        require_table(draft, table)
        versions = draft.versions_of(table.key)
        chosen = choose(versions)
        latest = newest_number(draft, table) or max(versions, default=0)
        if latest in chosen:
            raise InvalidTableStateError(
                f"Version {latest} is the latest of table '{table.key}', which could not be opened without it"
            )
        records = [find_record(draft, table, version) for version in chosen]
        for version in chosen:
            draft.remove_version(table.key, version)
        return [record for record in records if record is not None]

    return plan
