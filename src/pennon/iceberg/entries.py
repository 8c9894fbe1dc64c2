"""Entries of tables on the server: make one, rename it, take it away. Lost answers are found out by looking."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from pennon.errors import (
    InvalidInputError,
    NamespaceNotFoundError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from pennon.iceberg import rest
from pennon.iceberg.entry import CREATION_ID, LANCE, MANAGED_BY, OURS, TABLE_TYPE, Entry, parsed
from pennon.iceberg.http import UnknownOutcomeError
from pennon.iceberg.places import checked
from pennon.iceberg.settings import checked_manager
from pennon.identifiers import Identifier, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pennon.iceberg.catalog import Catalog

NO_COLUMNS: dict[str, Any] = {"type": "struct", "fields": []}
_ATTEMPTS = 4


def properties_of(catalog: Catalog, identifier: Identifier, given: Mapping[str, str] | None) -> dict[str, str]:
    """Give the properties of a new entry: the caller's, and those that make it a Lance table. Error 13."""
    properties = {str(key): str(value) for key, value in (given or {}).items()}
    if properties.get(TABLE_TYPE, LANCE).strip().lower() != LANCE:
        raise InvalidInputError(f"Table {shown(identifier)} cannot have the property {TABLE_TYPE} other than {LANCE!r}")
    if any(key.startswith(OURS) for key in properties):
        raise InvalidInputError(f"Properties of table {shown(identifier)} cannot begin with {OURS!r}")
    manager = checked_manager(properties.get(MANAGED_BY, catalog.settings.managed_by))
    # No cleaner of Iceberg may delete files of Lance.
    return {**properties, TABLE_TYPE: LANCE, MANAGED_BY: manager, "gc.enabled": "false"}


def create(
    catalog: Catalog,
    identifier: Identifier,
    location: str | None,
    schema: Mapping[str, Any],
    properties: Mapping[str, str],
) -> Entry:
    """Make an entry; the commit point is the server's CreateTable. Errors 1, 5, 13 (at the root), 17."""
    require_namespace_level(identifier)
    mark = uuid.uuid4().hex
    stored = {**properties, CREATION_ID: mark}
    metadata_path = None if location is None else catalog.places.metadata_path(location)
    if metadata_path is not None:
        stored["write.metadata.path"] = metadata_path
    body: dict[str, Any] = {"name": identifier[-1], "schema": {**schema, "schema-id": 1}, "properties": stored}
    if location is not None:
        body["location"] = location
    entry = _create(catalog, identifier, body, mark)
    if location is not None and checked(entry.location, identifier) != checked(location, identifier):
        remove(catalog, entry)
        raise UnsupportedOperationError(
            f"The server does not let table {shown(identifier)} be at {location!r}: it chose {entry.location!r}; "
            "connect without the property 'root' to leave the choice to the server"
        )
    if not entry.is_lance or any(entry.properties.get(key) != value for key, value in stored.items()):
        # Some servers take no properties along with a new table.
        entry = catalog.set_properties(entry, stored)
    return entry


def remove(catalog: Catalog, entry: Entry, how: Mapping[str, str] | None = None) -> None:
    """Take an entry away and nothing else; the commit point is the server's DropTable. Errors 4, 17.

    `how` are other parameters of DropTable, for a server that does more by them.
    """
    for attempt in range(_ATTEMPTS):
        try:
            catalog.server.call(
                rest.DROP_TABLE,
                entry.identifier,
                table=entry.identifier[-1],
                query=how or {"purgeRequested": "false"},
            )
        except (TableNotFoundError, NamespaceNotFoundError):
            there = catalog.any_table(entry.identifier)
            if there is not None and there.uuid == entry.uuid:
                raise UnsupportedOperationError(
                    f"The server does not drop table {shown(entry.identifier)}: it says that there is none"
                ) from None
            if attempt:
                return
            raise TableNotFoundError(f"Table not found: {shown(entry.identifier)}") from None
        except UnknownOutcomeError:
            there = catalog.any_table(entry.identifier)
            if there is None or there.uuid != entry.uuid:
                return
            if attempt + 1 == _ATTEMPTS:
                raise
        else:
            return


def rename(catalog: Catalog, entry: Entry, target: Identifier) -> None:
    """Rename an entry; the commit point is the server's RenameTable. Errors 1, 4, 5, 17."""
    require_namespace_level(target)
    source = entry.identifier
    body = {
        "source": {"namespace": list(source[:-1]), "name": source[-1]},
        "destination": {"namespace": list(target[:-1]), "name": target[-1]},
    }
    for attempt in range(_ATTEMPTS):
        try:
            catalog.server.call(rest.RENAME_TABLE, source, body)
        except NamespaceNotFoundError:
            raise NamespaceNotFoundError(f"Namespace not found: {shown(target[:-1])}") from None
        except (TableNotFoundError, TableAlreadyExistsError, UnknownOutcomeError) as error:
            is_lost = isinstance(error, UnknownOutcomeError)
            if (is_lost or attempt) and _is_at(catalog, entry, target):
                return
            if isinstance(error, TableAlreadyExistsError):
                raise TableAlreadyExistsError(f"Table already exists: {shown(target)}") from None
            if not is_lost:
                raise TableNotFoundError(f"Table not found: {shown(source)}") from None
            if attempt + 1 == _ATTEMPTS:
                raise
        else:
            return


def require_namespace_level(identifier: Identifier) -> None:
    """Refuse a table at the root: the protocol has tables in namespaces only (13)."""
    if len(identifier) == 1:
        raise InvalidInputError(
            f"Table {shown(identifier)} needs a namespace: an Iceberg REST catalog has no root tables"
        )


def _create(catalog: Catalog, identifier: Identifier, body: Mapping[str, Any], mark: str) -> Entry:
    for attempt in range(_ATTEMPTS):
        try:
            return parsed(identifier, catalog.server.call(rest.CREATE_TABLE, identifier[:-1], body))
        except NamespaceNotFoundError:
            raise NamespaceNotFoundError(
                f"Namespace not found: {shown(identifier[:-1])}, of table {shown(identifier)}"
            ) from None
        except (TableAlreadyExistsError, UnknownOutcomeError) as error:
            is_lost = isinstance(error, ServiceUnavailableError)
            there = catalog.any_table(identifier) if is_lost or attempt else None
            if there is not None and there.properties.get(CREATION_ID) == mark:
                return there
            if there is not None and is_lost and CREATION_ID not in there.properties:
                raise
            if not is_lost or there is not None:
                raise TableAlreadyExistsError(f"Table already exists: {shown(identifier)}") from None
            if attempt + 1 == _ATTEMPTS:
                raise
    raise AssertionError


def _is_at(catalog: Catalog, entry: Entry, target: Identifier) -> bool:
    there = catalog.any_table(target)
    return there is not None and bool(entry.uuid) and there.uuid == entry.uuid
