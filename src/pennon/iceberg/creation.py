"""Declare, create and register tables."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import lance

from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
    LanceNamespaceError,
    TableAlreadyExistsError,
    is_not_found,
    translate_errors,
)
from pennon.http_transport import is_unknown_outcome
from pennon.iceberg import dropping, entries, evolution, files, preparing, tables
from pennon.iceberg.entry import CHOSEN, MANAGED_BY
from pennon.iceberg.places import check_location, is_remote
from pennon.iceberg.schema import convert_schema
from pennon.iceberg.settings import IMPL
from pennon.identifiers import Identifier, format_identifier
from pennon.modes import CreateMode, RegisterMode
from pennon.table import writing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from lance_namespace import LanceNamespace

    from pennon.iceberg.catalog import Catalog
    from pennon.iceberg.entry import Entry


@dataclass(frozen=True)
class EntrySpec:
    """A table to create. Lance calls `client` back if the server manages versions."""

    identifier: Identifier
    data: writing.TableData
    properties: Mapping[str, str] | None
    storage_options: Mapping[str, str] = field(repr=False)
    client: LanceNamespace


@dataclass(frozen=True)
class CreatedEntry:
    """The entry of a table after a creation. The version is None if the table existed before."""

    entry: Entry
    version: int | None = None


def declare(
    catalog: Catalog, identifier: Identifier, location: str | None, properties: Mapping[str, str] | None
) -> Entry:
    """Reserve a name and a location. The commit point is the server's CreateTable.

    Raises NamespaceNotFoundError if the parent does not exist, TableAlreadyExistsError if the name or the location is
    taken, UnsupportedOperationError if the server chooses another location.
    """
    entries.require_namespace_level(identifier)
    stored = entries.properties_of(catalog, identifier, properties)
    wish = None if location is None else _resolve_location(catalog, identifier, location)
    if wish is not None:
        store = catalog.places.store(wish, catalog.options(None))
        if store.has_files(""):
            raise TableAlreadyExistsError(
                f"The location {wish!r} of {format_identifier(identifier)} already contains files"
            )
    return _declare(catalog, identifier, wish, stored)


def create(catalog: Catalog, wanted: EntrySpec, mode: CreateMode) -> CreatedEntry:
    """Create a table from data, or fill a declared one. The mode decides what happens to an existing table."""
    identifier = wanted.identifier
    entries.require_namespace_level(identifier)
    stored = entries.properties_of(catalog, identifier, wanted.properties)
    existing = catalog.any_table(identifier)
    if existing is None:
        try:
            return _create_new(catalog, wanted, stored)
        except TableAlreadyExistsError:
            existing = None if mode is CreateMode.CREATE else catalog.any_table(identifier)
            if existing is None:
                raise
    if not existing.is_lance:
        raise TableAlreadyExistsError(
            f"A table that is not a Lance table already exists: {format_identifier(identifier)}"
        )
    if tables.is_only_declared(catalog, existing):
        return fill_declared(catalog, existing, wanted)
    if mode is CreateMode.CREATE:
        raise TableAlreadyExistsError(f"Table already exists: {format_identifier(identifier)}")
    if mode is CreateMode.EXIST_OK:
        return CreatedEntry(existing)
    return _overwrite(catalog, existing, wanted)


def fill(catalog: Catalog, wanted: EntrySpec) -> int:
    """Write the first version of a declared table, and return it.

    Raises NamespaceNotFoundError or TableNotFoundError if the table does not exist, TableAlreadyExistsError if it
    already has a version, ConcurrentModificationError if it changed at the same time.
    """
    entry = catalog.table(wanted.identifier)
    if not tables.is_only_declared(catalog, entry):
        raise TableAlreadyExistsError(f"Table already exists: {format_identifier(wanted.identifier)}")
    return fill_declared(catalog, entry, wanted).version or 1


def register(
    catalog: Catalog,
    identifier: Identifier,
    location: str,
    mode: RegisterMode,
    properties: Mapping[str, str] | None,
    *,
    allow_missing: bool = False,
) -> Entry:
    """Add an existing table to the catalog. The commit point is the server's CreateTable.

    The mode overwrite removes the old entry first, and keeps its data. Between the two steps, the name is free.
    Raises NamespaceNotFoundError if the parent does not exist, TableAlreadyExistsError if the name is taken,
    InvalidInputError if there is no table at the location.
    """
    entries.require_namespace_level(identifier)
    stored = entries.properties_of(catalog, identifier, properties)
    where = _resolve_location(catalog, identifier, location)
    columns, version = _read_existing(catalog, identifier, where, allow_missing=allow_missing)
    existing = catalog.any_table(identifier)
    if existing is not None:
        if mode is RegisterMode.CREATE or not existing.is_lance:
            raise TableAlreadyExistsError(f"Table already exists: {format_identifier(identifier)}")
        dropping.deregister(catalog, identifier)
    shape = entries.NO_COLUMNS if columns is None else convert_schema(columns)
    entry = entries.create(catalog, identifier, where, shape, stored)
    if stored[MANAGED_BY] != IMPL:
        return entry
    with _undo_on_error(catalog, entry):
        catalog.require_requirements(entry)
        if version is None:
            return entry
        store = catalog.store(entry)
        found = files.find(store, version)
        if found is None:
            raise ConcurrentModificationError(f"Version {version} of table {format_identifier(identifier)} is gone")
        return catalog.commit(entry, preparing.snapshot_updates(entry, store, found), [preparing.current_is(entry)])


def _declare(catalog: Catalog, identifier: Identifier, location: str | None, stored: dict[str, str]) -> Entry:
    if location is None:
        location, stored = catalog.places.new(identifier), {**stored, CHOSEN: "true"}
    entry = entries.create(catalog, identifier, location, entries.NO_COLUMNS, stored)
    if stored[MANAGED_BY] == IMPL:
        with _undo_on_error(catalog, entry):
            catalog.require_requirements(entry)
    return entry


def _create_new(catalog: Catalog, wanted: EntrySpec, stored: dict[str, str]) -> CreatedEntry:
    """Write a new table.

    If the files decide about versions and there is a root, the data is written first, and creating the entry is the
    commit point. Otherwise the table is declared first and then filled; on an error, the entry is removed.
    """
    catalog.require_namespace(wanted.identifier[:-1])
    location = catalog.places.new(wanted.identifier)
    if location is None or stored[MANAGED_BY] == IMPL or _needs_credentials(catalog, location, wanted):
        entry = _declare(catalog, wanted.identifier, None, stored)
        with _undo_on_error(catalog, entry):
            return fill_declared(catalog, entry, wanted, is_new=True)
    options = {**catalog.options(None), **wanted.storage_options}
    path = catalog.places.below_root(location)
    is_written = False
    try:
        store = catalog.places.store(location, options)
        version = writing.write_version(_strip_slash(store.location("")), wanted.data, options, session=catalog.session)
        shape = convert_schema(wanted.data.schema)
        is_written = True
        entry = entries.create(catalog, wanted.identifier, location, shape, {**stored, CHOSEN: "true"})
    except BaseException as error:
        if path is not None and not (is_written and _may_be_used(catalog, wanted.identifier, location, error)):
            catalog.places.delete(path)
        raise
    return CreatedEntry(entry, version)


def _may_be_used(catalog: Catalog, identifier: Identifier, location: str, error: BaseException) -> bool:
    """Return False if it is certain that a failed creation left no entry with this location."""
    if not isinstance(error, LanceNamespaceError) or is_unknown_outcome(error):
        return True
    try:
        there = catalog.any_table(identifier)
        return there is not None and check_location(there.location) == check_location(location)
    except LanceNamespaceError:
        return True


def _needs_credentials(catalog: Catalog, location: str, wanted: EntrySpec) -> bool:
    """Return True if the credentials for the data may have to come from the server, with an entry."""
    given = catalog.settings.storage_options or wanted.storage_options
    return is_remote(location) and catalog.settings.vends_credentials and not given


def fill_declared(catalog: Catalog, entry: Entry, wanted: EntrySpec, *, is_new: bool = False) -> CreatedEntry:
    """Write the first version of a declared table, and add the new properties to those it has."""
    options = {**catalog.options(entry), **wanted.storage_options}
    through = None
    if entry.is_managed:
        through = {
            "namespace_client": wanted.client,
            "table_id": list(entry.identifier),
            "namespace_client_managed_versioning": True,
        }
    store = catalog.store(entry)
    try:
        version = writing.write_version(
            _strip_slash(store.location("")), wanted.data, options, session=catalog.session, through=through
        )
    except writing.VersionExistsError as error:
        store.delete(*error.leftovers)
        raise TableAlreadyExistsError(f"Table already exists: {format_identifier(entry.identifier)}") from None
    updates: list[dict[str, Any]] = []
    if not entry.is_managed:
        updates += evolution.schema_updates(entry, wanted.data.schema)
    if wanted.properties and not is_new:
        updates.append({"action": "set-properties", "updates": dict(wanted.properties)})
    return CreatedEntry(_update_entry(catalog, entry, updates), version)


def _overwrite(catalog: Catalog, entry: Entry, wanted: EntrySpec) -> CreatedEntry:
    """Replace the contents of a table by a new version, then set its properties."""
    options = {**catalog.options(entry), **wanted.storage_options}
    opened = {"namespace_client": wanted.client, "table_id": list(entry.identifier)} if entry.is_managed else None
    store = catalog.store(entry)
    try:
        version = writing.overwrite(
            _strip_slash(store.location("")), wanted.data, options, session=catalog.session, opened=opened
        )
    except (writing.VersionExistsError, writing.TableGoneError) as error:
        raise ConcurrentModificationError(
            f"Table {format_identifier(entry.identifier)} was changed by another client while it was overwritten"
        ) from error
    updates: list[dict[str, Any]] = []
    if not entry.is_managed:
        updates += evolution.schema_updates(entry, wanted.data.schema)
    if wanted.properties:
        updates.append({"action": "set-properties", "updates": dict(wanted.properties)})
    return CreatedEntry(_update_entry(catalog, entry, updates), version)


def _update_entry(catalog: Catalog, entry: Entry, updates: list[dict[str, Any]]) -> Entry:
    """Update an entry to data that is already written. Sending the updates twice changes nothing else."""
    if not updates:
        return entry
    try:
        return catalog.commit(catalog.table(entry.identifier), updates)
    except (ConcurrentModificationError, LanceNamespaceError) as error:
        if not is_unknown_outcome(error):
            raise
        return catalog.commit(catalog.table(entry.identifier), updates)


@contextmanager
def _undo_on_error(catalog: Catalog, entry: Entry) -> Iterator[None]:
    """On an error, remove a new entry and the directory chosen for it, unless the outcome is unknown."""
    try:
        yield
    except BaseException as error:
        if not is_unknown_outcome(error):
            _undo(catalog, entry)
        raise


def _undo(catalog: Catalog, entry: Entry) -> None:
    is_chosen = entry.properties.get(CHOSEN) == "true"
    try:
        with translate_errors(f"undoing the creation of {format_identifier(entry.identifier)}"):
            there = catalog.any_table(entry.identifier)
            # Another client may have filled it or replaced it.
            if there is None or not entries.is_same(there, entry) or not tables.is_only_declared(catalog, there):
                return
            entries.remove(catalog, there, keeps_data=not is_chosen)
    except LanceNamespaceError:
        # It stays as a declared table.
        return
    path = catalog.places.below_root(entry.location)
    if path is not None and is_chosen and catalog.places.is_new_name(path):
        catalog.places.delete(path)


def _resolve_location(catalog: Catalog, identifier: Identifier, location: str) -> str:
    """Return a location as a URI. It may be relative to the root.

    Raises InvalidInputError for the root itself and for directories of the server.
    """
    root = catalog.places.root
    text = str(location or "").strip()
    if text and "://" not in text and not text.startswith(("/", "file:")):
        if root is None:
            raise InvalidInputError(
                f"The location {location!r} of {format_identifier(identifier)} needs the property 'root'"
            )
        text = root.uri(text.rstrip("/"))
    where = check_location(text, identifier)
    if root is not None and root.relative(where) is not None and catalog.places.below_root(where) is None:
        raise InvalidInputError(
            f"The location {location!r} of {format_identifier(identifier)} is not a directory that a table can have"
        )
    return f"file://{where}" if where.startswith("/") else where


def _read_existing(
    catalog: Catalog, identifier: Identifier, location: str, *, allow_missing: bool
) -> tuple[pa.Schema | None, int | None]:
    """Return the schema and version of the table at a location, or None for both if it may be missing."""
    options = catalog.options(None)
    try:
        store = catalog.places.store(location, options)
        dataset = lance.dataset(_strip_slash(store.location("")), storage_options=options or None)
    except (OSError, ValueError) as error:
        if not is_not_found(error):
            raise InvalidTableStateError(f"The table at {location!r} cannot be opened: {error}") from error
        if allow_missing:
            return None, None
        raise InvalidInputError(
            f"There is no Lance table at {location!r} for {format_identifier(identifier)}"
        ) from error
    return dataset.schema, int(dataset.version)


def _strip_slash(location: str) -> str:
    return location.rstrip("/")
