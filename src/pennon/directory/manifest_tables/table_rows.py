"""Whether a name is free, and the manifest row that takes it.

Names are unique among tables and namespaces. A root table in `<name>.lance` is there by its directory: a row that
names a directory which another client has dropped or deregistered is dead, keeps nobody from the name, and goes when
the name is wanted again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pennon.directory import layout
from pennon.directory.claims import claim
from pennon.directory.claims.marker import REVIVING, UNDROP, Marker
from pennon.directory.lifecycle import deregister
from pennon.directory.lookup.listing import look_at, look_at_root_table
from pennon.directory.lookup.resolve import is_root_table, namespace_exists
from pennon.directory.manifest import TABLE, Draft, Row, Snapshot
from pennon.directory.root_tables import purge
from pennon.directory.versions import managed, version_rows
from pennon.errors import NamespaceAlreadyExistsError, TableAlreadyExistsError
from pennon.identifiers import (
    Identifier,
    format_identifier,
    namespace_not_found,
    object_id,
    parent_not_found,
    split_object_id,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pennon.directory.catalog import Catalog

T = TypeVar("T")


def forgetting_dead_rows(catalog: Catalog, identifier: Identifier, act: Callable[[], T]) -> T:
    """Do something that wants a name; if a dead row is in the way, forget the row and do it once more."""
    try:
        return act()
    except (TableAlreadyExistsError, NamespaceAlreadyExistsError):
        if not _forget_dead_row(catalog, identifier):
            raise
    return act()


def require_free(catalog: Catalog, identifier: Identifier, *, root_table: bool = False) -> None:
    """Fail early, before anything is written, if the name is taken (5) or its namespace is missing (1)."""
    if catalog.manifest is None:
        if len(identifier) > 1:
            raise namespace_not_found(identifier[:-1])
        return
    key = object_id(identifier)

    def verdict(snapshot: Snapshot) -> str | None:
        if not namespace_exists(snapshot, identifier[:-1]):
            return "orphan"
        row = snapshot.get(key)
        if row is None or (root_table and row.location == layout.root_table(identifier[0])):
            return None
        return "taken"

    if catalog.manifest.peek(verdict) is None:
        return
    found = catalog.manifest.read(verdict)
    if found == "orphan":
        raise parent_not_found(identifier)
    if found == "taken":
        raise TableAlreadyExistsError(f"Table already exists: {format_identifier(identifier)}")


def require_unused(catalog: Catalog, target: Identifier) -> None:
    """Refuse a name that a root table has which only the directory knows."""
    if len(target) != 1 or not catalog.lists_directories:
        return
    there = catalog.resolver.find(target)
    if there is not None and there.row is None and there.directory is not None and there.directory.visible:
        raise TableAlreadyExistsError(f"Table already exists: {format_identifier(target)}")


def insert_row(catalog: Catalog, row: Row) -> None:
    """Commit the row of a new table, unless its name or its location is taken."""
    if catalog.manifest is None:
        return
    versions = managed.list_versions_to_import(catalog, str(row.location))

    def plan(draft: Draft) -> None:
        insert_into(draft, row)
        version_rows.import_rows(draft, row.object_id, versions)

    catalog.manifest.mutate(plan)


def settle_row(catalog: Catalog, row: Row, *, declared: bool) -> Row:
    """Commit the row of a root table that has got its data, and return it as it is now.

    A table that was declared keeps its properties unless new ones are given; of any other there may be a dead row.
    """
    if catalog.manifest is None:
        return row
    versions = managed.list_versions_to_import(catalog, str(row.location))

    def plan(draft: Draft) -> Row:
        settled = settle(draft)
        version_rows.replace_rows(draft, row.object_id, versions)
        return settled

    def settle(draft: Draft) -> Row:
        existing = draft.get(row.object_id)
        if existing is None or existing.location != row.location:
            return insert_into(draft, row)
        kept = existing.metadata if declared and row.metadata is None else row.metadata
        settled = existing.with_properties(kept)
        draft.put(settled)
        return settled

    return catalog.manifest.mutate(plan)


def insert_into(draft: Draft, row: Row) -> Row:
    """Put the row of a new table into a draft, unless its name or its location is taken."""
    existing = draft.get(row.object_id)
    if existing is not None:
        what = "Table" if existing.object_type == TABLE else "A namespace of that name"
        raise TableAlreadyExistsError(f"{what} already exists: '{row.object_id}'")
    if not draft.parent_exists(row.object_id):
        raise parent_not_found(split_object_id(row.object_id))
    if row.location is not None and draft.overlapping(row.location):
        raise TableAlreadyExistsError(f"The location {row.location!r} of '{row.object_id}' belongs to another table")
    draft.put(row)
    return row


def _forget_dead_row(catalog: Catalog, identifier: Identifier) -> bool:
    """Remove the row of a root table whose directory is gone or deregistered; the claim keeps creators away."""
    manifest = catalog.manifest
    if manifest is None or len(identifier) != 1:
        return False
    name = identifier[0]
    row = manifest.read(lambda snapshot: snapshot.get(name))
    if row is None or row.object_type != TABLE or not is_root_table(identifier, str(row.location)):
        return False
    if look_at_root_table(catalog.store, name).visible:
        return False
    wanted = Marker(REVIVING).leased(REVIVING, UNDROP)
    held = claim.take(catalog.store, name, wanted, lambda current: purge.settle(catalog, current))
    prior = None if held.marker is None else held.marker.prior
    try:
        if prior is None and look_at(catalog.store, layout.root_table(name)).visible:
            return False
        manifest.mutate(lambda draft: deregister.take_root_row(draft, name))
    finally:
        if prior is None:
            claim.remove(catalog.store, held)
        else:
            claim.move(catalog.store, held, prior)
    return True
