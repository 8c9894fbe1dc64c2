"""Undrop: a dropped table comes back with its data, versions and properties."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.claims import claim
from pennon.directory.claims.marker import DELETED, REVIVING, UNDROP, Marker
from pennon.directory.lifecycle import deregister, dropped
from pennon.directory.lookup.listing import look_at
from pennon.directory.lookup.resolve import is_root_table
from pennon.directory.manifest import NAMESPACE, TABLE, Draft, Row, properties_json
from pennon.directory.manifest_tables import table_rows, trash
from pennon.directory.versions import managed, version_rows
from pennon.errors import (
    ConcurrentModificationError,
    NamespaceAlreadyExistsError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from pennon.identifiers import Identifier, format_identifier, object_id, parent_not_found
from pennon.table.writing import find_last_version_before, read_latest_version, restore_version

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog
    from pennon.store import Store


def undrop(catalog: Catalog, identifier: Identifier, as_id: Identifier | None, deletion_id: str | None) -> str:
    """Bring back the latest drop of a name, or the one with a deletion id; returns the location.

    The commit point for a hashed directory is the manifest commit that renames its row back; for a root table the
    removal of its marker, which comes last. A crash before it leaves the table dropped, with a lease that runs out.
    """
    found = dropped.find(catalog, identifier, deletion_id)
    if found is None:
        which = f" under the deletion id {deletion_id!r}" if deletion_id else ""
        raise TableNotFoundError(f"Table {format_identifier(identifier)} is not dropped{which}")
    target = as_id or identifier
    if isinstance(found, trash.Trashed):
        return _undrop_row(catalog, found, target)
    return _undrop_root_table(catalog, found, target)


def undrop_namespace(catalog: Catalog, identifier: Identifier, deletion_id: str | None) -> list[Identifier]:
    """Bring back a dropped namespace with all that was dropped along with it, in one commit; returns the tables."""
    manifest = catalog.require_manifest("undrop_namespace")

    def plan(draft: Draft) -> list[Identifier]:
        contents = trash.in_draft(draft)
        drops = [
            entry
            for entry in contents
            if entry.original.object_type == NAMESPACE
            and entry.identifier == identifier
            and entry.state == trash.DROPPED
            and deletion_id in {None, entry.deletion_id, entry.deletion.group}
        ]
        if not drops:
            raise NamespaceNotFoundError(f"Namespace {format_identifier(identifier)} is not dropped")
        latest = max(drops, key=lambda entry: entry.deletion.deleted_at_ms)
        if not draft.parent_exists(object_id(identifier)):
            raise parent_not_found(identifier)
        group = [
            entry
            for entry in contents
            if entry.state == trash.DROPPED and entry.deletion.group == latest.deletion.group != ""
        ]
        for entry in sorted(group or [latest], key=lambda entry: len(entry.identifier)):
            key = object_id(entry.identifier)
            if draft.get(key) is not None:
                raise NamespaceAlreadyExistsError(
                    f"Cannot restore {format_identifier(entry.identifier)}: the name is taken again"
                )
            if not draft.parent_exists(key):
                raise parent_not_found(entry.identifier)
            trash.take_out(draft, entry, entry.identifier)
        return [entry.identifier for entry in group if entry.original.object_type == TABLE]

    table_rows.require_unused(catalog, identifier)
    return manifest.mutate(plan)


def _undrop_row(catalog: Catalog, wanted: trash.Trashed, target: Identifier) -> str:
    def plan(draft: Draft) -> Row:
        row = draft.get(wanted.key)
        current = None if row is None else trash.understood(row)
        if current is None:
            raise TableNotFoundError(f"Table {format_identifier(wanted.identifier)} is not dropped any more")
        if current.state != trash.DROPPED:
            raise ConcurrentModificationError(f"Table {format_identifier(wanted.identifier)} is being purged")
        _require_free(draft, target)
        return trash.take_out(draft, current, target)

    manifest = catalog.require_manifest("undrop_table")
    table_rows.require_unused(catalog, target)
    row = table_rows.forgetting_dead_rows(catalog, target, lambda: manifest.mutate(plan))
    if is_root_table(target, str(row.location)):
        deregister.show_root_table(catalog, target[0])
    return str(row.location)


def _undrop_root_table(catalog: Catalog, current: claim.Standing, target: Identifier) -> str:
    store, name = catalog.store, current.name
    location = layout.root_table(name)
    before = current.marker
    if before is None or before.state != DELETED:
        raise claim.held_by_another(name)
    home = is_root_table(target, location)
    if not home:
        catalog.require_manifest("undrop_table under another name")
        table_rows.require_unused(catalog, target)
    held = claim.move(store, current, replace(Marker(REVIVING, prior=before), prior=before).leased(REVIVING, UNDROP))
    if held is None:
        raise ConcurrentModificationError(f"Table '{name}' was purged, restored or created anew meanwhile")
    _require_table(store, held, before)
    try:
        managed.finish_replaced_table(catalog, name)
        if before.burn and before.version is not None:
            held = _with_old_version(catalog, held, before.version, before.writers)
        _bring_row_back(catalog, before, location, target)
        if home and not before.deregistered:
            store.delete(layout.inside(location, layout.DEREGISTERED_MARKER), layout.deregistered(name))
        elif not home:
            deregister.hide_root_table(catalog, name, moved=True)
    except BaseException:
        claim.move(store, held, before)
        raise
    if not claim.remove_own(store, held):
        raise ConcurrentModificationError(f"Restoring table '{name}' took too long, and somebody else took over")
    return location


def _require_table(store: Store, held: claim.Standing, before: Marker) -> None:
    """Look under the claim: it may have been dropped when somebody else had purged it, or what was dropped is no table.

    Nothing is restored then; a marker that stands for nothing goes.
    """
    directory = look_at(store, layout.root_table(held.name))
    if directory.has_versions or directory.reserved:
        return
    if directory.has_files:
        claim.move(store, held, before)
    else:
        claim.remove(store, held)
    raise TableNotFoundError(f"There is no table to restore under '{held.name}'")


def _with_old_version(catalog: Catalog, held: claim.Standing, version: int, writers: tuple[str, ...]) -> claim.Standing:
    """Make what was dropped the latest, by the very version that a creator that died would have made.

    What was appended after the drop, by somebody who had the table open, belongs to it.

    The version to build on is fixed while the claim stands, and the commit is strict: if this comes too late, somebody
    else has made that version.
    """
    store, location = catalog.store, catalog.store.resolve(layout.root_table(held.name), deeply=True)
    base = read_latest_version(location, store.storage_options)
    version = find_last_version_before(location, version, base, writers, store.storage_options)
    sure = None if held.marker is None else claim.move(store, held, held.marker)
    if sure is None or not restore_version(location, version, store.storage_options, after=base):
        raise ConcurrentModificationError(f"Table '{held.name}' was purged, restored or created anew meanwhile")
    return sure


def _bring_row_back(catalog: Catalog, before: Marker, location: str, target: Identifier) -> None:
    """Give the manifest the row again; a root table that had none does without."""
    if catalog.manifest is None:
        return
    key = object_id(target)
    row = Row(key, TABLE, location, properties_json(before.properties))
    wanted = before.properties is not None or not is_root_table(target, location)
    versions = managed.list_versions_to_import(catalog, location)

    def plan(draft: Draft) -> None:
        existing = draft.get(key)
        if existing is not None and existing.location == location:
            draft.remove(key)
        _require_free(draft, target)
        if wanted:
            draft.put(row)
            version_rows.import_rows(draft, key, versions)

    catalog.manifest.mutate(plan)


def _require_free(draft: Draft, target: Identifier) -> None:
    key = object_id(target)
    if not draft.parent_exists(key):
        raise parent_not_found(target)
    if draft.get(key) is not None:
        raise TableAlreadyExistsError(
            f"Cannot restore {format_identifier(target)}: the name is taken again; restore it under another "
            "one with as_id"
        )
