"""Bringing tables into the catalog: declare and create.

A root table in `<name>.lance` is made under its marker (see `claim`), which excludes every other creator and hides
the table until it is complete. Any other table is made in a new directory of its own and comes into being by its
manifest row; whoever loses the row takes the directory away again.
"""

from __future__ import annotations

import random
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pennon.directory import claim, layout, removal
from pennon.directory.listing import TableDirectory, look_at
from pennon.directory.manifest import TABLE, Draft, Row, Snapshot, properties_json
from pennon.directory.modes import CreateMode
from pennon.directory.registration import require_unused
from pennon.directory.resolve import Found, is_root_table, namespace_exists
from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    UnsupportedOperationError,
)
from pennon.identifiers import Identifier, object_id, shown
from pennon.table.writing import TableIsThere, overwrite, write_first_version

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from pennon.directory.catalog import Catalog

_BYTES_PER_LEASE_SECOND = 1_000_000
_PATIENCE_SECONDS = 5.0
_PAUSE_SECONDS = 0.05
_NOTHING_SEEN = TableDirectory(
    location="", has_files=False, has_versions=False, reserved=False, deregistered=False, hidden=False
)


@dataclass(frozen=True)
class Created:
    """A table that is there now; the version is None if it was only declared or was there before."""

    location: str
    properties: dict[str, str] | None
    version: int | None = None


def declare(
    catalog: Catalog, identifier: Identifier, location: str | None, properties: Mapping[str, str] | None
) -> Created:
    """Reserve a name and a location.

    The commit point for a root table in V1 is its `.lance-reserved` file, else the manifest row. A crash before it
    leaves a marker whose lease runs out, or an empty directory that nothing refers to.
    """
    _require_property_support(catalog, "declare_table", properties)
    chosen = _checked_wish(catalog, identifier, location) or _new_location(catalog, identifier)
    row = Row(object_id(identifier), TABLE, chosen, properties_json(properties))
    if is_root_table(identifier, chosen):
        with _claimed(catalog, identifier) as there:
            if there.has_files:
                raise _already_there(identifier, there)
            with there.undone_on_error():
                _announce(catalog, chosen)
                with there.commit_guard():
                    _reserve(catalog, chosen)
                _insert_row(catalog, row)
    else:
        if location is not None and look_at(catalog.store, chosen).has_files:
            raise TableAlreadyExistsError(
                f"There is something at the location {chosen!r} of {shown(identifier)} already"
            )
        _require_free(catalog, identifier)
        require_unused(catalog, identifier)
        _announce(catalog, chosen)
        _reserve(catalog, chosen)
        with _undone_on_error(catalog, chosen):
            _insert_row(catalog, row)
    return Created(chosen, _shown_properties(catalog, row))


def create(
    catalog: Catalog, identifier: Identifier, data: pa.Table, mode: CreateMode, properties: Mapping[str, str] | None
) -> Created:
    """Create a table from data, fill one that is only declared, or do with an existing one what `mode` says."""
    _require_property_support(catalog, "create_table", properties)
    # Creating is tried at once where memory says that the name is free: the claim, or the row, finds out if it is not.
    trusting = mode is CreateMode.CREATE
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        existing = None if trusting and _seems_free(catalog, identifier) else _existing(catalog, identifier)
        if existing is not None and not _only_declared(existing):
            return _existing_table(catalog, existing, data, mode, properties)
        try:
            return _created(catalog, identifier, existing, data, properties)
        except (TableAlreadyExistsError, TableIsThere) as error:
            if mode is CreateMode.CREATE and not trusting:
                raise TableAlreadyExistsError(f"Table already exists: {shown(identifier)}") from error
            if time.monotonic() > deadline:
                raise ConcurrentModificationError(f"Table {shown(identifier)} comes and goes; try again") from error
        except ConcurrentModificationError:
            # Whoever takes an existing table as well waits for the one that is being made.
            if mode is CreateMode.CREATE or time.monotonic() > deadline:
                raise
            time.sleep(random.uniform(0, _PAUSE_SECONDS))  # noqa: S311 - jitter, not a secret
        trusting = False


def _created(
    catalog: Catalog,
    identifier: Identifier,
    declared: Found | None,
    data: pa.Table,
    properties: Mapping[str, str] | None,
) -> Created:
    """Write a new table, or the first version of one that is declared, where its kind of location wants it."""
    if declared is not None and not declared.is_root_table:
        return _fill_declared(catalog, declared, data, properties)
    location = _new_location(catalog, identifier) if declared is None else declared.location
    row = Row(object_id(identifier), TABLE, location, properties_json(properties))
    if is_root_table(identifier, location):
        return _create_root_table(catalog, identifier, row, data, declared=declared is not None)
    return _create_hashed_table(catalog, row, data)


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


def _existing_table(
    catalog: Catalog, found: Found, data: pa.Table, mode: CreateMode, properties: Mapping[str, str] | None
) -> Created:
    if found.directory is not None and found.is_root_table and found.directory.deregistered:
        raise _already_there(found.identifier, found.directory)
    if mode is CreateMode.CREATE:
        raise TableAlreadyExistsError(f"Table already exists: {shown(found.identifier)}")
    row = found.row or Row(object_id(found.identifier), TABLE, found.location)
    if mode is CreateMode.EXIST_OK:
        return Created(found.location, _shown_properties(catalog, row))
    version = overwrite(catalog.store.location(found.location), data, catalog.store.storage_options)
    row = replace(row, metadata=properties_json(properties))
    if catalog.manifest is not None and found.row is not None:
        catalog.manifest.mutate(lambda draft: _replace_row(draft, row))
    return Created(found.location, _shown_properties(catalog, row), version)


def _replace_row(draft: Draft, row: Row) -> None:
    """Give an overwritten table its new properties, unless it went away meanwhile."""
    existing = draft.get(row.object_id)
    if existing is None or existing.location != row.location:
        raise ConcurrentModificationError(f"Table '{row.object_id}' was dropped or replaced while it was overwritten")
    draft.put(row)


def _create_root_table(
    catalog: Catalog, identifier: Identifier, row: Row, data: pa.Table, *, declared: bool
) -> Created:
    location = str(row.location)
    lease = claim.LEASE_SECONDS + data.nbytes / _BYTES_PER_LEASE_SECOND
    with _claimed(catalog, identifier, lease_seconds=lease, look=declared) as there:
        if there.has_versions or there.deregistered:
            raise _already_there(identifier, there)
        with there.undone_on_error():
            version = write_first_version(
                catalog.store.location(location),
                data,
                catalog.store.storage_options,
                commit_guard=there.commit_guard,
            )
            there.committed.append(version)
            stored = _insert_row(catalog, row, adopt=True)
        if there.reserved:
            catalog.store.delete(layout.declared(location))
        if catalog.store.is_local or catalog.manifest is None:
            # Left over where another client deleted a deregistered table. With a row, listings look closely.
            catalog.store.delete(layout.deregistered(identifier[0]))
    return Created(location, _shown_properties(catalog, stored), version)


def _create_hashed_table(catalog: Catalog, row: Row, data: pa.Table) -> Created:
    location = str(row.location)
    with _undone_on_error(catalog, location):
        version = write_first_version(catalog.store.location(location), data, catalog.store.storage_options)
        _insert_row(catalog, row)
    return Created(location, row.properties(), version)


def _fill_declared(catalog: Catalog, found: Found, data: pa.Table, properties: Mapping[str, str] | None) -> Created:
    """Write the first version of a declared table, which keeps its properties unless new ones are given."""
    with _undone_on_error(catalog, found.location, keep=True):
        version = write_first_version(catalog.store.location(found.location), data, catalog.store.storage_options)
    catalog.store.delete(layout.declared(found.location))
    row = found.row or Row(object_id(found.identifier), TABLE, found.location)
    if properties:
        row = replace(row, metadata=properties_json(properties))
    with _undone_on_error(catalog, found.location):
        # The table may have been dropped while it was filled.
        catalog.require_manifest("create_table").mutate(lambda draft: _replace_row(draft, row))
    return Created(found.location, _shown_properties(catalog, row), version)


@dataclass(frozen=True)
class _Claimed(TableDirectory):
    """A root table's directory as seen under the claim on its name."""

    catalog: Catalog
    held: claim.Claim
    committed: list[int] = field(default_factory=list)

    @contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """Take away what this caller made if the table does not come into being, and nothing that is another's."""
        try:
            yield
        except BaseException as error:
            store = self.catalog.store
            for path in getattr(error, "leftovers", ()):
                store.delete(layout.inside(self.location, path))
            with store.exclusive(self.held.name):
                if claim.is_mine(store, self.held) and (self.committed or not self._is_anothers()):
                    store.delete_tree(self.location, also=[layout.declared(self.location)])
            raise

    def _is_anothers(self) -> bool:
        if self.has_files:
            return True
        now = look_at(self.catalog.store, self.location)
        return now.has_versions or now.deregistered or (now.reserved and not self.catalog.store.is_local)

    @contextmanager
    def commit_guard(self) -> Iterator[None]:
        """Let a commit happen only while the claim stands: exactly so on local disk, under the lock."""
        store = self.catalog.store
        with store.exclusive(self.held.name):
            if store.is_local and not claim.is_mine(store, self.held):
                raise ConcurrentModificationError(
                    f"The claim on table '{self.held.name}' was taken over; nothing was written"
                )
            yield


@contextmanager
def _claimed(
    catalog: Catalog, identifier: Identifier, *, lease_seconds: float = claim.LEASE_SECONDS, look: bool = True
) -> Iterator[_Claimed]:
    """Hold the marker of a root table, complete what a dead owner began, and look at the directory under the claim.

    A creator need not look where that is a request of its own: writing the first version finds out what matters.
    """
    name = identifier[0]
    _require_free(catalog, identifier, root_table=True)
    held = claim.take(catalog.store, name, claim.REVIVING, lease_seconds=lease_seconds)
    try:
        if held.took_over == claim.PURGING:
            removal.finish_purge(catalog, held)
        seen = look_at(catalog.store, layout.root_table(name)) if look or catalog.store.is_local else _NOTHING_SEEN
        yield _Claimed(
            location=layout.root_table(name),
            has_files=seen.has_files,
            has_versions=seen.has_versions,
            reserved=seen.reserved,
            deregistered=seen.deregistered,
            hidden=False,
            catalog=catalog,
            held=held,
        )
    finally:
        claim.release(catalog.store, held)


@contextmanager
def _undone_on_error(catalog: Catalog, location: str, *, keep: bool = False) -> Iterator[None]:
    """Take away what was written if the table does not come into being, unless something was there before."""
    try:
        yield
    except TableIsThere as outcome:
        # Another writer's table stands in the directory: only our own files are ours to take away.
        for path in outcome.leftovers:
            catalog.store.delete(layout.inside(location, path))
        raise
    except BaseException:
        if not keep:
            catalog.store.delete_tree(location, also=[layout.declared(location)])
        raise


def _insert_row(catalog: Catalog, row: Row, *, adopt: bool = False) -> Row:
    """Commit a table's row; with `adopt`, a row that names the same location already is kept as it is."""
    if catalog.manifest is None:
        return row

    def plan(draft: Draft) -> Row:
        existing = draft.get(row.object_id)
        if existing is not None and adopt and existing.location == row.location:
            adopted = existing if row.metadata is None else replace(existing, metadata=row.metadata)
            draft.put(adopted)
            return adopted
        if existing is not None:
            what = "Table" if existing.object_type == TABLE else "A namespace of that name"
            raise TableAlreadyExistsError(f"{what} already exists: '{row.object_id}'")
        if not draft.parent_exists(row.object_id):
            raise NamespaceNotFoundError(f"Namespace not found: the parent of table '{row.object_id}'")
        if row.location is not None and draft.overlapping(row.location):
            raise TableAlreadyExistsError(
                f"The location {row.location!r} of '{row.object_id}' belongs to another table"
            )
        draft.put(row)
        return row

    return catalog.manifest.mutate(plan)


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
            f"Without a manifest table {shown(identifier)} can only be at {identifier[0]}.lance, not {chosen}"
        )
    if name is not None and not is_root_table(identifier, chosen):
        raise InvalidInputError(f"The location {chosen!r} is kept for the root table '{name}'")
    if is_root_table(identifier, chosen) and not catalog.lists_directories:
        raise InvalidInputError(f"The location {chosen!r} needs dir_listing_enabled=true")
    return chosen


def _require_free(catalog: Catalog, identifier: Identifier, *, root_table: bool = False) -> None:
    """Fail early, before anything is written, if the name is taken or its namespace is missing."""
    if catalog.manifest is None:
        if len(identifier) > 1:
            raise NamespaceNotFoundError(f"Namespace not found: {shown(identifier[:-1])}")
        return
    key = object_id(identifier)

    def verdict(snapshot: Snapshot) -> str | None:
        if not namespace_exists(snapshot, identifier[:-1]):
            return "orphan"
        row = snapshot.get(key)
        if row is None or (root_table and row.location == layout.root_table(identifier[0])):
            return None
        return "taken"

    if catalog.manifest.peek(verdict) is None:
        return
    found = catalog.manifest.read(verdict)
    if found == "orphan":
        raise NamespaceNotFoundError(f"Namespace not found: {shown(identifier[:-1])}, parent of {shown(identifier)}")
    if found == "taken":
        raise TableAlreadyExistsError(f"Table already exists: {shown(identifier)}")


def _require_no_namespace(catalog: Catalog, identifier: Identifier) -> None:
    try:
        catalog.resolver.require_namespace(identifier)
    except NamespaceNotFoundError:
        return
    raise TableAlreadyExistsError(f"A namespace of that name already exists: {shown(identifier)}")


def _require_property_support(catalog: Catalog, operation: str, properties: Mapping[str, str] | None) -> None:
    if properties and catalog.manifest is None:
        raise UnsupportedOperationError(f"{operation} with properties needs the manifest (manifest_enabled=true)")


def _shown_properties(catalog: Catalog, row: Row) -> dict[str, str] | None:
    return None if catalog.manifest is None else row.properties()


def _announce(catalog: Catalog, location: str) -> None:
    """Tell listings that they have to look whether the table has data."""
    catalog.store.put(layout.declared(location), layout.MARKER_BODY)


def _reserve(catalog: Catalog, location: str) -> None:
    if catalog.store.create(layout.inside(location, layout.RESERVED_MARKER), layout.MARKER_BODY) is None:
        raise TableAlreadyExistsError(f"Something was declared at {location!r} already")


def _already_there(identifier: Identifier, directory: TableDirectory) -> TableAlreadyExistsError:
    if directory.deregistered:
        return TableAlreadyExistsError(
            f"A deregistered table is at {directory.location!r}: register {shown(identifier)} again or drop it"
        )
    return TableAlreadyExistsError(f"Table already exists: {shown(identifier)}")
