"""Tables whose data is written first, by many hands and for as long as it takes, and which come into the catalog then.

The data lies in a directory of its own that nothing refers to, with a first version: it can be opened and checked by
whoever knows the place, and nobody else sees it. A crash leaves that directory. Where the server manages versions it
may also leave a declared table, which the next one to write the table fills: the name is taken before the commit.
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
    """Name a directory, never used before, for a table that is to be; errors 1, 5 (it is there), 13 (no root)."""
    entries.require_namespace_level(identifier)
    arriving.require_absent(catalog, identifier)
    root, location = catalog.places.root, catalog.places.new(identifier)
    path = None if location is None else catalog.places.below_root(location)
    if root is None or path is None:
        raise InvalidInputError(
            f"To write {format_identifier(identifier)} before it is in the catalog needs the property 'root'"
        )
    return root.location(path)


def require_unadopted(catalog: Catalog, identifier: Identifier, location: str) -> str:
    """Return the path of a place that `place` may have named for a table, and in which no table of the server lies.

    Looks at every table. Raises InvalidTableStateError for any other place, and for a directory in which there is more
    than a table has while it is written.
    """
    root, path = catalog.places.root, catalog.places.below_root(location)
    known = path is not None and catalog.places.is_new_name(path) and path[_DIGITS:] == name_ending(identifier)
    if root is None or path is None or not known:
        raise _not_new(identifier, location, "the catalog gives no such place to a new table of this name")
    for entry in dropping.all_tables(catalog):
        there = catalog.places.below_root(entry.location)
        if there is not None and (there == path or there.startswith(f"{path}/")):
            raise _not_new(identifier, location, f"table {format_identifier(entry.identifier)} is there")
    level = root.list_level(path)
    strange = sorted({*(one.name for one in level.files), *level.directories} - WRITTEN_ENTRIES)
    if strange:
        raise _not_new(identifier, location, f"no new table has {strange[0]!r} in its directory")
    return path


def discard(catalog: Catalog, identifier: Identifier, location: str) -> None:
    """Delete what was written at a place, once it is proven to be no table of the server; error 19 if it is not."""
    path = require_unadopted(catalog, identifier, location)
    if catalog.places.root is not None:
        catalog.places.root.delete_tree(path)


def _not_new(identifier: Identifier, location: str, reason: str) -> InvalidTableStateError:
    return InvalidTableStateError(
        f"{location!r} is not a place where {format_identifier(identifier)} was written before it is in the "
        f"catalog: {reason}"
    )


def adopt(
    catalog: Catalog, client: LanceNamespace, identifier: Identifier, location: str, given: Mapping[str, str] | None
) -> int:
    """Bring a table that was written at such a place into the catalog; gives its version. Errors 1, 5, 13, 14.

    The commit point is the server's CreateTable, or where the server manages versions, UpdateTable. A declared table
    whose files decide about versions, or that has to stay where it is, has a place already: the data is copied there
    within the store.
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
    wanted = creation.TableSpec(identifier, _prepare_copy(catalog, declared, dataset, path), given, {}, client)
    made = creation.fill_declared(catalog, declared, wanted)
    if catalog.places.root is not None:
        catalog.places.root.delete_tree(path)
    return made.version or _FIRST


def _prepare_copy(catalog: Catalog, declared: Entry, dataset: LanceDataset, path: str) -> PreparedData:
    """Describe the data, as it can be copied to the place of a declared table."""
    root, target = catalog.places.root, catalog.places.below_root(declared.location)
    if root is None or target is None:
        raise UnsupportedOperationError(
            f"Table {format_identifier(declared.identifier)} was declared outside of the root, at "
            f"{declared.location!r}: what was "
            "written below the root cannot be copied there"
        )

    def bring(_: str) -> None:
        root.copy_tree(f"{path}/{_DATA}", f"{target}/{_DATA}")

    return PreparedData.of(dataset, bring)
