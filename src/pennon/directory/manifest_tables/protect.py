"""Protect a manifest table by an entry in its row's metadata. Namespaces are protected in the same way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory.manifest import NAMESPACE, TABLE
from pennon.identifiers import Identifier, namespace_not_found, object_id, table_not_found

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.resolve import ResolvedTable
    from pennon.directory.manifest import Draft


def protect(catalog: Catalog, table: ResolvedTable, *, protected: bool) -> None:
    """Set or lift the protection of a manifest table. Raises TableNotFoundError if it has no row."""
    _protect_row(catalog, table.identifier, TABLE, protected=protected)


def protect_namespace(catalog: Catalog, identifier: Identifier, *, protected: bool) -> None:
    """Set or lift the protection of a namespace. Raises NamespaceNotFoundError if it does not exist."""
    _protect_row(catalog, identifier, NAMESPACE, protected=protected)


def _protect_row(catalog: Catalog, identifier: Identifier, object_type: str, *, protected: bool) -> None:
    def plan(draft: Draft) -> None:
        row = draft.get(object_id(identifier))
        if row is None or row.object_type != object_type:
            if object_type == TABLE:
                raise table_not_found(identifier)
            raise namespace_not_found(identifier)
        draft.put(row.with_protection(protected=protected))

    catalog.require_manifest("protection").mutate(plan)
