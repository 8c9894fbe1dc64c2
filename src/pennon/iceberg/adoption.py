"""Add tables to the catalog whose data was written before.

The data is in a new directory that no table refers to, and has a first version. Clients that know the location can open
and check it; others do not see it. A crash leaves that directory. If the server manages versions, it can also leave
a declared table, because the name is taken before the commit. The next client that writes the table fills it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import (
    InvalidInputError,
    InvalidTableStateError,
    UnsupportedOperationError,
)
from pennon.iceberg import arriving, batch, creation, dropping, entries
from pennon.iceberg.entry import CHOSEN, MANAGED_BY
from pennon.iceberg.places import name_ending
from pennon.iceberg.schema import convert_schema
from pennon.iceberg.settings import IMPL
from pennon.identifiers import Identifier, format_identifier
from pennon.table.writing import WRITTEN_ENTRIES, PreparedData
from pennon.table_commits import NewTable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance import LanceDataset
    from lance_namespace import LanceNamespace

    from pennon.iceberg.catalog import Catalog
    from pennon.iceberg.entry import Entry

_DATA = "data"
_FIRST = 1
_DIGITS = 32
"""How many random digits the name of a new directory begins with."""


def new_location(catalog: Catalog, identifier: Identifier) -> str:
    """Return a new directory for a table that does not exist yet.

    Raises NamespaceNotFoundError if the parent does not exist, TableAlreadyExistsError if the table exists,
    InvalidInputError if there is no root.
    """
    entries.require_namespace_level(identifier)
    arriving.require_absent(catalog, identifier)
    root, location = catalog.places.root, catalog.places.new(identifier)
    path = None if location is None else catalog.places.below_root(location)
    if root is None or path is None:
        raise InvalidInputError(
            f"Writing {format_identifier(identifier)} before it is in the catalog needs the property 'root'"
        )
    return root.location(path)


def require_unadopted(catalog: Catalog, identifier: Identifier, location: str) -> str:
    """Return the path of a location from `new_location` that no table of the server uses.

    Loads every table. Raises InvalidTableStateError for any other location, and for a directory that contains more than
    a table that is being written.
    """
    root, path = catalog.places.root, catalog.places.below_root(location)
    known = path is not None and catalog.places.is_new_name(path) and path[_DIGITS:] == name_ending(identifier)
    if root is None or path is None or not known:
        raise _not_new(
            identifier, location, "it is not a location that the catalog chooses for a new table of this name"
        )
    for entry in dropping.all_tables(catalog):
        there = catalog.places.below_root(entry.location)
        if there is not None and (there == path or there.startswith(f"{path}/")):
            raise _not_new(identifier, location, f"table {format_identifier(entry.identifier)} uses it")
    level = root.list_level(path)
    strange = sorted({*(one.name for one in level.files), *level.directories} - WRITTEN_ENTRIES)
    if strange:
        raise _not_new(identifier, location, f"no new table has {strange[0]!r} in its directory")
    return path


def discard(catalog: Catalog, identifier: Identifier, location: str) -> None:
    """Delete the files at a new location. Raises InvalidTableStateError if a table of the server may use them."""
    path = require_unadopted(catalog, identifier, location)
    if catalog.places.root is not None:
        catalog.places.root.delete_tree(path)


def _not_new(identifier: Identifier, location: str, reason: str) -> InvalidTableStateError:
    return InvalidTableStateError(f"{location!r} is not a new location of {format_identifier(identifier)}: {reason}")


def adopt(
    catalog: Catalog, client: LanceNamespace, identifier: Identifier, location: str, given: Mapping[str, str] | None
) -> int:
    """Add a table that was written at a new location to the catalog, and return its version.

    The commit point is the server's CreateTable, or UpdateTable if the server manages versions. The data of a declared
    table that keeps its own location is copied there within the store.
    Raises NamespaceNotFoundError if the parent does not exist, TableAlreadyExistsError if the table has data,
    InvalidInputError for a bad location, ConcurrentModificationError if another client was first.
    """
    stored = entries.properties_of(catalog, identifier, given)
    path, dataset = arriving.open_written(catalog, identifier, location)
    declared = arriving.require_absent(catalog, identifier)
    is_managed = stored[MANAGED_BY] == IMPL if declared is None else declared.is_managed
    if is_managed and not (declared is None and catalog.shows_files):
        return batch.commit_tables(catalog, client, [NewTable(identifier, location, given)])[identifier]
    if declared is None:
        uri = arriving.directory_uri(catalog, path)
        entries.create(catalog, identifier, uri, convert_schema(dataset.schema), {**stored, CHOSEN: "true"})
        return int(dataset.version)
    wanted = creation.EntrySpec(identifier, _prepare_copy(catalog, declared, dataset, path), given, {}, client)
    made = creation.fill_declared(catalog, declared, wanted)
    if catalog.places.root is not None:
        catalog.places.root.delete_tree(path)
    return made.version or _FIRST


def _prepare_copy(catalog: Catalog, declared: Entry, dataset: LanceDataset, path: str) -> PreparedData:
    """Return the data with a function that copies it to the location of a declared table."""
    root, target = catalog.places.root, catalog.places.below_root(declared.location)
    if root is None or target is None:
        raise UnsupportedOperationError(
            f"Table {format_identifier(declared.identifier)} was declared outside the root, at "
            f"{declared.location!r}: data below the root cannot be copied there"
        )

    def bring(_: str) -> None:
        root.copy_tree(f"{path}/{_DATA}", f"{target}/{_DATA}")

    return PreparedData.of(dataset, bring)
