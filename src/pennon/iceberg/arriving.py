"""New tables in a commit, whose data was written before they have a name."""

from __future__ import annotations

import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import lance

from pennon.errors import (
    InvalidInputError,
    LanceNamespaceError,
    TableAlreadyExistsError,
    UnsupportedOperationError,
    is_not_found,
)
from pennon.http_transport import is_unknown_outcome
from pennon.iceberg import entries, files, tables
from pennon.iceberg.entry import CHOSEN, MANAGED_BY
from pennon.iceberg.files import StagedManifest
from pennon.iceberg.preparing import PlacedVersion
from pennon.iceberg.reserved import table_identifier
from pennon.iceberg.settings import IMPL
from pennon.identifiers import Identifier, format_identifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lance import LanceDataset

    from pennon.iceberg.catalog import Catalog
    from pennon.iceberg.entry import Entry
    from pennon.store import Store
    from pennon.table_commits import NewTable


@contextmanager
def reserve_names(catalog: Catalog, arrivals: Sequence[NewTable]) -> Iterator[list[tuple[Identifier, PlacedVersion]]]:
    """Reserve the names of new tables, so that their first versions can be committed.

    On an error, the names become free again and the written data is unchanged, unless the outcome is unknown.
    """
    undoing: list[Callable[[], object]] = []
    try:
        yield [(table_identifier(one.id), _stage_new_table(catalog, one, undoing)) for one in arrivals]
    except BaseException as error:
        if not is_unknown_outcome(error):
            for undo in reversed(undoing):
                undo()
        raise


def require_absent(catalog: Catalog, identifier: Identifier) -> Entry | None:
    """Return the declared table with this name, or None.

    Raises TableAlreadyExistsError if it has data, NamespaceNotFoundError if the namespace does not exist.
    """
    entry = catalog.any_table(identifier)
    if entry is None:
        catalog.require_namespace(identifier[:-1])
        return None
    if entry.is_lance and tables.is_only_declared(catalog, entry):
        return entry
    raise TableAlreadyExistsError(f"Table already exists: {format_identifier(identifier)}")


def open_written(catalog: Catalog, identifier: Identifier, location: str) -> tuple[str, LanceDataset]:
    """Open the table at a new location, and return its path and dataset. Raises InvalidInputError if there is none."""
    path = catalog.places.below_root(location)
    if path is None or catalog.places.root is None or not catalog.places.is_new_name(path):
        raise InvalidInputError(f"{location!r} is not a new location of {format_identifier(identifier)}")
    try:
        dataset = lance.dataset(
            catalog.places.root.location(path), storage_options=catalog.options(None) or None, session=catalog.session
        )
    except (OSError, ValueError) as error:
        if is_not_found(error):
            raise InvalidInputError(
                f"There is no table at {location!r} to become {format_identifier(identifier)}"
            ) from error
        raise
    return path, dataset


def directory_uri(catalog: Catalog, path: str) -> str:
    """Return the URI of a directory below the root."""
    assert catalog.places.root is not None  # noqa: S101 - the path is below it
    return catalog.places.root.uri(path)


def _stage_new_table(catalog: Catalog, new: NewTable, undoing: list[Callable[[], object]]) -> PlacedVersion:
    """Stage the table at a new location, and declare its name unless it is declared already."""
    identifier = table_identifier(new.id)
    stored = entries.properties_of(catalog, identifier, new.properties)
    path, dataset = open_written(catalog, identifier, new.location)
    entry = require_absent(catalog, identifier)
    if entry is None and stored[MANAGED_BY] != IMPL:
        raise UnsupportedOperationError(
            f"Table {format_identifier(identifier)} would have managed_by={stored[MANAGED_BY]}, so its first version "
            "cannot be part of a transaction: connect with managed_by=impl"
        )
    uri = directory_uri(catalog, path)
    placed = PlacedVersion(
        uri, _stage_first_version(catalog.places.store(uri, catalog.options(None)), dataset, identifier, undoing)
    )
    if entry is None:
        entry = _declare(catalog, identifier, uri, {**stored, CHOSEN: "true"}, undoing)
    if entry is not None and entry.properties.get(CHOSEN) != "true":
        raise UnsupportedOperationError(
            f"Table {format_identifier(identifier)} was declared with a location, {entry.location!r}, "
            "and the data cannot be moved there"
        )
    return placed


def _stage_first_version(
    store: Store, dataset: LanceDataset, identifier: Identifier, undoing: list[Callable[[], object]]
) -> StagedManifest:
    """Turn the first version at a new location into a staged one. Its name identifies the commit."""
    found = files.find(store, int(dataset.version))
    blob = None if found is None else store.get(found.path)
    if found is None or blob is None or found.version != 1:
        raise InvalidInputError(
            f"The data of the new table {format_identifier(identifier)} must have exactly one version"
        )
    staged = f"{found.path}-{uuid.uuid4()}"
    store.create(staged, blob.body)

    def undo() -> None:
        with suppress(LanceNamespaceError, OSError):
            store.create(found.path, blob.body)
            store.delete(staged)

    undoing.append(undo)
    store.delete(found.path)
    return StagedManifest(found.version, store.absolute(staged), found.scheme)


def _declare(
    catalog: Catalog,
    identifier: Identifier,
    uri: str,
    stored: Mapping[str, str],
    undoing: list[Callable[[], object]],
) -> Entry | None:
    try:
        entry = entries.create(catalog, identifier, uri, entries.NO_COLUMNS, stored)
    except TableAlreadyExistsError:
        return require_absent(catalog, identifier)
    undoing.append(lambda: _remove_entry(catalog, entry))
    catalog.require_requirements(entry)
    return entry


def _remove_entry(catalog: Catalog, entry: Entry) -> None:
    """Remove the entry of a declared table, unless another client has filled it. The written data is kept."""
    try:
        there = catalog.any_table(entry.identifier)
        if there is not None and entries.is_same(there, entry) and tables.is_only_declared(catalog, there):
            entries.remove(catalog, there)
    except LanceNamespaceError:
        # It stays behind as a declared table.
        return
