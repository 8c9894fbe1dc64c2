"""Protect tables and namespaces from being dropped and purged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory.lifecycle.kinds import kind_of
from pennon.directory.manifest_tables.protect import protect_namespace as protect_namespace_row
from pennon.errors import InvalidInputError
from pennon.identifiers import ROOT, Identifier

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog


def protect_table(catalog: Catalog, identifier: Identifier, *, protected: bool) -> None:
    """Set or lift the protection of a table. Raises NamespaceNotFoundError or TableNotFoundError."""
    table = catalog.resolver.table(identifier)
    kind_of(table).protect(catalog, table, protected=protected)


def protect_namespace(catalog: Catalog, identifier: Identifier, *, protected: bool) -> None:
    """Set or lift the protection of a namespace. Raises NamespaceNotFoundError."""
    if identifier == ROOT:
        raise InvalidInputError("The root namespace cannot be dropped and needs no protection")
    protect_namespace_row(catalog, identifier, protected=protected)
