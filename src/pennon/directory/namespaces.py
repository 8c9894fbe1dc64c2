"""Namespaces: create, drop, list, describe. They are rows of the manifest and nothing else."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.claims.marker import milliseconds
from pennon.directory.lookup.listing import look_at_root_table
from pennon.directory.lookup.resolve import namespace_exists
from pennon.directory.manifest import NAMESPACE, Draft, Row, Snapshot, flags, properties_json
from pennon.directory.manifest_tables import trash
from pennon.directory.manifest_tables.table_rows import forgetting_dead_rows
from pennon.directory.protection import require_unprotected
from pennon.errors import (
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
)
from pennon.identifiers import ROOT, Identifier, format_identifier, namespace_not_found, object_id, parent_not_found
from pennon.modes import CreateMode, DropBehavior, DropMode
from pennon.paging import select_page

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pennon.directory.catalog import Catalog


def create(
    catalog: Catalog, identifier: Identifier, mode: CreateMode, properties: Mapping[str, str] | None
) -> dict[str, str]:
    """Create a namespace and return its properties. The commit point is one manifest commit."""
    if identifier == ROOT:
        if mode is CreateMode.EXIST_OK:
            return describe(catalog, ROOT) or {}
        if mode is CreateMode.OVERWRITE:
            raise InvalidInputError("The root namespace cannot be overwritten; use alter_namespace_properties")
        raise NamespaceAlreadyExistsError("Namespace already exists: the root namespace")
    manifest = catalog.require_manifest("create_namespace")
    key = object_id(identifier)
    wanted = Row(key, NAMESPACE, metadata=properties_json(properties))
    _require_no_root_table(catalog, identifier)
    deletion = trash.Deletion(milliseconds(), catalog.settings.drop_ttl_ms, uuid.uuid4().hex)

    def plan(draft: Draft) -> Row:
        existing = draft.get(key)
        if existing is None:
            if not draft.parent_exists(key):
                raise parent_not_found(identifier)
            draft.put(wanted)
            return wanted
        if existing.object_type != NAMESPACE or mode is CreateMode.CREATE:
            what = "Namespace" if existing.object_type == NAMESPACE else "A table of that name"
            raise NamespaceAlreadyExistsError(f"{what} already exists: {format_identifier(identifier)}")
        if mode is CreateMode.EXIST_OK:
            return existing
        _put_into_trash(draft, existing, deletion, force=False)
        draft.put(replace(wanted, extra=existing.extra))
        return wanted

    return forgetting_dead_rows(catalog, identifier, lambda: manifest.mutate(plan)).properties()


def drop(
    catalog: Catalog,
    identifier: Identifier,
    mode: DropMode,
    behavior: DropBehavior,
    *,
    ttl_ms: int | None = None,
    force: bool = False,
) -> dict[str, str]:
    """Drop a namespace, with everything in it if asked, and return its properties.

    The commit point is one manifest commit, which moves all of it to the trash; an empty namespace just goes.
    """
    if identifier == ROOT:
        raise InvalidInputError("The root namespace cannot be dropped")
    manifest = catalog.require_manifest("drop_namespace")
    key = object_id(identifier)
    kept = catalog.settings.drop_ttl_ms if ttl_ms is None else ttl_ms
    deletion = trash.Deletion(milliseconds(), kept, uuid.uuid4().hex)

    def plan(draft: Draft) -> Row | None:
        row = draft.get(key)
        if row is None or row.object_type != NAMESPACE or not draft.parent_exists(key):
            if mode is DropMode.SKIP:
                return None
            raise namespace_not_found(identifier)
        if behavior is DropBehavior.RESTRICT and draft.has_children(key):
            raise NamespaceNotEmptyError(f"Namespace not empty: {format_identifier(identifier)}")
        if behavior is DropBehavior.RESTRICT:
            require_unprotected(row, force=force)
            draft.remove(key)
        else:
            _put_into_trash(draft, row, deletion, force=force)
        return row

    row = manifest.mutate(plan)
    return {} if row is None else row.properties()


def describe(catalog: Catalog, identifier: Identifier) -> dict[str, str] | None:
    """Give a namespace's properties; None where they are not supported (V1)."""
    if catalog.manifest is None:
        catalog.resolver.require_namespace(identifier)
        return None

    def look(snapshot: Snapshot) -> dict[str, str]:
        if identifier == ROOT:
            return flags.root_properties(snapshot.metadata)
        row = snapshot.get(object_id(identifier))
        if row is None or not namespace_exists(snapshot, identifier):
            raise namespace_not_found(identifier)
        return row.properties()

    return catalog.manifest.read(look)


def alter_properties(catalog: Catalog, identifier: Identifier, changes: Mapping[str, str | None]) -> dict[str, str]:
    """Set and remove (None) properties of a namespace, the root included, and return those it has now."""
    manifest = catalog.require_manifest("alter_namespace_properties")
    for key, value in changes.items():
        if not isinstance(key, str) or not key or not (value is None or isinstance(value, str)):
            raise InvalidInputError(f"A property is a name and a text, or None to remove it; got {key!r}: {value!r}")
        properties_json({key: value or ""})
    if identifier == ROOT:
        flags.require_free_keys(changes)
        manifest.update_metadata(changes)
        return manifest.read(lambda snapshot: flags.root_properties(snapshot.metadata))

    def plan(draft: Draft) -> dict[str, str]:
        row = draft.get(object_id(identifier))
        if row is None or row.object_type != NAMESPACE:
            raise namespace_not_found(identifier)
        row.require_readable_metadata()
        merged = {**row.properties(), **changes}
        kept = {key: value for key, value in merged.items() if value is not None}
        draft.put(row.with_properties(properties_json(kept)))
        return kept

    return manifest.mutate(plan)


def list_children(
    catalog: Catalog, identifier: Identifier, token: str | None, limit: int | None
) -> tuple[list[str], str | None]:
    """List a page of the namespaces directly below one; V1 has none."""
    if catalog.manifest is None:
        catalog.resolver.require_namespace(identifier)
        return select_page([], token, limit)

    def look(snapshot: Snapshot) -> tuple[list[str], str | None]:
        if not namespace_exists(snapshot, identifier):
            raise namespace_not_found(identifier)
        return select_page(snapshot.namespace_names(object_id(identifier)), token, limit)

    return catalog.manifest.read(look)


def list_all(catalog: Catalog, below: Identifier) -> list[str]:
    """List the full identifiers of all namespaces at any depth below one, parents before children; V1 has none."""
    if catalog.manifest is None:
        catalog.resolver.require_namespace(below)
        return []

    def walk(snapshot: Snapshot, parent: str) -> Iterator[str]:
        # Not recursive: rows of other clients may be nested deeper than the stack is.
        waiting = [parent]
        while waiting:
            above = waiting.pop()
            if above != parent:
                yield above
            names = snapshot.namespace_names(above)
            waiting += [object_id((above, name)) if above else name for name in reversed(names)]

    def look(snapshot: Snapshot) -> list[str]:
        if not namespace_exists(snapshot, below):
            raise namespace_not_found(below)
        return list(walk(snapshot, object_id(below)))

    return catalog.manifest.read(look)


def _put_into_trash(draft: Draft, namespace: Row, deletion: trash.Deletion, *, force: bool) -> None:
    """Move a namespace with everything below it to the trash, as one group."""
    keys = list(draft.descendants(namespace.object_id))
    for row in [namespace, *(row for key in keys if (row := draft.get(key)) is not None)]:
        require_unprotected(row, force=force)
        trash.put_into(draft, row, deletion)


def _require_no_root_table(catalog: Catalog, identifier: Identifier) -> None:
    """Refuse the name of a root table that only the directory knows; a namespace that is there comes first."""
    if len(identifier) > 1 or not catalog.lists_directories:
        return
    name = identifier[0]
    known = catalog.require_manifest("create_namespace").peek(lambda snapshot: snapshot.get(name))
    if known is not None and known.object_type == NAMESPACE:
        return
    # Nearly always there is nothing, which one request tells.
    if catalog.store.list_names(layout.root_table(name)) and look_at_root_table(catalog.store, name).visible:
        raise NamespaceAlreadyExistsError(f"A table of that name already exists: {format_identifier(identifier)}")
