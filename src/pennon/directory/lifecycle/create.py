"""Bringing tables into the catalog: declare and create.

A root table in `<name>.lance` is made under the claim on its name (see `root_creation`). Any other table is made in a
new directory of its own and comes into being by its manifest row; whoever loses the row takes the directory away
again.
"""

from __future__ import annotations

import random
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.claims import claim
from pennon.directory.claims.marker import DELETED, PURGING, milliseconds
from pennon.directory.lifecycle import late_commits, overwrite
from pennon.directory.lifecycle.fill import Created, Wanted, fill_declared, shown_properties
from pennon.directory.lookup.listing import look_at
from pennon.directory.lookup.resolve import Found, is_root_table, namespace_exists
from pennon.directory.manifest import TABLE, Draft, Row, properties_json
from pennon.directory.manifest_tables import table_rows, trash
from pennon.directory.manifest_tables.reservation import Reservation
from pennon.directory.root_tables import set_aside
from pennon.directory.root_tables.create import (
    DroppedTableIsThere,
    already_there,
    create_root_table,
    declare_root_table,
)
from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    UnsupportedOperationError,
)
from pennon.identifiers import Identifier, format_identifier, object_id
from pennon.modes import CreateMode
from pennon.table.writing import VersionExistsError, write_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from pennon.directory.catalog import Catalog
    from pennon.table.writing import PreparedData

_PATIENCE_SECONDS = 5.0
_PAUSE_SECONDS = 0.05
_ATTEMPTS = 8


def declare(
    catalog: Catalog, identifier: Identifier, location: str | None, properties: Mapping[str, str] | None
) -> Created:
    """Reserve a name and a location.

    The commit point for a root table in V1 is its `.lance-reserved` file, else the manifest row. A crash before it
    leaves a marker whose lease runs out, or an empty directory that nothing refers to.

    A dropped root table keeps its directory, and the new one gets another; where the directory is named after the
    table, the dropped one is set aside (see `setting_aside`).
    """
    _require_property_support(catalog, "declare_table", properties)
    wish = _checked_wish(catalog, identifier, location)
    return table_rows.forgetting_dead_rows(
        catalog, identifier, lambda: _declared(catalog, identifier, wish, properties)
    )


def create(
    catalog: Catalog,
    identifier: Identifier,
    data: pa.Table | PreparedData,
    mode: CreateMode,
    *,
    properties: Mapping[str, str] | None,
    storage_options: Mapping[str, str] | None = None,
) -> Created:
    """Create a table from data, fill one that is only declared, or do with an existing one what `mode` says.

    `storage_options` go on top of the catalog's own for what is written now.
    """
    _require_property_support(catalog, "create_table", properties)
    options = {**catalog.store.storage_options, **(storage_options or {})}
    wanted = Wanted(identifier, data, properties, options)
    return table_rows.forgetting_dead_rows(catalog, identifier, lambda: _create(catalog, wanted, mode))


def fill(catalog: Catalog, identifier: Identifier, data: pa.Table) -> int:
    """Write the first version of a table that is only declared, and nothing where none is; gives that version.

    Errors 1 and 4 (not there), 5 (it has a version already), 14 (it was dropped meanwhile).
    """
    found = catalog.resolver.table(identifier, look=True)
    wanted = Wanted(identifier, data, None, dict(catalog.store.storage_options))
    try:
        if _only_declared(found):
            return _created(catalog, wanted, found, must_be_declared=True).version or 1
    except VersionExistsError as error:
        raise TableAlreadyExistsError(f"Table already exists: {format_identifier(identifier)}") from error
    raise TableAlreadyExistsError(f"Table already exists: {format_identifier(identifier)}")


def _declared(
    catalog: Catalog, identifier: Identifier, wish: str | None, properties: Mapping[str, str] | None
) -> Created:
    location = wish or _new_location(catalog, identifier)
    row = Row(object_id(identifier), TABLE, location, properties_json(properties))
    is_beside = is_root_table(identifier, location)
    if is_beside:
        if _declared_at_home(catalog, identifier, row, has_choice=wish is None):
            return Created(location, shown_properties(catalog, row))
        location = layout.hashed(object_id(identifier))
        row = replace(row, location=location)
    table_rows.require_free(catalog, identifier)
    table_rows.require_unused(catalog, identifier)
    if wish is not None and look_at(catalog.store, location).has_files:
        raise TableAlreadyExistsError(
            f"There is something at the location {location!r} of {format_identifier(identifier)} already"
        )
    reservation = Reservation(catalog.store, location, contested=wish is not None)
    reservation.announce()
    with reservation.undone_on_error():
        reservation.make()
        table_rows.insert_row(catalog, row)
    if is_beside:
        _require_no_other(catalog, identifier, row)
    return Created(location, shown_properties(catalog, row))


def _declared_at_home(catalog: Catalog, identifier: Identifier, row: Row, *, has_choice: bool) -> bool:
    """Declare a root table in the directory of its name; return False if a dropped one is there and it has a choice."""
    for _ in range(_ATTEMPTS):
        try:
            declare_root_table(catalog, identifier, row)
        except DroppedTableIsThere:
            if catalog.manifest is not None and has_choice:
                return False
            set_aside.set_aside(catalog, identifier[0])
        else:
            return True
    raise ConcurrentModificationError(
        f"Table {format_identifier(identifier)} is dropped again and again; try again later"
    )


def _require_no_other(catalog: Catalog, identifier: Identifier, row: Row) -> None:
    """Take a declaration back, and raise 14, if a root table of that name was restored or created meanwhile.

    Such a table may have no row. Whoever restores it claims its marker and then looks for rows; whoever declares writes
    the row and then looks at the marker: one of the two sees the other.
    """
    current = claim.read(catalog.store, identifier[0])
    marker = None if current is None else current.marker
    if marker is not None and marker.state in {DELETED, PURGING}:
        return
    if marker is None and not look_at(catalog.store, layout.root_table(identifier[0])).visible:
        return

    def take_back(draft: Draft) -> None:
        stored = draft.get(row.object_id)
        if stored is not None and stored.location == row.location:
            # Somebody may have written to it already: it can be restored.
            trash.put_into(draft, stored, trash.Deletion(milliseconds(), catalog.settings.drop_ttl_ms))

    catalog.require_manifest("declare_table").mutate(take_back)
    raise ConcurrentModificationError(
        f"Table {format_identifier(identifier)} was restored or created by another client"
    )


def _create(catalog: Catalog, wanted: Wanted, mode: CreateMode) -> Created:
    # Creating is tried at once where memory says that the name is free: the claim, or the row, finds out if it is not.
    trusting = mode is CreateMode.CREATE
    deadline = time.monotonic() + _PATIENCE_SECONDS
    identifier = wanted.identifier
    while True:
        existing = None if trusting and _seems_free(catalog, identifier) else _existing(catalog, identifier)
        if existing is not None and not _only_declared(existing):
            return _existing_table(catalog, existing, wanted, mode)
        try:
            return _created(catalog, wanted, existing)
        except (TableAlreadyExistsError, VersionExistsError) as error:
            if mode is CreateMode.CREATE and not trusting:
                raise TableAlreadyExistsError(f"Table already exists: {format_identifier(identifier)}") from error
            if time.monotonic() > deadline:
                raise ConcurrentModificationError(
                    f"Table {format_identifier(identifier)} comes and goes; try again"
                ) from error
        except ConcurrentModificationError:
            # Whoever takes an existing table as well waits for the one that is being made.
            if mode is CreateMode.CREATE or time.monotonic() > deadline:
                raise
            time.sleep(random.uniform(0, _PAUSE_SECONDS))  # noqa: S311 - jitter, not a secret
        trusting = False


def _created(catalog: Catalog, wanted: Wanted, declared: Found | None, *, must_be_declared: bool = False) -> Created:
    """Write a new table, or the first version of one that is declared, where its kind of location wants it."""
    if declared is not None and not declared.is_root_table:
        return fill_declared(catalog, declared, wanted)
    location = _new_location(catalog, wanted.identifier) if declared is None else declared.location
    row = wanted.row(location)
    if is_root_table(wanted.identifier, location):
        stored, version = create_root_table(
            catalog,
            wanted.identifier,
            row,
            wanted.data,
            wanted.storage_options,
            must_be_declared=must_be_declared,
        )
        return Created(location, shown_properties(catalog, stored), version)
    with _undone_on_error(catalog, location):
        version = write_version(
            catalog.store.resolve(location), wanted.data, wanted.storage_options, session=catalog.session
        )
        table_rows.insert_row(catalog, row)
    return Created(location, row.properties(), version)


def _seems_free(catalog: Catalog, identifier: Identifier) -> bool:
    if catalog.manifest is None:
        return len(identifier) == 1
    return catalog.manifest.peek(
        lambda snapshot: namespace_exists(snapshot, identifier[:-1]) and snapshot.get(object_id(identifier)) is None
    )


def _existing(catalog: Catalog, identifier: Identifier) -> Found | None:
    """Find a table that is in the way; one that is being created or dropped is left for the claim to meet."""
    found = catalog.resolver.find(identifier, look=True)
    if found is None:
        _require_no_namespace(catalog, identifier)
        return None
    if (
        found.is_root_table
        and found.directory is not None
        and (found.directory.hidden or not found.directory.has_files)
    ):
        return None
    return found


def _only_declared(found: Found) -> bool:
    if found.directory is None or not found.directory.only_declared:
        return False
    # The markers of a root table say nothing about a table of another name that kept its directory.
    return not (found.is_root_table and found.directory.deregistered)


def _existing_table(catalog: Catalog, found: Found, wanted: Wanted, mode: CreateMode) -> Created:
    if found.directory is not None and found.is_root_table and found.directory.deregistered:
        raise already_there(found.identifier, found.directory)
    if mode is CreateMode.CREATE:
        raise TableAlreadyExistsError(f"Table already exists: {format_identifier(found.identifier)}")
    if mode is CreateMode.EXIST_OK:
        row = found.row or Row(object_id(found.identifier), TABLE, found.location)
        return Created(found.location, shown_properties(catalog, row))
    version = overwrite.overwrite_table(catalog, found, wanted.data, wanted.storage_options)
    row = wanted.row(found.location)
    if catalog.manifest is not None:
        try:
            row = catalog.manifest.mutate(lambda draft: _rewritten(draft, row, known=found.row is not None))
        except ConcurrentModificationError:
            late_commits.clear_purged(catalog, found.location, version)
            raise
    return Created(found.location, shown_properties(catalog, row), version)


def _rewritten(draft: Draft, row: Row, *, known: bool) -> Row:
    """Give an overwritten table its new properties, whatever it is called by now; one without a row gets one."""
    owners = trash.live_owners(draft, str(row.location))
    key = row.object_id if row.object_id in owners or not owners else owners[0]
    existing = draft.get(key)
    if existing is None and not known and draft.parent_exists(key):
        draft.put(row)
        return row
    if existing is None or not owners:
        raise overwrite.dropped_meanwhile(row.object_id)
    stored = existing.with_properties(row.metadata)
    draft.put(stored)
    return stored


@contextmanager
def _undone_on_error(catalog: Catalog, location: str) -> Iterator[None]:
    """Take a new directory away again if its table does not come into being."""
    try:
        yield
    except BaseException:
        catalog.store.delete_tree(location)
        raise


def _new_location(catalog: Catalog, identifier: Identifier) -> str:
    """Choose a table's directory: by its name at the root where directories are listed, else a new hashed one."""
    if len(identifier) == 1 and catalog.lists_directories:
        location = layout.root_table(identifier[0])
        if catalog.manifest is None or not catalog.manifest.peek(
            lambda snapshot: any(key != identifier[0] for key in snapshot.object_ids_at(location))
        ):
            return location
    return layout.hashed(object_id(identifier))


def _checked_wish(catalog: Catalog, identifier: Identifier, location: str | None) -> str | None:
    """Check the location that a caller asks for when it declares a table."""
    if location is None:
        return None
    inside = catalog.store.relative(location)
    chosen = layout.checked_location(location if inside is None else inside)
    name = layout.root_table_name(chosen)
    if catalog.manifest is None and chosen != layout.root_table(identifier[0]):
        raise InvalidInputError(
            f"Without a manifest table {format_identifier(identifier)} can only be at {identifier[0]}.lance, "
            f"not {chosen}"
        )
    if name is not None and not is_root_table(identifier, chosen):
        raise InvalidInputError(f"The location {chosen!r} is kept for the root table '{name}'")
    if is_root_table(identifier, chosen) and not catalog.lists_directories:
        raise InvalidInputError(f"The location {chosen!r} needs dir_listing_enabled=true")
    return chosen


def _require_no_namespace(catalog: Catalog, identifier: Identifier) -> None:
    try:
        catalog.resolver.require_namespace(identifier)
    except NamespaceNotFoundError:
        return
    raise TableAlreadyExistsError(f"A namespace of that name already exists: {format_identifier(identifier)}")


def _require_property_support(catalog: Catalog, operation: str, properties: Mapping[str, str] | None) -> None:
    if properties and catalog.manifest is None:
        raise UnsupportedOperationError(f"{operation} with properties needs the manifest (manifest_enabled=true)")
