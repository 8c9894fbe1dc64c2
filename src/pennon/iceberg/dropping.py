"""Taking tables out: deregister, drop, restore, purge.

A dropped table is renamed into a namespace of its own, with the time in its properties, so its name is free at once and
its data stays until it is purged. A server that keeps dropped tables itself is only told to drop. One that cannot
rename drops plainly: the entry goes, then the data. What says when a table may be purged and cannot be read keeps it.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
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
    translate_errors,
)
from pennon.iceberg import entries, managed, rest
from pennon.iceberg.entry import CHOSEN, OURS
from pennon.iceberg.reserved import OLD_TRASH, TRASH, TRASHES
from pennon.iceberg.server_promises import KEEPS_DROPPED, PURGE, TTL
from pennon.identifiers import ROOT, Identifier, format_identifier, object_id, split_object_id
from pennon.paging import select_page
from pennon.results import DroppedTable

if TYPE_CHECKING:
    from pennon.iceberg.catalog import Catalog
    from pennon.iceberg.entry import Entry

_EARLIEST_MS = 1_000_000_000_000
"""No table was dropped before 2001: such a time is one in seconds."""
_MOST_DIGITS = 18
_LOOKS = 3
_PLAIN_UUID = re.compile("[0-9a-f]{32}")
_NEVER = datetime.max.replace(tzinfo=timezone.utc)
_log = logging.getLogger(__name__)
_FROM, _AT, _TTL = OURS + "dropped-from", OURS + "dropped-at-ms", OURS + "drop-ttl-ms"


def deregister(catalog: Catalog, identifier: Identifier) -> Entry:
    """Remove a table from the catalog and keep its data, all of whose versions the files then show.

    Raises UnsupportedOperationError, before anything is changed, on a server that would delete the data.
    """
    entry = catalog.table(identifier)
    if entry.is_managed:
        managed.list_versions(entry, catalog.store(entry))
    had_data = _has_data(catalog, entry.location, catalog.options(entry))
    entries.remove(catalog, entry)
    if had_data and _has_data(catalog, entry.location, catalog.options(entry)) is False:
        raise InternalError(
            f"Table {format_identifier(identifier)} is out of the catalog, and its data at {entry.location!r} "
            "is gone: the server "
            "deleted it, although asked not to. Do not deregister tables on this server"
        )
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
        _move_to_trash(catalog, marked)
    except NamespaceNotFoundError:
        _make_trash(catalog)
        _move_to_trash(catalog, marked)
    except UnsupportedOperationError:
        _remove_with_data(catalog, entry)
    return entry


def _move_to_trash(catalog: Catalog, entry: Entry) -> None:
    """Rename a table into the trash, by a name that is always the same: who drops it at the same time uses it, too."""
    name = entry.uuid.replace("-", "").lower()
    if _PLAIN_UUID.fullmatch(name) is None:
        name = uuid.uuid4().hex
    try:
        entries.rename(catalog, entry, (*TRASH, name))
    except TableAlreadyExistsError:
        raise TableNotFoundError(
            f"Table not found: {format_identifier(entry.identifier)}; somebody else has dropped it"
        ) from None


def list_dropped(
    catalog: Catalog, namespace: Identifier, token: str | None, limit: int | None
) -> tuple[list[DroppedTable], str | None]:
    """List a page of the tables that were dropped from a namespace, the oldest drop first."""
    found = [one for one in map(_described, _in_trash(catalog)) if tuple(one.id[:-1]) == namespace]
    by_key = {f"{one.dropped_at.timestamp():020.3f} {one.deletion_id}": one for one in found}
    keys, following = select_page(sorted(by_key), token, limit, takes_names=False)
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
        raise InvalidTableStateError(
            f"Table {format_identifier(identifier)} is kept for a while yet, or its retention cannot be read: "
            "force=True purges it now"
        )
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
    """Remove the entry, which is the commit point, then the data if it is below our root and nobody else's.

    Raises UnsupportedOperationError if the data is somebody else's, and the server would delete it with the entry.
    """
    path = catalog.places.below_root(entry.location)
    is_own = _is_own(catalog, entry, path)
    entries.remove(catalog, entry, keeps_data=not is_own)
    if path is not None and is_own:
        catalog.places.delete(path)


def _is_own(catalog: Catalog, entry: Entry, path: str | None) -> bool:
    """Return True if a table's directory is its own: below our root, or chosen for it, and no other table's."""
    is_chosen = entry.properties.get(CHOSEN) == "true"
    if path is None and not is_chosen:
        return False
    is_named_for_it = is_chosen and (path is None or catalog.places.is_new_name(path))
    # Where renames are not atomic, a table may have two entries.
    if is_named_for_it and not entry.has_numbered_metadata:
        return True
    return not _is_shared(catalog, entry, path)


def may_have_data(catalog: Catalog, location: str) -> bool:
    """Return False if it is certain that there are no files at a place."""
    return _has_data(catalog, location, catalog.options(None)) is not False


def _has_data(catalog: Catalog, location: str, options: dict[str, str]) -> bool | None:
    """Return True if there are files at a place; None if that cannot be found out."""
    try:
        with translate_errors(f"looking at {location!r}"):
            return catalog.places.store(location, options).has_files("")
    except LanceNamespaceError:
        return None


def all_tables(catalog: Catalog) -> list[Entry]:
    """Load every table of any kind, dropped ones included."""
    return [one for one in _loaded(catalog, _all_ids(catalog)) if one is not None]


def _all_ids(catalog: Catalog) -> list[Identifier]:
    return [(*parent, name) for parent in [*catalog.walk(ROOT), *TRASHES] for name in _names(catalog, parent)]


def _loaded(catalog: Catalog, ids: list[Identifier]) -> list[Entry | None]:
    return catalog.side_by_side([lambda one=one: catalog.any_table(one) for one in ids])  # type: ignore[misc]


def _is_shared(catalog: Catalog, entry: Entry, path: str | None) -> bool:
    """Return True if another table is in the same directory, inside of it, or around it; looks at every table.

    A table that the server lists and does not show, also when asked again, may be anywhere, so also there.
    """
    others = [one for one in _all_ids(catalog) if one != entry.identifier]
    for _ in range(_LOOKS):
        loaded = _loaded(catalog, others)
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
    # The same place can be written in different ways.
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


def _in_trash(catalog: Catalog) -> list[Entry]:
    if catalog.server.defaults.get(KEEPS_DROPPED) == "true":
        raise UnsupportedOperationError("The server keeps dropped tables itself: they are restored and purged there")
    ids = [(*trash, name) for trash in TRASHES for name in _names(catalog, trash)]
    loaded = _loaded(catalog, ids)
    return [one for one in loaded if one is not None and one.is_lance and _FROM in one.properties]


def _chosen(catalog: Catalog, identifier: Identifier, deletion_id: str | None) -> list[Entry]:
    """Give what was dropped under a name, the latest last."""
    found = [
        one
        for one in _in_trash(catalog)
        if split_object_id(one.properties[_FROM]) == identifier and deletion_id in {None, one.identifier[-1]}
    ]
    if not found:
        raise TableNotFoundError(f"No dropped table of that name: {format_identifier(identifier)}")
    return sorted(found, key=lambda one: _number(one, _AT) or 0)


def shown_name(entry: Entry) -> str:
    """Return the name of a table for messages; of a dropped one that which it had."""
    before = entry.properties.get(_FROM)
    is_dropped = entry.identifier[:1] in TRASHES and before is not None
    return (
        f"{format_identifier(split_object_id(before or ''))} (dropped)"
        if is_dropped
        else format_identifier(entry.identifier)
    )


def _described(entry: Entry) -> DroppedTable:
    due = _due_ms(entry)
    name, deletion_id = list(split_object_id(entry.properties[_FROM])), entry.identifier[-1]
    until = _NEVER if due is None else _moment(due)
    return DroppedTable(name, deletion_id, _moment(_number(entry, _AT) or 0), until, entry.location)


def _is_due(entry: Entry) -> bool:
    due = _due_ms(entry)
    if due is None:
        _log.warning(
            "dropped table %s is kept: when it may be purged cannot be read; purge_table with force=True deletes it",
            format_identifier(split_object_id(entry.properties[_FROM])),
        )
    return due is not None and due <= time.time() * 1000


def _due_ms(entry: Entry) -> int | None:
    """Return when a dropped table may be purged; None if its properties do not say so."""
    at, ttl = _number(entry, _AT), _number(entry, _TTL)
    return None if at is None or ttl is None or at < _EARLIEST_MS else at + ttl


def _number(entry: Entry, key: str) -> int | None:
    text = entry.properties.get(key, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _moment(epoch_ms: int) -> datetime:
    """Give a time; those past the end of the calendar are its end."""
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, tz=timezone.utc)
    except (OverflowError, ValueError, OSError):
        return _NEVER
