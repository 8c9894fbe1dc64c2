"""Taking tables out: deregister, drop, restore, purge.

A dropped table is renamed into a namespace of its own, with the time in its properties, so its name is free at once and
its data stays until it is purged. A server that keeps dropped tables itself is only told to drop. One that cannot
rename drops plainly: the entry goes, then the data.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pennon.errors import (
    InvalidTableStateError,
    NamespaceAlreadyExistsError,
    NamespaceNotFoundError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from pennon.iceberg import entries, managed, rest
from pennon.iceberg.catalog import TRASH
from pennon.iceberg.entry import OURS
from pennon.iceberg.server_promises import KEEPS_DROPPED, PURGE, TTL
from pennon.identifiers import ROOT, Identifier, object_id, shown, split
from pennon.paging import page

if TYPE_CHECKING:
    from pennon.iceberg.catalog import Catalog
    from pennon.iceberg.entry import Entry

CHOSEN = OURS + "location-chosen"
"""Marks a table whose directory nobody else can have, because it was named for it."""
_FROM, _AT, _TTL = OURS + "dropped-from", OURS + "dropped-at-ms", OURS + "drop-ttl-ms"


@dataclass(frozen=True)
class DroppedTable:
    """A table that was dropped and can be restored."""

    id: list[str]
    deletion_id: str
    dropped_at: datetime
    purgeable_at: datetime
    location: str


def deregister(catalog: Catalog, identifier: Identifier) -> Entry:
    """Take a table out of the catalog and keep its data, all of whose versions the files then show."""
    entry = catalog.table(identifier)
    if entry.is_managed:
        managed.list_versions(entry, catalog.store(entry))
    entries.remove(catalog, entry)
    return entry


def drop(catalog: Catalog, identifier: Identifier, ttl_ms: int, *, purge: bool = False) -> Entry:
    """Drop a table; its data stays until it is purged, where the server can rename tables. Errors 1, 4.

    The commit point is the rename; a crash before it leaves properties that mean nothing yet.
    """
    entry = catalog.table(identifier)
    if catalog.server.defaults.get(KEEPS_DROPPED) == "true":
        wish = {PURGE: "true"} if purge else {TTL: str(ttl_ms)}
        entries.remove(catalog, entry, {"purgeRequested": "true", **wish})
        return entry
    if purge or not _can_keep(catalog):
        _remove_with_data(catalog, entry)
        return entry
    now = int(time.time() * 1000)
    marked = catalog.set_properties(entry, {_FROM: object_id(identifier), _AT: str(now), _TTL: str(ttl_ms)})
    try:
        entries.rename(catalog, marked, (*TRASH, uuid.uuid4().hex))
    except NamespaceNotFoundError:
        _make_trash(catalog)
        entries.rename(catalog, marked, (*TRASH, uuid.uuid4().hex))
    except UnsupportedOperationError:
        _remove_with_data(catalog, entry)
    return entry


def list_dropped(
    catalog: Catalog, namespace: Identifier, token: str | None, limit: int | None
) -> tuple[list[DroppedTable], str | None]:
    """List a page of the tables that were dropped from a namespace, the oldest drop first."""
    found = [one for one in map(_described, _in_trash(catalog)) if tuple(one.id[:-1]) == namespace]
    by_key = {f"{one.dropped_at.timestamp():020.3f} {one.deletion_id}": one for one in found}
    keys, following = page(sorted(by_key), token, limit)
    return [by_key[key] for key in keys], following


def undrop(catalog: Catalog, identifier: Identifier, target: Identifier | None, deletion_id: str | None) -> Entry:
    """Bring a dropped table back under its name or another one; the latest drop unless one is named. Errors 1, 4, 5."""
    entry = _chosen(catalog, identifier, deletion_id)[-1]
    entries.rename(catalog, entry, target or identifier)
    return entry


def purge(catalog: Catalog, identifier: Identifier, deletion_id: str | None, *, force: bool) -> int:
    """Delete what was dropped under a name for good; 19 before its time unless forced. Returns how many went."""
    chosen = _chosen(catalog, identifier, deletion_id)
    early = [one for one in chosen if not _is_due(one)]
    if early and not force:
        raise InvalidTableStateError(f"Table {shown(identifier)} is kept for a while yet; force=True purges it now")
    for entry in chosen:
        _remove_with_data(catalog, entry)
    return len(chosen)


def purge_expired(catalog: Catalog) -> list[DroppedTable]:
    """Purge all dropped tables whose time is over."""
    gone = [entry for entry in _in_trash(catalog) if _is_due(entry)]
    for entry in gone:
        _remove_with_data(catalog, entry)
    return [_described(entry) for entry in gone]


def _remove_with_data(catalog: Catalog, entry: Entry) -> None:
    """Take the entry away, which is the commit point, then the data if it is below our root and nobody else's."""
    path = catalog.places.below_root(entry.location)
    is_ours = path is not None and (entry.properties.get(CHOSEN) == "true" or not _is_shared(catalog, entry, path))
    entries.remove(catalog, entry)
    if path is not None and is_ours:
        catalog.places.delete(path)


def _is_shared(catalog: Catalog, entry: Entry, path: str) -> bool:
    """Tell whether another table lies in the same directory, inside of it, or around it; looks at every table."""
    ids = [(*parent, name) for parent in [*catalog.walk(ROOT), TRASH] for name in _names(catalog, parent)]
    others = [one for one in ids if one != entry.identifier]
    loaded = catalog.side_by_side([lambda one=one: catalog.any_table(one) for one in others])  # type: ignore[misc]
    paths = [catalog.places.below_root(one.location) for one in loaded if one is not None]
    return any(
        one is not None and (f"{one}/".startswith(f"{path}/") or f"{path}/".startswith(f"{one}/")) for one in paths
    )


def _names(catalog: Catalog, namespace: Identifier) -> list[str]:
    try:
        return catalog.names(namespace)
    except NamespaceNotFoundError:
        return []


def _can_keep(catalog: Catalog) -> bool:
    return catalog.server.offers(rest.RENAME_TABLE) and catalog.server.offers(rest.UPDATE_TABLE)


def _make_trash(catalog: Catalog) -> None:
    try:
        catalog.server.call(rest.CREATE_NAMESPACE, ROOT, {"namespace": list(TRASH), "properties": {}})
    except NamespaceAlreadyExistsError:
        return


def _in_trash(catalog: Catalog) -> list[Entry]:
    if catalog.server.defaults.get(KEEPS_DROPPED) == "true":
        raise UnsupportedOperationError("The server keeps dropped tables itself: they are restored and purged there")
    names = _names(catalog, TRASH)
    loaded = catalog.side_by_side([lambda name=name: catalog.any_table((*TRASH, name)) for name in names])  # type: ignore[misc]
    return [one for one in loaded if one is not None and one.is_lance and _FROM in one.properties]


def _chosen(catalog: Catalog, identifier: Identifier, deletion_id: str | None) -> list[Entry]:
    """Give what was dropped under a name, the latest last."""
    found = [
        one
        for one in _in_trash(catalog)
        if split(one.properties[_FROM]) == identifier and deletion_id in {None, one.identifier[-1]}
    ]
    if not found:
        raise TableNotFoundError(f"No dropped table of that name: {shown(identifier)}")
    return sorted(found, key=lambda one: _number(one, _AT))


def _described(entry: Entry) -> DroppedTable:
    at, ttl = _number(entry, _AT), _number(entry, _TTL)
    name, deletion_id = list(split(entry.properties[_FROM])), entry.identifier[-1]
    return DroppedTable(name, deletion_id, _moment(at), _moment(at + ttl), entry.location)


def _is_due(entry: Entry) -> bool:
    return _number(entry, _AT) + _number(entry, _TTL) <= time.time() * 1000


def _number(entry: Entry, key: str) -> int:
    text = entry.properties.get(key, "")
    return int(text) if text.isascii() and text.isdecimal() else 0


def _moment(epoch_ms: int) -> datetime:
    """Give a time; those past the end of the calendar are its end."""
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, tz=timezone.utc)
    except (OverflowError, ValueError, OSError):
        return datetime.max.replace(tzinfo=timezone.utc)
