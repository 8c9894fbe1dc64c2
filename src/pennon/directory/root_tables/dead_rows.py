"""Rows of root tables whose directory is gone.

A root table exists by its directory. If another client dropped or deregistered it, its row is dead: it does not keep
the name, and is removed when the name is needed again (ADR 0006).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pennon.directory import layout, table_rows
from pennon.directory.lookup.directories import look_at, look_at_root_table
from pennon.directory.lookup.resolve import is_root_table
from pennon.directory.manifest import TABLE
from pennon.directory.markers.marker import REVIVING, UNDROP, Marker
from pennon.directory.root_tables.settle import acquire_claim
from pennon.errors import NamespaceAlreadyExistsError, TableAlreadyExistsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pennon.directory.catalog import Catalog
    from pennon.identifiers import Identifier

T = TypeVar("T")


def retry_without_dead_row(catalog: Catalog, identifier: Identifier, act: Callable[[], T]) -> T:
    """Call a function that needs a name; if a dead row is in the way, remove the row and call it again."""
    try:
        return act()
    except (TableAlreadyExistsError, NamespaceAlreadyExistsError):
        if not _remove_dead_row(catalog, identifier):
            raise
    return act()


def _remove_dead_row(catalog: Catalog, identifier: Identifier) -> bool:
    """Remove the row of a root table that does not exist, under a claim that excludes creators. False if it exists."""
    manifest = catalog.manifest
    if manifest is None or len(identifier) != 1:
        return False
    name = identifier[0]
    row = manifest.read(lambda snapshot: snapshot.get(name))
    if row is None or row.object_type != TABLE or not is_root_table(identifier, str(row.location)):
        return False
    if look_at_root_table(catalog.store, name).visible:
        return False
    with acquire_claim(catalog, name, Marker(REVIVING).with_lease(REVIVING, UNDROP)) as held:
        if held.prior is None and look_at(catalog.store, layout.root_table(name)).visible:
            return False
        manifest.mutate(lambda draft: table_rows.remove_root_row(draft, name))
    return True
