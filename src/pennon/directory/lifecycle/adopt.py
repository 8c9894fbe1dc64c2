"""Adopt tables whose data was written before the catalog knew them.

Many processes may write the data, for as long as it takes, to a new directory that nothing refers to. It has a first
version, so it can be opened and checked, and no other client sees it. A crash leaves that directory and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance

from pennon.directory import layout, table_rows
from pennon.directory.lifecycle.create import create
from pennon.directory.manifest import TABLE, Draft, Manifest, Row, properties_json
from pennon.directory.root_tables.settle import retry_without_dead_row
from pennon.directory.table_rows import CreatedTable
from pennon.directory.versions import managed
from pennon.errors import InvalidInputError, InvalidTableStateError, TableAlreadyExistsError, is_not_found
from pennon.identifiers import Identifier, format_identifier, object_id
from pennon.modes import CreateMode
from pennon.table.writing import WRITTEN_ENTRIES, PreparedData

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance import LanceDataset

    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.resolve import ResolvedTable

_DATA = "data"


def choose_location(catalog: Catalog, identifier: Identifier) -> str:
    """Return a new directory in which a table can be written.

    Raises TableAlreadyExistsError if the table exists, NamespaceNotFoundError.
    """
    require_absent(catalog, identifier)
    return layout.new_hashed_directory(object_id(identifier))


def require_unadopted(catalog: Catalog, identifier: Identifier, location: str) -> str:
    """Return the path of a location that `choose_location` may have returned, and that no row names.

    Raises InvalidTableStateError for any other location: outside the root, chosen for another table, named by a row or
    inside the location of one, or a directory that holds anything but a table being written.
    """
    path = catalog.store.relative(location)
    if path is None or not layout.is_hashed_directory_of(path, object_id(identifier)):
        raise _not_new_error(identifier, location, "the catalog chooses no such location for this name")
    # A V1 client may share the root with clients that use a manifest.
    manifest = catalog.manifest or Manifest(catalog.store)
    try:
        owners = manifest.read(lambda snapshot: Draft(snapshot).overlapping(path))
    finally:
        if manifest is not catalog.manifest:
            manifest.close()
    if owners:
        raise _not_new_error(identifier, location, f"it belongs to {owners[0]!r}")
    level = catalog.store.list_level(path)
    foreign = sorted({*(one.name for one in level.files), *level.directories} - WRITTEN_ENTRIES)
    if foreign:
        raise _not_new_error(identifier, location, f"it holds {foreign[0]!r}, which no new table has")
    return path


def discard(catalog: Catalog, identifier: Identifier, location: str) -> None:
    """Delete what was written to a location and was not adopted.

    Raises InvalidTableStateError if it may belong to a table. A crash leaves a part of it, which nothing refers to.
    """
    catalog.store.delete_tree(require_unadopted(catalog, identifier, location))


def _not_new_error(identifier: Identifier, location: str, reason: str) -> InvalidTableStateError:
    return InvalidTableStateError(
        f"{location!r} is not a new location of {format_identifier(identifier)}, and is kept: {reason}"
    )


def adopt(
    catalog: Catalog, identifier: Identifier, location: str, properties: Mapping[str, str] | None
) -> CreatedTable:
    """Add a table that was written to a new location to the catalog.

    The commit point of a manifest table is its row. A root table, and a declared one, has its own directory: the data
    is copied there within the store, and the table is created like any other. If that fails, the data stays at the new
    location. Raises TableAlreadyExistsError, NamespaceNotFoundError, ConcurrentModificationError, InvalidInputError if
    there is no data, or InvalidTableStateError if the location may belong to another table.
    """
    dataset = open_location(catalog, identifier, location)
    declared = require_absent(catalog, identifier)
    if declared is None and stays_in_place(catalog, identifier):
        row = Row(object_id(identifier), TABLE, location, properties_json(properties))
        table_rows.require_no_root_table(catalog, identifier)
        retry_without_dead_row(catalog, identifier, lambda: table_rows.insert_row(catalog, row))
        return CreatedTable(location, row.properties(), int(dataset.version))
    data = prepare_data(catalog, identifier, dataset, location)
    created = create(catalog, identifier, data, CreateMode.CREATE, properties=properties)
    catalog.store.delete_tree(location)
    return created


def stays_in_place(catalog: Catalog, identifier: Identifier) -> bool:
    """Return True if an adopted table stays in the directory in which it was written.

    A root table does not: clients that only list directories know it by `<name>.lance`. If the catalog manages
    versions, such clients must not write to its tables, so root tables stay too.
    """
    if catalog.manifest is None:
        return False
    return len(identifier) > 1 or not catalog.lists_directories or managed.manages_versions(catalog)


def require_absent(catalog: Catalog, identifier: Identifier) -> ResolvedTable | None:
    """Return the table if it is only declared, or None if it does not exist.

    Raises TableAlreadyExistsError if it has data, NamespaceNotFoundError.
    """
    table = catalog.resolver.find(identifier, look=True)
    if table is None or table.directory is None:
        if catalog.manifest is not None:
            table_rows.require_free(catalog, identifier)
        return None
    if table.is_hidden:
        return None
    if table.directory.is_only_declared:
        return table
    raise TableAlreadyExistsError(f"Table already exists: {format_identifier(identifier)}")


def open_location(catalog: Catalog, identifier: Identifier, location: str) -> LanceDataset:
    """Open what was written to a new location. Raises InvalidInputError if it holds no table."""
    if layout.root_table_name(location) is not None:
        raise InvalidInputError(
            f"{location!r} is the directory of a root table, not a new location of {format_identifier(identifier)}"
        )
    try:
        return lance.dataset(
            catalog.store.resolve(layout.check_location(location)),
            storage_options=catalog.store.storage_options or None,
            session=catalog.session,
        )
    except (OSError, ValueError) as error:
        if is_not_found(error):
            raise InvalidInputError(
                f"There is no table at {location!r} to adopt as {format_identifier(identifier)}"
            ) from error
        raise


def prepare_data(catalog: Catalog, identifier: Identifier, dataset: LanceDataset, location: str) -> PreparedData:
    """Return the data of a table in a form that can be copied to another directory.

    The caller deletes the location afterwards. So it must be a new one: raises InvalidTableStateError for any other.
    """
    store = catalog.store
    require_unadopted(catalog, identifier, store.location(location))

    def bring(target: str) -> None:
        inside = store.relative(target)
        if inside is None:
            raise InvalidInputError(f"{target!r} is not in the catalog's root")
        store.copy_tree(f"{location}/{_DATA}", f"{inside}/{_DATA}")

    return PreparedData.of(dataset, bring)
