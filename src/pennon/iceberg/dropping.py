"""Deregister, drop, restore and purge tables.

A dropped table is renamed into a reserved namespace, and its properties record the time of the drop. Its name is free
at once, and its data stays until it is purged. A server that keeps dropped tables itself only receives the drop. On a
server that cannot rename, a drop deletes the entry and then the data. A table whose retention cannot be read is kept.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pennon.errors import (
    InternalError,
    InvalidInputError,
    InvalidTableStateError,
    LanceNamespaceError,
    NamespaceAlreadyExistsError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
    from_error_code,
    translate_errors,
)
from pennon.iceberg import entries, managed, rest
from pennon.iceberg.entry import CHOSEN, OURS
from pennon.iceberg.reserved import OLD_TRASH, TRASH, TRASHES
from pennon.iceberg.server_promises import KEEPS_DROPPED, PURGE, TTL
from pennon.identifiers import ROOT, Identifier, format_identifier, object_id, split_object_id
from pennon.paging import select_page
from pennon.results import (
    DroppedTable,
    KeptTable,
    PurgedTable,
    PurgeReport,
    TableStatus,
    TableStatusReport,
)
from pennon.store import Amount
from pennon.table.description import count_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pennon.iceberg.catalog import Catalog
    from pennon.iceberg.entry import Entry

    Progress = Callable[[PurgedTable, int, int], None]

_EARLIEST_MS = 1_000_000_000_000
"""The year 2001. An earlier time of a drop is in seconds instead of milliseconds."""
_CLOCK_SKEW_MS = 24 * 3600 * 1000
"""How far the clock of another machine may be ahead. A later time of a drop is in micro- or nanoseconds."""
_MOST_DIGITS = 18
_LOOKS = 3
_PLAIN_UUID = re.compile("[0-9a-f]{32}")
_END_OF_TIME = datetime.max.replace(tzinfo=timezone.utc)
_FIX = "purge it by name and with force, or restore it and drop it again"
_log = logging.getLogger(__name__)
_FROM, _AT, _TTL = OURS + "dropped-from", OURS + "dropped-at-ms", OURS + "drop-ttl-ms"


def deregister(catalog: Catalog, identifier: Identifier) -> Entry:
    """Remove a table from the catalog and keep its data. Afterwards, the files show all versions.

    Raises UnsupportedOperationError, before anything is changed, on a server that would delete the data.
    """
    entry = catalog.table(identifier)
    if entry.is_managed:
        managed.list_versions(entry, catalog.store(entry))
    had_data = _has_data(catalog, entry.location, catalog.options(entry))
    entries.remove(catalog, entry)
    if had_data and _has_data(catalog, entry.location, catalog.options(entry)) is False:
        raise InternalError(
            f"Table {format_identifier(identifier)} is out of the catalog, and the server deleted its data at "
            f"{entry.location!r} although the request forbade it. Do not deregister tables on this server"
        )
    return entry


def drop(catalog: Catalog, identifier: Identifier, ttl_ms: int, *, purge: bool = False) -> Entry:
    """Drop a table. If the server can rename tables, the data stays until the table is purged.

    The commit point is the rename. A crash before it leaves properties that have no effect.
    Raises NamespaceNotFoundError or TableNotFoundError if the table does not exist.
    """
    entry = catalog.table(identifier)
    if catalog.server.defaults.get(KEEPS_DROPPED) == "true":
        options = {PURGE: "true"} if purge else {TTL: str(ttl_ms)}
        entries.remove(catalog, entry, {"purgeRequested": "true", **options})
        return entry
    if purge or not _can_keep(catalog):
        _remove_with_data(catalog, entry)
        return entry
    now = int(time.time() * 1000)
    marked = catalog.set_properties(entry, {_FROM: object_id(identifier), _AT: str(now), _TTL: str(ttl_ms)})
    try:
        _move_to_trash(catalog, marked)
    except NamespaceNotFoundError:
        _make_trash(catalog)
        _move_to_trash(catalog, marked)
    except UnsupportedOperationError:
        _remove_with_data(catalog, entry)
    return entry


def _move_to_trash(catalog: Catalog, entry: Entry) -> None:
    """Rename a table into the trash. The name comes from its UUID, so of two clients that drop it one fails."""
    name = entry.uuid.replace("-", "").lower()
    if _PLAIN_UUID.fullmatch(name) is None:
        name = uuid.uuid4().hex
    try:
        entries.rename(catalog, entry, (*TRASH, name))
    except TableAlreadyExistsError:
        raise TableNotFoundError(
            f"Table not found: {format_identifier(entry.identifier)}; another client has dropped it"
        ) from None


def list_dropped(
    catalog: Catalog, namespace: Identifier, token: str | None, limit: int | None, *, detailed: bool = False
) -> tuple[list[DroppedTable], str | None]:
    """Return a page of the tables that were dropped from a namespace, the oldest drop first."""
    found = [(entry, table) for entry, table in _list_trash(catalog) if tuple(table.id[:-1]) == namespace]
    by_key = {f"{table.dropped_at.timestamp():020.3f} {table.deletion_id}": (entry, table) for entry, table in found}
    keys, following = select_page(sorted(by_key), token, limit, takes_names=False)
    return [_add_details(catalog, *by_key[key]) if detailed else by_key[key][1] for key in keys], following


def list_purgeable(catalog: Catalog, deleted_before: datetime | None, *, detailed: bool = False) -> list[DroppedTable]:
    """Return the dropped tables whose retention has ended, or those that were dropped before a time."""
    now = _now()
    chosen = [
        (entry, table)
        for entry, table in _list_trash(catalog)
        if (table.is_due(now) if deleted_before is None else table.fault is None and table.dropped_at < deleted_before)
    ]
    return [_add_details(catalog, entry, table) if detailed else table for entry, table in chosen]


def table_status(catalog: Catalog, identifier: Identifier) -> TableStatusReport:
    """Return whether a table exists, is dropped, or neither."""
    entry = catalog.any_table(identifier)
    if entry is not None and entry.is_lance:
        return TableStatusReport(TableStatus.EXISTS)
    try:
        table = _describe_dropped(_find_dropped(catalog, identifier, None)[-1])
    except TableNotFoundError:
        return TableStatusReport(TableStatus.NOT_FOUND)
    return TableStatusReport(TableStatus.SOFT_DELETED, table.dropped_at, table.deletion_id)


def undrop(catalog: Catalog, identifier: Identifier, target: Identifier | None, deletion_id: str | None) -> Entry:
    """Restore the latest drop of a table, or the one with a deletion id, under its name or another one.

    Raises TableNotFoundError if there is no such dropped table, NamespaceNotFoundError if the namespace does not exist,
    TableAlreadyExistsError if the name is taken.
    """
    entry = _find_dropped(catalog, identifier, deletion_id)[-1]
    entries.rename(catalog, entry, target or identifier)
    return entry


def purge_table(catalog: Catalog, identifier: Identifier, deletion_id: str | None, *, force: bool) -> PurgeReport:
    """Delete permanently what was dropped under a name.

    Raises TableNotFoundError if nothing was dropped under the name, InvalidTableStateError before the end of the
    retention unless forced, or the first error if nothing could be purged.
    """
    report = _purge(catalog, _require_due(_find_dropped(catalog, identifier, deletion_id), force=force))
    if len(report.failed) == len(report.tables):
        raise from_error_code(int(report.failed[0].code or 0), str(report.failed[0].error))
    return report


def purge_named_tables(
    catalog: Catalog, identifiers: Sequence[Identifier], *, dry_run: bool, force: bool, progress: Progress | None
) -> PurgeReport:
    """Purge all that was dropped under these names; nothing if one of them cannot be purged yet."""
    found = [entry for identifier in identifiers for entry in _find_dropped(catalog, identifier, None)]
    return _purge(catalog, _require_due(found, force=force), dry_run=dry_run, progress=progress)


def purge_due_tables(
    catalog: Catalog, deleted_before: datetime | None, *, dry_run: bool, progress: Progress | None
) -> PurgeReport:
    """Purge all dropped tables whose retention has ended and that were dropped before a time."""
    now = _now()
    found = _list_trash(catalog)
    due = [
        entry
        for entry, table in found
        if table.is_due(now) and (deleted_before is None or table.dropped_at < deleted_before)
    ]
    report = _purge(catalog, due, dry_run=dry_run, progress=progress)
    for _, table in found:
        if table.fault is not None:
            _log.warning(
                "dropped table %s is kept because its retention cannot be read (%s); %s",
                format_identifier(tuple(table.id)),
                table.fault,
                _FIX,
            )
            report.kept.append(KeptTable(table.id, table.deletion_id, table.location, table.fault, _FIX))
    return report


def _require_due(chosen: list[Entry], *, force: bool) -> list[Entry]:
    """Return the entries. Raises InvalidTableStateError if one must be kept, unless forced."""
    now = _now()
    for table in () if force else map(_describe_dropped, chosen):
        if not table.is_due(now):
            reason = (
                f"until {table.purgeable_at:%Y-%m-%d %H:%M:%S %Z}"
                if table.fault is None
                else f"because its retention cannot be read ({table.fault})"
            )
            raise InvalidTableStateError(
                f"Table {format_identifier(tuple(table.id))} is kept {reason}: purge it with force=True"
            )
    return chosen


def _purge(
    catalog: Catalog, chosen: Sequence[Entry], *, dry_run: bool = False, progress: Progress | None = None
) -> PurgeReport:
    """Delete entries and their data, one after the other, and report each."""
    report = PurgeReport(dry_run)
    for entry in chosen:
        table = _describe_dropped(entry)
        try:
            with translate_errors(f"purge of {format_identifier(tuple(table.id))}"):
                amount = catalog.store(entry).measure("") if dry_run else _remove_with_data(catalog, entry)
        except LanceNamespaceError as error:
            purged = PurgedTable(table.id, table.deletion_id, table.location, error=str(error), code=int(error.code))
        else:
            purged = PurgedTable(table.id, table.deletion_id, table.location, amount.files, amount.size)
        report.tables.append(purged)
        if progress is not None:
            progress(purged, len(report.tables), len(chosen))
    return report


def _add_details(catalog: Catalog, entry: Entry, table: DroppedTable) -> DroppedTable:
    """Add the rows and bytes of a dropped table, if it can be read."""
    try:
        with translate_errors(f"reading {format_identifier(tuple(table.id))}"):
            store = catalog.store(entry)
            rows = count_rows(store.location("").rstrip("/"), catalog.options(entry))
            return replace(table, rows=rows, bytes=store.measure("").size)
    except LanceNamespaceError:
        return table


def _remove_with_data(catalog: Catalog, entry: Entry) -> Amount:
    """Remove the entry, then the data if it is below the root and no other table uses it. Returns what was deleted.

    The commit point is the removal of the entry. Raises UnsupportedOperationError if another table uses the data and
    the server would delete it with the entry.
    """
    path = catalog.places.below_root(entry.location)
    is_own = _is_own(catalog, entry, path)
    entries.remove(catalog, entry, keeps_data=not is_own)
    return catalog.places.delete(path) if path is not None and is_own else Amount()


def _is_own(catalog: Catalog, entry: Entry, path: str | None) -> bool:
    """Return True if the directory is below the root, or was chosen for the table, and no other table uses it."""
    is_chosen = entry.properties.get(CHOSEN) == "true"
    if path is None and not is_chosen:
        return False
    is_named_for_it = is_chosen and (path is None or catalog.places.is_new_name(path))
    # Where renames are not atomic, a table may have two entries.
    if is_named_for_it and not entry.has_numbered_metadata:
        return True
    return not _is_shared(catalog, entry, path)


def may_have_data(catalog: Catalog, location: str) -> bool:
    """Return False if it is certain that there are no files at a location."""
    return _has_data(catalog, location, catalog.options(None)) is not False


def _has_data(catalog: Catalog, location: str, options: dict[str, str]) -> bool | None:
    """Return True if there are files at a location, None if that cannot be determined."""
    try:
        with translate_errors(f"listing {location!r}"):
            return catalog.places.store(location, options).has_files("")
    except LanceNamespaceError:
        return None


def all_tables(catalog: Catalog) -> list[Entry]:
    """Load every table of any kind, dropped ones included."""
    return [one for one in _load(catalog, _all_ids(catalog)) if one is not None]


def _all_ids(catalog: Catalog) -> list[Identifier]:
    return [(*parent, name) for parent in [*catalog.walk(ROOT), *TRASHES] for name in _names(catalog, parent)]


def _load(catalog: Catalog, ids: list[Identifier]) -> list[Entry | None]:
    return catalog.map(catalog.any_table, ids)


def _is_shared(catalog: Catalog, entry: Entry, path: str | None) -> bool:
    """Return True if another table is in the same directory, below it, or above it. Loads every table.

    A table that the server lists but does not return, also after a retry, may be anywhere, so it counts.
    """
    others = [one for one in _all_ids(catalog) if one != entry.identifier]
    for _ in range(_LOOKS):
        loaded = _load(catalog, others)
        if any(one is not None and _overlaps(catalog, entry, path, one) for one in loaded):
            return True
        unseen = [one for one, found in zip(others, loaded, strict=True) if found is None]
        others = [one for one in unseen if one[-1] in _names(catalog, one[:-1])]
        if not others:
            return False
    return True


def _overlaps(catalog: Catalog, entry: Entry, path: str | None, other: Entry) -> bool:
    if other.is_below(entry.location) or entry.is_below(other.location):
        return True
    # The same location can be written in different ways.
    place = None if path is None else catalog.places.below_root(other.location)
    return place is not None and (f"{place}/".startswith(f"{path}/") or f"{path}/".startswith(f"{place}/"))


def _names(catalog: Catalog, namespace: Identifier) -> list[str]:
    try:
        return catalog.names(namespace)
    except NamespaceNotFoundError:
        return []
    except InvalidInputError:
        # A server that refuses the old name has nothing under it.
        if namespace == OLD_TRASH:
            return []
        raise


def _can_keep(catalog: Catalog) -> bool:
    return catalog.server.offers(rest.RENAME_TABLE) and catalog.server.offers(rest.UPDATE_TABLE)


def _make_trash(catalog: Catalog) -> None:
    try:
        catalog.server.call(rest.CREATE_NAMESPACE, ROOT, {"namespace": list(TRASH), "properties": {}})
    except NamespaceAlreadyExistsError:
        return


def _load_trash(catalog: Catalog) -> list[Entry]:
    if catalog.server.defaults.get(KEEPS_DROPPED) == "true":
        raise UnsupportedOperationError("The server keeps dropped tables itself: restore and purge them there")
    ids = [(*trash, name) for trash in TRASHES for name in _names(catalog, trash)]
    loaded = _load(catalog, ids)
    return [one for one in loaded if one is not None and one.is_lance and _FROM in one.properties]


def _find_dropped(catalog: Catalog, identifier: Identifier, deletion_id: str | None) -> list[Entry]:
    """Return what was dropped under a name, the latest last. Raises TableNotFoundError if there is nothing."""
    found = [
        one
        for one in _load_trash(catalog)
        if split_object_id(one.properties[_FROM]) == identifier and deletion_id in {None, one.identifier[-1]}
    ]
    if not found:
        raise TableNotFoundError(f"No dropped table of that name: {format_identifier(identifier)}")
    return sorted(found, key=lambda one: _number(one, _AT) or 0)


def format_name(entry: Entry) -> str:
    """Return the name of a table for messages. For a dropped table, that is its former name."""
    before = entry.properties.get(_FROM)
    is_dropped = entry.identifier[:1] in TRASHES and before is not None
    return (
        f"{format_identifier(split_object_id(before or ''))} (dropped)"
        if is_dropped
        else format_identifier(entry.identifier)
    )


def _list_trash(catalog: Catalog) -> list[tuple[Entry, DroppedTable]]:
    return [(entry, _describe_dropped(entry)) for entry in _load_trash(catalog)]


def _describe_dropped(entry: Entry) -> DroppedTable:
    at, ttl = _number(entry, _AT), _number(entry, _TTL)
    fault = _find_fault(at, ttl)
    return DroppedTable(
        list(split_object_id(entry.properties[_FROM])),
        entry.identifier[-1],
        _to_datetime(at or 0),
        _END_OF_TIME if fault else _to_datetime((at or 0) + (ttl or 0)),
        entry.location,
        fault=fault,
    )


def _find_fault(at: int | None, ttl: int | None) -> str | None:
    """Return why the retention of a dropped table cannot be read, or None."""
    if at is None or ttl is None:
        return f"{_AT if at is None else _TTL} is not a number of milliseconds"
    if not _EARLIEST_MS <= at <= time.time() * 1000 + _CLOCK_SKEW_MS:
        return f"{_AT} is not a time in milliseconds"
    return None


def _number(entry: Entry, key: str) -> int | None:
    text = entry.properties.get(key, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _to_datetime(epoch_ms: int) -> datetime:
    """Return a time in UTC. Times after the end of the calendar become its end."""
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, tz=timezone.utc)
    except (OverflowError, ValueError, OSError):
        return _END_OF_TIME
