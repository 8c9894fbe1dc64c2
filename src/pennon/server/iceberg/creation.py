"""CreateTable: register existing data, create an empty table from a schema, or declare a table without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.lifecycle import create, register
from pennon.directory.markers.reservation import Reservation
from pennon.directory.versions import managed, version_files
from pennon.errors import InvalidInputError, UnsupportedOperationError
from pennon.iceberg.entry import LANCE, MANAGED_BY, TABLE_TYPE
from pennon.iceberg.settings import IMPL, STORAGE
from pennon.identifiers import Identifier, format_identifier, table_identifier
from pennon.modes import CreateMode, RegisterMode
from pennon.server.iceberg import columns, documents

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pennon.directory.catalog import Catalog
    from pennon.server.iceberg.models import CreateTableRequest

_FORMAT_VERSION = "format-version"


def create_table(catalog: Catalog, namespace: Identifier, body: CreateTableRequest) -> Identifier:
    """Create a table and return its identifier.

    The commit point is that of the directory's own operation: register if the location has a table, create if there
    are columns, else declare.
    """
    identifier = table_identifier([*namespace, body.name])
    what = f"Table {format_identifier(identifier)}"
    properties = _properties(catalog, what, body.properties)
    if body.stage_create:
        raise UnsupportedOperationError(f"{what} cannot be staged: it is created at once or not at all")
    if body.partition_spec.fields:
        raise UnsupportedOperationError(f"{what} cannot have 'partition-spec': a Lance table has no partitions")
    if body.write_order.fields:
        raise UnsupportedOperationError(f"{what} cannot have 'write-order': a Lance table has no sort order")
    arrow = columns.arrow_schema(body.schema_)
    if body.location is not None:
        _at(catalog, identifier, body.location, properties, has_columns=bool(len(arrow)))
    elif len(arrow):
        create.create(catalog, identifier, arrow.empty_table(), CreateMode.CREATE, properties=properties)
    else:
        create.declare(catalog, identifier, None, properties)
    return identifier


def _at(
    catalog: Catalog, identifier: Identifier, location: str, properties: Mapping[str, str], *, has_columns: bool
) -> None:
    """Use a location that the client chose: register the table there, or declare one."""
    inside = catalog.store.relative(location.rstrip("/"))
    if not inside:
        raise InvalidInputError(
            f"The location {location!r} of {format_identifier(identifier)} is not in the catalog's root; "
            "without a location, the "
            "catalog chooses one"
        )
    place = layout.check_location(inside)
    if version_files.list_versions(catalog.store, place):
        register.register(catalog, identifier, place, RegisterMode.CREATE, properties)
    elif has_columns:
        raise UnsupportedOperationError(
            f"There is no Lance table at the location {location!r} of {format_identifier(identifier)}; "
            "without a location, the "
            "catalog chooses one, and makes an empty table"
        )
    elif catalog.store.has_files(place):
        _reserve_written(catalog, identifier, place, properties)
    else:
        create.declare(catalog, identifier, place, properties)


def _reserve_written(catalog: Catalog, identifier: Identifier, place: str, properties: Mapping[str, str]) -> None:
    """Reserve a location with a staged first version, for the commit that publishes it."""
    reservation = Reservation(catalog.store, place, contested=True)
    reservation.announce()
    with reservation.undo_on_error(catalog.manifest):
        reservation.commit()
        register.register(catalog, identifier, place, RegisterMode.CREATE, properties, allow_missing=True)


def _properties(catalog: Catalog, what: str, given: dict[str, str]) -> dict[str, str]:
    """Check the fixed properties, and return the others."""
    kind = given.get(TABLE_TYPE, LANCE)
    if kind.strip().lower() != LANCE:
        raise UnsupportedOperationError(f"{what} cannot have {TABLE_TYPE}={kind!r}: here are Lance tables only")
    manager = IMPL if managed.manages_versions(catalog) else STORAGE
    asked = given.get(MANAGED_BY, manager)
    if asked.strip().lower() != manager:
        who = "manages the versions of all its tables" if manager == IMPL else "does not manage versions"
        raise InvalidInputError(f"{what} cannot have {MANAGED_BY}={asked!r}: this catalog {who}; ask for {manager!r}")
    if given.get(documents.NO_CLEANING, "false").strip().lower() != "false":
        raise UnsupportedOperationError(f"{what} cannot have {documents.NO_CLEANING}: Lance cleans up its own files")
    if given.get(_FORMAT_VERSION, "2").strip() not in {"1", "2"}:
        raise UnsupportedOperationError(f"{what} is shown in format version {documents.FORMAT_VERSION} only")
    fixed = {TABLE_TYPE, MANAGED_BY, documents.NO_CLEANING, _FORMAT_VERSION}
    return {key: value for key, value in given.items() if key not in fixed}
