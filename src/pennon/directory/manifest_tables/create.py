"""Declare, create and fill manifest tables.

A manifest table is written to a new directory and exists as soon as its row is committed. If the row is not committed,
the directory is deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon.directory import layout, table_rows
from pennon.directory.lookup.directories import look_at
from pennon.directory.manifest import Draft, Row, is_live
from pennon.directory.manifest_tables import trash
from pennon.directory.manifest_tables.late_versions import delete_if_purged
from pennon.directory.markers.reservation import Reservation
from pennon.directory.root_tables.deletion import delete_leftovers
from pennon.directory.table_rows import CreatedTable, TableSpec, TableUpload
from pennon.directory.versions import service
from pennon.errors import ConcurrentModificationError, TableAlreadyExistsError
from pennon.identifiers import Identifier, format_identifier, object_id
from pennon.store import call_together
from pennon.table.writing import write_version

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.resolve import ResolvedTable


def declare(catalog: Catalog, identifier: Identifier, row: Row, *, contested: bool = False) -> None:
    """Declare a table at the location of its row. It is contested if the caller chose it.

    The commit point is the row. A crash before it leaves files that no row names. Raises TableAlreadyExistsError if
    the name or the location is taken, NamespaceNotFoundError if the namespace does not exist.
    """
    location = str(row.location)
    table_rows.require_free(catalog, identifier)
    table_rows.require_no_root_table(catalog, identifier)
    if contested and look_at(catalog.store, location).has_files:
        raise TableAlreadyExistsError(
            f"The location {location!r} of {format_identifier(identifier)} is not empty; choose another one"
        )
    reservation = Reservation(catalog.store, location, contested=contested)
    with reservation.undo_on_error(catalog.manifest):
        # Nobody sees either file before the row.
        call_together(catalog.store, reservation.announce, reservation.commit)
        table_rows.insert_row(catalog, row)


def create(catalog: Catalog, spec: TableSpec, location: str) -> CreatedTable:
    """Write a new table to a directory that was never used. The commit point is its row.

    Raises TableAlreadyExistsError if the name is taken, NamespaceNotFoundError if the namespace does not exist.
    """
    row = spec.row(location)
    planned: list[Row] = []
    try:
        version = write_version(
            catalog.store.resolve(location),
            spec.data,
            spec.storage_options,
            session=catalog.session,
            upload=TableUpload.of(catalog, spec, location, is_new=True),
        )
        table_rows.insert_row(catalog, row, on_plan=planned.append)
    except BaseException as error:
        if not planned or not catalog.require_manifest("create_table").may_refer_to(location, error):
            catalog.store.delete_tree(location)
        raise
    return CreatedTable(location, row.properties(), version)


def fill(catalog: Catalog, table: ResolvedTable, spec: TableSpec) -> CreatedTable:
    """Write the first version of a declared table, which keeps its properties unless new ones are given.

    The commit point is that version. Raises ConcurrentModificationError if the table was dropped at the same time.
    """
    location = table.location
    try:
        version = write_version(
            catalog.store.resolve(location, deeply=True),
            spec.data,
            spec.storage_options,
            session=catalog.session,
            through=_commit_options(catalog, table) if service.is_managed(catalog, table) else None,
            properties=spec.request_properties,
            upload=TableUpload.of(catalog, spec, location),
        )
    except BaseException as error:
        delete_leftovers(catalog.store, location, error)
        if isinstance(error, OSError) and _is_dropped(catalog, table):
            delete_if_purged(catalog, location)
            raise _dropped_error(table) from error
        raise
    catalog.store.delete(layout.declared_marker(location))
    row, is_purged = catalog.require_manifest("create_table").mutate(lambda draft: _update_row(draft, table, spec))
    if row is None:
        if is_purged:
            catalog.store.delete_tree(location)
        raise _dropped_error(table)
    return CreatedTable.of(catalog, row, version)


def _update_row(draft: Draft, table: ResolvedTable, spec: TableSpec) -> tuple[Row | None, bool]:
    """Return the row of a table that was filled, with its new properties; without a row, whether it was purged."""
    row = draft.get(object_id(table.identifier))
    if row is None or row.location != table.location:
        # The table was renamed or dropped at the same time.
        owners = trash.live_owners(draft, table.location)
        return (draft.get(owners[0]) if owners else None), trash.is_abandoned(draft, table.location)
    if spec.properties:
        row = row.filled_by(spec.row(table.location))
        draft.put(row)
    return row, False


def _is_dropped(catalog: Catalog, table: ResolvedTable) -> bool:
    manifest = catalog.require_manifest("create_table")
    return manifest.read(lambda snapshot: not any(map(is_live, snapshot.object_ids_at(table.location))))


def _dropped_error(table: ResolvedTable) -> ConcurrentModificationError:
    return ConcurrentModificationError(f"Table {format_identifier(table.identifier)} was dropped while it was created")


def _commit_options(catalog: Catalog, table: ResolvedTable) -> dict[str, Any]:
    # Imported here: unmanaged tables are created without loading the SDK's models (docs/adr/0010).
    from pennon.directory.versions import callback  # noqa: PLC0415

    return callback.commit_arguments(catalog, table.identifier)
