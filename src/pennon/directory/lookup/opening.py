"""Open tables for reading, and for operations inside them.

Each operation resolves its table again, so a table that was dropped, renamed or replaced is never reached under its old
name. Only the open dataset at a location is kept between operations. Which version is the latest is checked every time:
by the version rows, which were just read, if the catalog manages versions; otherwise Lance checks the files, and
recognises a manifest that was replaced under the same number by its e-tag.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import proxy

import lance

from pennon.directory.lookup.directories import look_at
from pennon.directory.lookup.resolve import ResolvedTable, find_location_fault
from pennon.directory.manifest import Row, Snapshot, flags
from pennon.directory.versions import managed, service
from pennon.errors import (
    InvalidTableStateError,
    LanceNamespaceError,
    TableBranchNotFoundError,
    TableIsOnlyDeclaredError,
    TableNotFoundError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
    UnsupportedOperationError,
    is_damaged,
    is_not_found,
)
from pennon.identifiers import Identifier, format_identifier, object_id
from pennon.store import call_together
from pennon.table.description import open_table as open_dataset
from pennon.table.handles import Handle, TableFiles, open_by_files

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog
    from pennon.table.version_selector import VersionSelector


def open_table(
    catalog: Catalog, identifier: Identifier, selector: VersionSelector, *, shared: bool = False
) -> lance.LanceDataset:
    """Open a table for an operation inside it. Commits go through the catalog if it manages versions.

    A shared dataset is used by other operations too: it must not be moved or changed in place.

    Raises NamespaceNotFoundError, TableNotFoundError, TableVersionNotFoundError, TableTagNotFoundError or
    TableBranchNotFoundError if something does not exist, InvalidTableStateError if the table is damaged,
    TableIsOnlyDeclaredError if it has no data yet.
    """
    table, dataset = _resolve_and_open(catalog, identifier, selector, shared=shared)
    if dataset is not None:
        return dataset
    try:
        # Branches are always decided by files.
        if selector.branch is None and service.is_managed(catalog, table):
            return _open_by_rows(catalog, table, selector, shared=shared)
        return _open_by_files(catalog, table, selector, shared=shared)
    except (OSError, ValueError, OverflowError) as error:
        raise _explain_error(catalog, table, error, selector) from error


def _resolve_and_open(
    catalog: Catalog, identifier: Identifier, selector: VersionSelector, *, shared: bool
) -> tuple[ResolvedTable, lance.LanceDataset | None]:
    """Resolve a table, and open it at the same time if it stayed open in memory and its latest version is asked for.

    Returns None instead of the dataset if the table must be opened after it was resolved: if the manifest has changed,
    the open files may be those of a table that had the name before.
    """
    manifest = catalog.manifest
    if manifest is None or catalog.store.is_local or selector.branch is not None or not selector.is_latest:
        return catalog.resolver.table(identifier), None

    def look(snapshot: Snapshot) -> tuple[int, Row | None]:
        row = None if flags.manages_versions(snapshot.metadata) else snapshot.get(object_id(identifier))
        is_usable = row is not None and find_location_fault(snapshot, row) is None
        return snapshot.version, row if is_usable else None

    try:
        version, row = manifest.peek(look)
    except UnsupportedOperationError:
        row = None  # the snapshot may be outdated: the validated read decides
    if row is None or row.location is None or catalog.handles.find((catalog.store.location(row.location),)) is None:
        return catalog.resolver.table(identifier), None
    expected = ResolvedTable(identifier, row.location, row, None)

    def open_ahead() -> lance.LanceDataset | None:
        try:
            return _open_by_files(catalog, expected, selector, shared=shared)
        except (OSError, ValueError, OverflowError, LanceNamespaceError):
            return None  # the caller opens it again, and explains the error

    dataset, table = call_together(catalog.store, open_ahead, lambda: catalog.resolver.table(identifier))
    is_current = table.row == row and manifest.peek(lambda snapshot: snapshot.version) == version
    return table, dataset if is_current else None


def open_resolved(catalog: Catalog, table: ResolvedTable, selector: VersionSelector) -> lance.LanceDataset | None:
    """Open a table for reading, or return None if it is only declared. Nothing is kept open."""
    managed.finish_table(catalog, table.object_id, table.location, tidy=False)
    try:
        return open_dataset(
            catalog.store.resolve(table.location),
            catalog.store.storage_options,
            selector,
            table=format_identifier(table.identifier),
            session=catalog.session,
            check_branch=lambda name: catalog.store.resolve(f"{table.location}/tree/{name}"),
        )
    except (OSError, ValueError) as error:
        reason = _explain_error(catalog, table, error, selector)
        if isinstance(reason, TableIsOnlyDeclaredError):
            return None
        raise reason from error


def _open_by_files(
    catalog: Catalog, table: ResolvedTable, selector: VersionSelector, *, shared: bool
) -> lance.LanceDataset:
    managed.finish_table(catalog, table.object_id, table.location, tidy=False)
    location = catalog.store.resolve(table.location)

    def open_latest() -> lance.LanceDataset:
        return lance.dataset(
            location, storage_options=dict(catalog.store.storage_options) or None, session=catalog.session
        )

    def require_branch(name: str) -> str:
        return catalog.store.resolve(f"{table.location}/tree/{name}")

    files = TableFiles(
        (location,), location, catalog.store.is_local, open_latest, format_identifier(table.identifier), require_branch
    )
    return open_by_files(catalog.handles, files, selector, shared=shared)


def _open_by_rows(
    catalog: Catalog, table: ResolvedTable, selector: VersionSelector, *, shared: bool
) -> lance.LanceDataset:
    catalog.store.resolve(table.location)
    key = (table.location, table.identifier)
    handle = catalog.handles.find(key) or _open_managed(catalog, table)
    selector = selector.resolve_tag(handle.dataset, format_identifier(table.identifier))
    if selector.branch is not None:
        return _open_by_files(catalog, table, selector, shared=shared)
    versions = service.managed_table(table)
    newest = managed.find_latest(catalog, versions) if selector.is_latest else None
    record = newest if selector.version is None else managed.describe_version(catalog, versions, selector.version)
    if record is None:
        raise FileNotFoundError(f"There is no version of table {format_identifier(table.identifier)}")
    if handle.stamp == record:
        return handle.dataset if shared else handle.dataset.checkout_version((None, record.version))
    # The row was read before the version is opened: if the version is replaced, the next operation notices.
    dataset = handle.dataset.checkout_version((None, record.version))
    if shared and newest is not None:
        catalog.handles.keep(key, replace(handle, dataset=dataset, stamp=record))
    return dataset


def _open_managed(catalog: Catalog, table: ResolvedTable) -> Handle:
    # Lance holds the client, and the catalog holds what Lance opened: a strong reference would never be collected.
    from pennon.directory.versions import callback  # noqa: PLC0415 - it imports models of the SDK (ADR 0010)

    versions = callback.VersionClient(proxy(catalog))
    dataset = lance.dataset(
        **callback.opening_arguments(catalog, table.identifier, versions),
        storage_options=dict(catalog.store.storage_options) or None,
        session=catalog.session,
    )
    handle = Handle(dataset, stamp_after=versions.find_created)
    catalog.handles.keep((table.location, table.identifier), handle)
    return handle


def _explain_error(catalog: Catalog, table: ResolvedTable, error: Exception, selector: VersionSelector) -> Exception:
    """Return the error to raise for one that Lance raised when it opened a table; it may be the same."""
    what = f"Table {format_identifier(table.identifier)}"
    if is_damaged(error):
        return InvalidTableStateError(f"{what} cannot be opened: {error}")
    if not is_not_found(error) and not isinstance(error, OverflowError):
        return error
    directory = table.directory or look_at(catalog.store, table.location)
    if not directory.has_files:
        return TableNotFoundError(
            f"Table not found: {format_identifier(table.identifier)} has nothing at {table.location!r}"
        )
    if selector.version is not None:
        return TableVersionNotFoundError(f"{what} has no version {selector.version}")
    if selector.tag is not None:
        return TableTagNotFoundError(f"{what} has no tag '{selector.tag}'")
    if selector.branch is not None:
        return TableBranchNotFoundError(f"{what} has no branch '{selector.branch}'")
    if directory.has_versions:
        return InvalidTableStateError(f"{what} cannot be opened at {table.location!r}")
    return TableIsOnlyDeclaredError(f"{what} is declared, and has no data yet")
