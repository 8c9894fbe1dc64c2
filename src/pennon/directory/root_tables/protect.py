"""Protect a root table by a file in its directory, because it may have no row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import layout

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.resolve import ResolvedTable


def protect(catalog: Catalog, table: ResolvedTable, *, protected: bool) -> None:
    """Set or lift the protection of a root table."""
    path = layout.inside(table.location, layout.PROTECTED_MARKER)
    if protected:
        catalog.store.put(path, layout.MARKER_BODY)
    else:
        catalog.store.delete(path)
