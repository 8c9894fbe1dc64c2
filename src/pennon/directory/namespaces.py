"""Create, drop, list and describe namespaces. A namespace is a row of the manifest and nothing else."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.clock import now_ms
from pennon.directory.lookup.directories import look_at_root_table
from pennon.directory.lookup.resolve import namespace_exists
from pennon.directory.manifest import NAMESPACE, Draft, Row, Snapshot, flags, properties_json
from pennon.directory.manifest_tables import trash
from pennon.directory.protection import require_unprotected
from pennon.directory.root_tables.settle import retry_without_dead_row
from pennon.errors import (
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
)
from pennon.identifiers import ROOT, Identifier, format_identifier, namespace_not_found, object_id, parent_not_found
from pennon.modes import CreateMode, DropBehavior, DropMode
from pennon.paging import fetch_page, select_page

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pennon.directory.catalog import Catalog


def create(
    catalog: Catalog, identifier: Identifier, mode: CreateMode, properties: Mapping[str, str] | None
) -> dict[str, str]:
    """Create a namespace and return its properties. The commit point is one commit of the manifest.

    Raises NamespaceAlreadyExistsError if the name is taken, NamespaceNotFoundError if its parent does not exist.
    """
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
    deletion = trash.Deletion(now_ms(), catalog.settings.drop_ttl_ms, uuid.uuid4().hex)

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
        _move_to_trash(draft, existing, deletion, force=False)
        draft.put(replace(wanted, extra=existing.extra))
        return wanted

    return retry_without_dead_row(catalog, identifier, lambda: manifest.mutate(plan, may_be_offered=True)).properties()


def drop(
    catalog: Catalog,
    identifier: Identifier,
    mode: DropMode,
    behavior: DropBehavior,
    *,
    ttl_ms: int | None = None,
    force: bool = False,
) -> dict[str, str]:
    """Drop a namespace and return its properties; with CASCADE also everything in it.

    The commit point is one commit of the manifest, which moves all of it to the trash. An empty namespace is only
    removed. Raises NamespaceNotFoundError, or NamespaceNotEmptyError if it has children and the behavior is RESTRICT.
    """
    if identifier == ROOT:
        raise InvalidInputError("The root namespace cannot be dropped")
    manifest = catalog.require_manifest("drop_namespace")
    key = object_id(identifier)
    retention_ms = catalog.settings.drop_ttl_ms if ttl_ms is None else ttl_ms
    deletion = trash.Deletion(now_ms(), retention_ms, uuid.uuid4().hex)

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
            _move_to_trash(draft, row, deletion, force=force)
        return row

    row = manifest.mutate(plan, may_be_offered=True)
    return {} if row is None else row.properties()


def describe(catalog: Catalog, identifier: Identifier) -> dict[str, str] | None:
    """Return the properties of a namespace; None in V1, which has none. Raises NamespaceNotFoundError."""
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
    """Set properties of a namespace or of the root, remove those with the value None, and return all."""
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

    return manifest.mutate(plan, may_be_offered=True)


def list_children(
    catalog: Catalog, identifier: Identifier, token: str | None, limit: int | None
) -> tuple[list[str], str | None]:
    """Return a page of the child namespaces' names, and the token of the next page. V1 has none."""
    if catalog.manifest is None:
        catalog.resolver.require_namespace(identifier)
        return select_page([], token, limit)

    def look(snapshot: Snapshot) -> tuple[list[str], str | None]:
        if not namespace_exists(snapshot, identifier):
            raise namespace_not_found(identifier)
        parent = object_id(identifier)
        return fetch_page(lambda after, count: snapshot.namespace_names(parent, after, count), token, limit)

    return catalog.manifest.read(look)


def list_all(catalog: Catalog, below: Identifier) -> list[str]:
    """Return the object ids of all namespaces below one, parents before children. V1 has none."""
    if catalog.manifest is None:
        catalog.resolver.require_namespace(below)
        return []

    def walk(snapshot: Snapshot, parent: str) -> Iterator[str]:
        # Not recursive: rows of other clients may be nested deeper than the stack allows.
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


def _move_to_trash(draft: Draft, namespace: Row, deletion: trash.Deletion, *, force: bool) -> None:
    """Move a namespace and everything below it to the trash, as one group."""
    keys = list(draft.descendants(namespace.object_id))
    draft.expect(*keys)
    for row in [namespace, *(row for key in keys if (row := draft.get(key)) is not None)]:
        require_unprotected(row, force=force)
        trash.move_to_trash(draft, row, deletion)


def _require_no_root_table(catalog: Catalog, identifier: Identifier) -> None:
    """Raise NamespaceAlreadyExistsError if a root table without a row has the name."""
    if len(identifier) > 1 or not catalog.lists_directories:
        return
    name = identifier[0]
    known = catalog.require_manifest("create_namespace").peek(lambda snapshot: snapshot.get(name))
    if known is not None and known.object_type == NAMESPACE:
        return
    # Almost always there is nothing, and one request is enough.
    if catalog.store.list_names(layout.root_table(name)) and look_at_root_table(catalog.store, name).visible:
        raise NamespaceAlreadyExistsError(f"A table of that name already exists: {format_identifier(identifier)}")
