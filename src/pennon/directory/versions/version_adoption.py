"""Versions of tables that come into the catalog with data: their rows go into the same commit as the table's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory.manifest import Snapshot, flags
from pennon.directory.manifest.snapshot import table_fault
from pennon.directory.versions import version_files, version_rows

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog
    from pennon.directory.versions.record import Record


def records(catalog: Catalog, location: str) -> list[Record]:
    """Look which versions a directory has, if the catalog manages versions; nothing if it does not."""
    if catalog.manifest is None or not catalog.manifest.peek(lambda one: flags.manages_versions(one.metadata)):
        return []
    return list(version_files.records(catalog.store, location).values())


def finish_unfinished(catalog: Catalog, key: str, location: str) -> None:
    """Finish the versions of a table for a reader of its files. Reads delete nothing: what was staged stays."""
    _finish(catalog, key, location, tidy=False)


def finish_replaced(catalog: Catalog, key: str) -> None:
    """Finish the versions of the table that has a key, if there is one: its row is about to be replaced."""
    row = None if catalog.manifest is None else catalog.manifest.peek(lambda snapshot: snapshot.get(key))
    if row is not None and row.location is not None and table_fault(row) is None:
        finish_all(catalog, key, row.location)


def finish_all(catalog: Catalog, key: str, location: str) -> None:
    """Finish the versions of a table whose rows are about to go: from then on its files say which there are."""
    _finish(catalog, key, location, tidy=True)


def _finish(catalog: Catalog, key: str, location: str, *, tidy: bool) -> None:
    if catalog.manifest is None:
        return

    table = version_rows.Table(key, location)

    def look(snapshot: Snapshot) -> list[Record]:
        return [record for record in version_rows.records_in(snapshot, table).values() if record.is_staged]

    version_rows.finish(catalog, [(table, record) for record in catalog.manifest.peek(look)], tidy=tidy)
