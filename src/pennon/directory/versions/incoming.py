"""Versions of tables that come into the catalog with data: their rows go into the same commit as the table's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory.manifest import Snapshot, flags, version_key
from pennon.directory.versions import managed, storage
from pennon.directory.versions.record import Record, of_row

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog


def records(catalog: Catalog, location: str) -> list[Record]:
    """Look which versions a directory has, if the catalog manages versions; nothing if it does not."""
    if catalog.manifest is None or not catalog.manifest.peek(lambda one: flags.manages_versions(one.metadata)):
        return []
    return list(storage.records(catalog.store, location).values())


def finish_replaced(catalog: Catalog, key: str) -> None:
    """Finish the versions of the table that has a key, if there is one: its row is about to be replaced."""
    row = None if catalog.manifest is None else catalog.manifest.peek(lambda snapshot: snapshot.get(key))
    if row is not None and row.location is not None:
        finish_all(catalog, key, row.location)


def finish_all(catalog: Catalog, key: str, location: str) -> None:
    """Finish the versions of a table whose rows are about to go: from then on its files say which there are."""
    if catalog.manifest is None:
        return

    def look(snapshot: Snapshot) -> list[Record]:
        rows = [snapshot.get(version_key(key, version)) for version in snapshot.versions_of(key)]
        return [record for record in (of_row(row) for row in rows if row is not None) if record.is_staged]

    table = managed.Table(key, location)
    managed.finish(catalog, [(table, record) for record in catalog.manifest.peek(look)])
