"""Create, rename and remove entries of tables on the server. After a lost answer, the entry is loaded to check."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any

from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    LanceNamespaceError,
    NamespaceNotFoundError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from pennon.http_transport import UnknownOutcomeError, pause_before_retry
from pennon.iceberg import rest
from pennon.iceberg.entry import CHOSEN, CREATION_ID, LANCE, MANAGED_BY, OURS, TABLE_TYPE, Entry, parse_entry
from pennon.iceberg.places import check_location
from pennon.iceberg.settings import parse_manager
from pennon.identifiers import Identifier, format_identifier, namespace_not_found, parent_not_found, table_not_found

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pennon.iceberg.catalog import Catalog

NO_COLUMNS: dict[str, Any] = {"type": "struct", "fields": []}
_ATTEMPTS = 4
_SETTLE_SECONDS = 0.1
_SETTLE_FACTOR = 10


def properties_of(catalog: Catalog, identifier: Identifier, given: Mapping[str, str] | None) -> dict[str, str]:
    """Return the properties of a new entry: the caller's, and those that make it a Lance table.

    Raises InvalidInputError if they contradict each other.
    """
    properties = {str(key): str(value) for key, value in (given or {}).items()}
    if properties.get(TABLE_TYPE, LANCE).strip().lower() != LANCE:
        raise InvalidInputError(
            f"Table {format_identifier(identifier)} cannot have the property {TABLE_TYPE} other than {LANCE!r}"
        )
    if any(key.startswith(OURS) for key in properties):
        raise InvalidInputError(f"Properties of table {format_identifier(identifier)} cannot begin with {OURS!r}")
    manager = parse_manager(properties.get(MANAGED_BY, catalog.settings.managed_by))
    # Iceberg's own clean-up must not delete files of Lance.
    return {**properties, TABLE_TYPE: LANCE, MANAGED_BY: manager, "gc.enabled": "false"}


def create(
    catalog: Catalog,
    identifier: Identifier,
    location: str | None,
    schema: Mapping[str, Any],
    properties: Mapping[str, str],
) -> Entry:
    """Create an entry; the commit point is the server's CreateTable.

    Raises NamespaceNotFoundError if the parent does not exist, TableAlreadyExistsError if the table exists,
    InvalidInputError at the root, UnsupportedOperationError if the server chooses another location.
    """
    require_namespace_level(identifier)
    mark = uuid.uuid4().hex
    stored = {**properties, CREATION_ID: mark}
    metadata_path = None if location is None else catalog.places.metadata_path(location)
    if metadata_path is not None:
        stored["write.metadata.path"] = metadata_path
    body: dict[str, Any] = {
        "name": identifier[-1],
        "schema": {**schema, "schema-id": 1},
        "properties": stored,
        # Some servers refuse a request that leaves it out.
        "stage-create": False,
    }
    if location is not None:
        body["location"] = location
    begun = time.monotonic()
    entry = _create(catalog, identifier, body, mark)
    seconds = time.monotonic() - begun
    is_there = location is not None and check_location(entry.location, identifier) == check_location(
        location, identifier
    )
    if not _is_created_by(entry, mark, is_there=is_there):
        raise TableAlreadyExistsError(f"Table already exists: {format_identifier(identifier)}")
    if location is not None and not is_there:
        raise _relocated(catalog, entry, location, is_chosen=CHOSEN in properties)
    if entry.has_numbered_metadata:
        entry = _settle(catalog, entry, seconds)
    if not entry.is_lance or any(entry.properties.get(key) != value for key, value in stored.items()):
        # Some servers ignore the properties of a new table.
        entry = catalog.set_properties(entry, stored)
    return entry


def remove(catalog: Catalog, entry: Entry, how: Mapping[str, str] | None = None, *, keeps_data: bool = True) -> None:
    """Remove an entry and nothing else; the commit point is the server's DropTable.

    `how` are other parameters of DropTable, for a server that does more by them. Raises TableNotFoundError, and
    UnsupportedOperationError if the data has to stay and this server would delete it.
    """
    if keeps_data and entry.is_deleted_with_entry:
        raise UnsupportedOperationError(
            f"Table {format_identifier(entry.identifier)} stays in the catalog: this server deletes "
            f"{entry.location!r} with the entry, although the request forbids it. Copy the data first, then drop the "
            "table with purge=true"
        )
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
                    f"The server does not drop table {format_identifier(entry.identifier)}: it reports no such table"
                ) from None
            if attempt:
                return
            raise table_not_found(entry.identifier) from None
        except UnknownOutcomeError:
            there = catalog.any_table(entry.identifier)
            if there is None or there.uuid != entry.uuid:
                return
            if attempt + 1 == _ATTEMPTS:
                raise
            pause_before_retry(attempt)
        else:
            return


def rename(catalog: Catalog, entry: Entry, target: Identifier) -> None:
    """Rename an entry. The commit point is the server's RenameTable.

    Raises NamespaceNotFoundError, TableNotFoundError, TableAlreadyExistsError, or UnknownOutcomeError.
    """
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
            raise namespace_not_found(target[:-1]) from None
        except (TableNotFoundError, TableAlreadyExistsError, UnknownOutcomeError) as error:
            is_lost = isinstance(error, UnknownOutcomeError)
            if (is_lost or attempt) and _is_at(catalog, entry, target):
                return
            if isinstance(error, TableAlreadyExistsError):
                raise TableAlreadyExistsError(f"Table already exists: {format_identifier(target)}") from None
            if not is_lost:
                raise table_not_found(source) from None
            if attempt + 1 == _ATTEMPTS:
                raise
            pause_before_retry(attempt)
        else:
            return


def is_same(there: Entry, entry: Entry) -> bool:
    """Return True if an entry is the one that was created, not another one with the same name."""
    mark = entry.properties.get(CREATION_ID)
    return there.uuid == entry.uuid and there.properties.get(CREATION_ID) == mark


def require_namespace_level(identifier: Identifier) -> None:
    """Raise InvalidInputError for a table at the root: the protocol has tables in namespaces only."""
    if len(identifier) == 1:
        raise InvalidInputError(
            f"Table {format_identifier(identifier)} needs a namespace: an Iceberg REST catalog has no root tables"
        )


def _create(catalog: Catalog, identifier: Identifier, body: Mapping[str, Any], mark: str) -> Entry:
    for attempt in range(_ATTEMPTS):
        try:
            return parse_entry(identifier, catalog.server.call(rest.CREATE_TABLE, identifier[:-1], body))
        except NamespaceNotFoundError:
            raise parent_not_found(identifier) from None
        except (TableAlreadyExistsError, UnknownOutcomeError) as error:
            is_lost = isinstance(error, ServiceUnavailableError)
            there = catalog.any_table(identifier) if is_lost or attempt else None
            if there is not None and there.properties.get(CREATION_ID) == mark:
                return there
            if there is not None and is_lost and CREATION_ID not in there.properties:
                raise
            if not is_lost or there is not None:
                raise TableAlreadyExistsError(f"Table already exists: {format_identifier(identifier)}") from None
            if attempt + 1 == _ATTEMPTS:
                raise
            pause_before_retry(attempt)
    raise AssertionError


def _settle(catalog: Catalog, entry: Entry, seconds: float) -> Entry:
    """Wait until concurrent creations of this name have finished, and return our entry.

    A server with numbered metadata files checks for the table and then writes it. Several requests at once all succeed,
    and the last one wins. `seconds` is how long our request took. Raises TableAlreadyExistsError if ours was not last.
    """
    time.sleep(max(_SETTLE_SECONDS, _SETTLE_FACTOR * seconds))
    there = catalog.any_table(entry.identifier)
    if there is None:
        raise ConcurrentModificationError(
            f"Table {format_identifier(entry.identifier)} was dropped while it was created"
        )
    if not is_same(there, entry):
        raise TableAlreadyExistsError(f"Table already exists: {format_identifier(entry.identifier)}")
    return there


def _is_created_by(entry: Entry, mark: str, *, is_there: bool) -> bool:
    """Return True if the entry in the answer is the one that this request created.

    Some servers return the existing table instead of an error. Some ignore the properties of a new table, so only the
    requested location shows that it is the new one.
    """
    found = entry.properties.get(CREATION_ID)
    return found == mark or (found is None and is_there and not entry.is_lance and entry.version is None)


def _relocated(catalog: Catalog, entry: Entry, location: str, *, is_chosen: bool) -> UnsupportedOperationError:
    """Remove a new entry for which the server chose another location, and return the error to raise."""
    stays = ""
    try:
        there = catalog.any_table(entry.identifier)
        # Another client may have filled it.
        if there is not None and is_same(there, entry) and there.version is None and there.location == entry.location:
            remove(catalog, there)
    except LanceNamespaceError as error:
        stays = f" The new entry could not be removed: {error}"
    advice = (
        "connect without the property 'root' to leave the choice to the server."
        if is_chosen
        else "it chooses the location of every table, so data elsewhere cannot be registered."
    )
    return UnsupportedOperationError(
        f"The server does not let table {format_identifier(entry.identifier)} be at {location!r}: it chose "
        f"{entry.location!r}; "
        f"{advice}{stays}"
    )


def _is_at(catalog: Catalog, entry: Entry, target: Identifier) -> bool:
    there = catalog.any_table(target)
    return there is not None and bool(entry.uuid) and there.uuid == entry.uuid
