"""Open tables for operations inside them.

Each operation loads the entry of its table, which shows whether it is still the same table and, for managed tables, the
version. So an operation never uses a table under a name that it no longer has. If the version is already open, this is
the only request.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import proxy

import lance

from pennon.catalog_callback import CatalogCallback
from pennon.config import EXPIRY
from pennon.errors import (
    InvalidTableStateError,
    TableIsOnlyDeclaredError,
    TableVersionNotFoundError,
    is_damaged,
    is_not_found,
)
from pennon.iceberg import tables
from pennon.identifiers import format_identifier
from pennon.table.handles import Handle, TableFiles, open_by_files

if TYPE_CHECKING:
    from collections.abc import Hashable

    from lance import LanceDataset
    from lance_namespace import LanceNamespace

    from pennon.iceberg.catalog import Catalog
    from pennon.iceberg.entry import Entry
    from pennon.table.version_selector import VersionSelector


def open_table(
    catalog: Catalog, client: LanceNamespace, entry: Entry, point: VersionSelector, *, shared: bool = False
) -> LanceDataset:
    """Open a table that was just loaded. Commits to a managed table go through the server.

    Other operations use a shared dataset at the same time; it must not be moved to another version or written to.
    Raises TableVersionNotFoundError, TableTagNotFoundError or TableBranchNotFoundError if the version does not exist,
    InvalidTableStateError if the table has no data or is damaged.
    """
    if entry.is_managed and entry.version is None:
        raise TableIsOnlyDeclaredError(f"Table {format_identifier(entry.identifier)} is declared but has no data yet")
    try:
        # Files decide about branches. The server decides about the main branch of a managed table.
        if entry.is_managed and point.branch is None:
            return _open_by_snapshots(catalog, client, entry, point, shared=shared)
        return _open_by_files(catalog, client, entry, point, shared=shared)
    except (OSError, ValueError, OverflowError) as error:
        raise _explain_error(catalog, entry, point, error) from error


def _open_by_snapshots(
    catalog: Catalog, client: LanceNamespace, entry: Entry, point: VersionSelector, *, shared: bool
) -> LanceDataset:
    key = (entry.identifier, entry.uuid, *_access_key(catalog, entry))
    stamp = (entry.uuid, entry.version)
    kept = catalog.handles.find(key)
    if kept is None:
        # Whatever is committed while it is opened makes the next look find another number.
        kept = Handle(_open_managed(catalog, client, entry), stamp)
        if int(kept.dataset.version) != entry.version:
            kept = replace(kept, stamp=None)
        catalog.handles.keep(key, kept)
    point = point.resolve_tag(kept.dataset, format_identifier(entry.identifier))
    if point.branch is not None:
        return _open_by_files(catalog, client, entry, point, shared=shared)
    version = entry.version if point.version is None else point.version
    if version is None or version > (entry.version or 0):
        raise TableVersionNotFoundError(f"Table {format_identifier(entry.identifier)} has no version {version}")
    if shared and kept.stamp == (entry.uuid, version):
        return kept.dataset
    dataset = kept.dataset.checkout_version((None, version))
    if shared and point.is_latest:
        catalog.handles.keep(key, replace(kept, dataset=dataset, stamp=stamp))
    return dataset


def _open_by_files(
    catalog: Catalog, client: LanceNamespace, entry: Entry, point: VersionSelector, *, shared: bool
) -> LanceDataset:
    store = catalog.store(entry)
    location = store.location("").rstrip("/")

    def latest() -> LanceDataset:
        if EXPIRY in catalog.options(entry) and not entry.is_managed:
            return _open_managed(catalog, client, entry)
        return lance.dataset(location, storage_options=catalog.options(entry) or None, session=catalog.session)

    place = TableFiles(
        (location, *_access_key(catalog, entry)), location, store.is_local, latest, format_identifier(entry.identifier)
    )
    return open_by_files(catalog.handles, place, point, shared=shared)


def _open_managed(catalog: Catalog, client: LanceNamespace, entry: Entry) -> LanceDataset:
    """Open a table through the catalog. Lance asks again when the credentials expire."""
    # A proxy, because the garbage collector cannot find the cycle: Lance holds the client, the catalog the dataset.
    return lance.dataset(
        namespace_client=CatalogCallback(proxy(client)),
        table_id=list(entry.identifier),
        storage_options=catalog.options(entry) or None,
        session=catalog.session,
    )


def _access_key(catalog: Catalog, entry: Entry) -> tuple[Hashable, ...]:
    """Return the credentials as part of the cache key, unless Lance renews them itself."""
    options = catalog.options(entry)
    return () if EXPIRY in options else tuple(sorted(options.items()))


def _explain_error(catalog: Catalog, entry: Entry, point: VersionSelector, error: Exception) -> Exception:
    """Return the error to raise for an error of Lance while it opened a table."""
    what = f"Table {format_identifier(entry.identifier)}"
    is_missing = is_not_found(error) or isinstance(error, OverflowError) or "has no version" in str(error)
    if is_damaged(error):
        return InvalidTableStateError(f"{what} is damaged: {error}")
    if not is_missing:
        return error
    if not entry.is_managed and tables.is_only_declared(catalog, entry):
        return TableIsOnlyDeclaredError(f"{what} is declared but has no data yet")
    if point.version is not None:
        return TableVersionNotFoundError(f"{what} has no version {point.version}")
    return InvalidTableStateError(f"{what} has no data: {error}")
