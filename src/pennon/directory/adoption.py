"""Tables whose data is written first, by many hands and for as long as it takes, and which come into the catalog then.

The data lies in a directory of its own that nothing refers to, with a first version: it can be opened and checked by
whoever knows the place, and nobody else sees it. A crash leaves that directory and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance

from pennon.directory import layout, names
from pennon.directory.creation import Created, create
from pennon.directory.manifest import TABLE, Row, properties_json
from pennon.directory.versions import operations
from pennon.errors import InvalidInputError, TableAlreadyExistsError, is_not_found
from pennon.identifiers import Identifier, object_id, shown
from pennon.modes import CreateMode
from pennon.table.writing import PreparedData

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance import LanceDataset

    from pennon.directory.catalog import Catalog
    from pennon.directory.resolve import Found

_DATA = "data"


def place(catalog: Catalog, identifier: Identifier) -> str:
    """Name a directory, never used before, for a table that is to be; error 5 if the table is there already, 1."""
    require_absent(catalog, identifier)
    return layout.hashed(object_id(identifier))


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
        names.require_unused(catalog, identifier)
        names.forgetting_dead_rows(catalog, identifier, lambda: names.insert_row(catalog, row))
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
    return len(identifier) > 1 or not catalog.lists_directories or operations.manages(catalog)


def require_absent(catalog: Catalog, identifier: Identifier) -> Found | None:
    """Raise 5 if there is a table with data; gives one that is only declared."""
    found = catalog.resolver.find(identifier, look=True)
    if found is None or found.directory is None:
        if catalog.manifest is not None:
            names.require_free(catalog, identifier)
        return None
    if found.is_root_table and not found.directory.visible:
        return None
    if found.directory.only_declared:
        return found
    raise TableAlreadyExistsError(f"Table already exists: {shown(identifier)}")


def opened(catalog: Catalog, identifier: Identifier, location: str) -> LanceDataset:
    """Open what was written at a place; 13 if there is nothing, or it is no such place."""
    if layout.root_table_name(location) is not None:
        raise InvalidInputError(f"{location!r} is the place of a root table, not of what is to be {shown(identifier)}")
    try:
        return lance.dataset(
            catalog.store.location(layout.checked_location(location)),
            storage_options=catalog.store.storage_options or None,
            session=catalog.session,
        )
    except (OSError, ValueError) as error:
        if is_not_found(error):
            raise InvalidInputError(f"There is no table at {location!r} to become {shown(identifier)}") from error
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
