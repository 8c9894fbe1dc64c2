"""Tables whose data is written first, by many hands and for as long as it takes, and which come into the catalog then.

The data lies in a directory of its own that nothing refers to, with a first version: it can be opened and checked by
whoever knows the place, and nobody else sees it. A crash leaves that directory and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance

from pennon.directory import layout
from pennon.directory.lifecycle.create import create
from pennon.directory.lifecycle.fill import Created
from pennon.directory.manifest import TABLE, Draft, Manifest, Row, properties_json
from pennon.directory.manifest_tables import table_rows
from pennon.directory.versions import managed
from pennon.errors import InvalidInputError, InvalidTableStateError, TableAlreadyExistsError, is_not_found
from pennon.identifiers import Identifier, format_identifier, object_id
from pennon.modes import CreateMode
from pennon.table.writing import WRITTEN_ENTRIES, PreparedData

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance import LanceDataset

    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.resolve import Found

_DATA = "data"


def place(catalog: Catalog, identifier: Identifier) -> str:
    """Name a directory, never used before, for a table that is to be; error 5 if the table is there already, 1."""
    require_absent(catalog, identifier)
    return layout.hashed(object_id(identifier))


def require_unadopted(catalog: Catalog, identifier: Identifier, location: str) -> str:
    """Return the path of a place that `place` may have named for a table, and that nothing in the catalog names.

    Raises InvalidTableStateError for anything else: a place outside of the root, that of another table, one that a row
    of the manifest names or lies in, and a directory in which there is more than a table has while it is written.
    """
    path = catalog.store.relative(location)
    if path is None or not layout.is_hashed(path, object_id(identifier)):
        raise _not_new(identifier, location, "the catalog gives no such place to a new table of this name")
    # A client that only lists directories works beside those that have a manifest.
    manifest = catalog.manifest or Manifest(catalog.store)
    try:
        owners = manifest.read(lambda snapshot: Draft(snapshot).overlapping(path))
    finally:
        if manifest is not catalog.manifest:
            manifest.close()
    if owners:
        raise _not_new(identifier, location, f"the catalog has {owners[0]!r} there")
    level = catalog.store.list_level(path)
    strange = sorted({*(one.name for one in level.files), *level.directories} - WRITTEN_ENTRIES)
    if strange:
        raise _not_new(identifier, location, f"no new table has {strange[0]!r} in its directory")
    return path


def discard(catalog: Catalog, identifier: Identifier, location: str) -> None:
    """Delete what was written at a place, once it is proven to be no table of the catalog; error 19 if it is not.

    Nothing refers to the place, so a crash leaves a part of it and harms nobody.
    """
    catalog.store.delete_tree(require_unadopted(catalog, identifier, location))


def _not_new(identifier: Identifier, location: str, reason: str) -> InvalidTableStateError:
    return InvalidTableStateError(
        f"{location!r} is not a place where {format_identifier(identifier)} was written before it is in the "
        f"catalog: {reason}"
    )


def adopt(catalog: Catalog, identifier: Identifier, location: str, properties: Mapping[str, str] | None) -> Created:
    """Bring a table that was written at such a place into the catalog; errors 1, 5, 13, 14.

    The commit point is the manifest row where tables have hashed directories. A root table, and one that was declared,
    has a place of its own: the data is copied there within the store, and it is created like any other. What was
    written stays where it is if that fails.
    """
    dataset = opened(catalog, identifier, location)
    found = require_absent(catalog, identifier)
    if found is None and has_own_place(catalog, identifier):
        row = Row(object_id(identifier), TABLE, location, properties_json(properties))
        table_rows.require_unused(catalog, identifier)
        table_rows.forgetting_dead_rows(catalog, identifier, lambda: table_rows.insert_row(catalog, row))
        return Created(location, row.properties(), int(dataset.version))
    data = prepared(catalog, dataset, location)
    made = create(catalog, identifier, data, CreateMode.CREATE, properties=properties)
    catalog.store.delete_tree(location)
    return made


def has_own_place(catalog: Catalog, identifier: Identifier) -> bool:
    """Tell whether a new table stays in the directory in which it was written.

    A root table in `<name>.lance` does not: clients that only list directories know it by that name. Where the catalog
    manages versions, they have no business with its tables.
    """
    if catalog.manifest is None:
        return False
    return len(identifier) > 1 or not catalog.lists_directories or managed.manages_versions(catalog)


def require_absent(catalog: Catalog, identifier: Identifier) -> Found | None:
    """Raise 5 if there is a table with data; gives one that is only declared."""
    found = catalog.resolver.find(identifier, look=True)
    if found is None or found.directory is None:
        if catalog.manifest is not None:
            table_rows.require_free(catalog, identifier)
        return None
    if found.is_root_table and not found.directory.visible:
        return None
    if found.directory.only_declared:
        return found
    raise TableAlreadyExistsError(f"Table already exists: {format_identifier(identifier)}")


def opened(catalog: Catalog, identifier: Identifier, location: str) -> LanceDataset:
    """Open what was written at a place; 13 if there is nothing, or it is no such place."""
    if layout.root_table_name(location) is not None:
        raise InvalidInputError(
            f"{location!r} is the place of a root table, not of what is to be {format_identifier(identifier)}"
        )
    try:
        return lance.dataset(
            catalog.store.resolve(layout.checked_location(location)),
            storage_options=catalog.store.storage_options or None,
            session=catalog.session,
        )
    except (OSError, ValueError) as error:
        if is_not_found(error):
            raise InvalidInputError(
                f"There is no table at {location!r} to become {format_identifier(identifier)}"
            ) from error
        raise


def prepared(catalog: Catalog, dataset: LanceDataset, location: str) -> PreparedData:
    """Describe the data of a table, as it can be brought to another place."""
    store = catalog.store

    def bring(target: str) -> None:
        inside = store.relative(target)
        if inside is None:
            raise InvalidInputError(f"{target!r} is not in the catalog's root")
        store.copy_tree(f"{location}/{_DATA}", f"{inside}/{_DATA}")

    return PreparedData.of(dataset, bring)
