"""Protected tables and namespaces: drop and purge refuse them unless forced.

A row carries it in its metadata, beside the properties; a root table in `<name>.lance`, which may have no row, by a
file in its directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.manifest import NAMESPACE, TABLE
from pennon.errors import InvalidInputError, InvalidTableStateError
from pennon.identifiers import ROOT, Identifier, format_identifier, namespace_not_found, object_id, table_not_found

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.listing import TableDirectory
    from pennon.directory.manifest import Draft, Row

FORCE_HINT = "lift the protection, or force it"


def require_unprotected(row: Row, *, force: bool) -> None:
    """Refuse what a row protects with InvalidTableStateError (19)."""
    if row.protected and not force:
        raise InvalidTableStateError(f"{row.object_type.capitalize()} '{row.object_id}' is protected: {FORCE_HINT}")


def require_unprotected_directory(identifier: Identifier, directory: TableDirectory, *, force: bool) -> None:
    """Refuse a root table whose directory is protected with InvalidTableStateError (19)."""
    if directory.protected and not force:
        raise InvalidTableStateError(f"Table {format_identifier(identifier)} is protected: {FORCE_HINT}")


def set_on_table(catalog: Catalog, identifier: Identifier, *, protected: bool) -> None:
    """Protect a table or lift its protection."""
    found = catalog.resolver.table(identifier)
    if not found.is_root_table:
        _set_on_row(catalog, identifier, TABLE, protected=protected)
        return
    path = layout.inside(found.location, layout.PROTECTED_MARKER)
    if protected:
        catalog.store.put(path, layout.MARKER_BODY)
    else:
        catalog.store.delete(path)


def set_on_namespace(catalog: Catalog, identifier: Identifier, *, protected: bool) -> None:
    """Protect a namespace or lift its protection."""
    if identifier == ROOT:
        raise InvalidInputError("The root namespace cannot be dropped and needs no protection")
    _set_on_row(catalog, identifier, NAMESPACE, protected=protected)


def _set_on_row(catalog: Catalog, identifier: Identifier, kind: str, *, protected: bool) -> None:
    key = object_id(identifier)

    def plan(draft: Draft) -> None:
        row = draft.get(key)
        if row is None or row.object_type != kind:
            if kind == TABLE:
                raise table_not_found(identifier)
            raise namespace_not_found(identifier)
        draft.put(row.with_protection(protected=protected))

    catalog.require_manifest("protection").mutate(plan)
