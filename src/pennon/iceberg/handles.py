"""Tables that are open, for operations inside of them.

Each operation loads its table anew, which tells whether it is still the same one, and the version where the server
decides about that. So nothing is ever met under a name that it no longer has, and a version that is open already costs
no more than that one request.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import proxy

import lance
from lance_namespace import LanceNamespace

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

    from pennon.iceberg.catalog import Catalog
    from pennon.iceberg.entry import Entry
    from pennon.table.version_selector import VersionSelector


def open_table(
    catalog: Catalog, client: LanceNamespace, entry: Entry, point: VersionSelector, *, shared: bool = False
) -> LanceDataset:
    """Open a table that was just loaded; what is committed to it goes through the server if that decides.

    A shared one is used by others as well, and must not be moved or written through in place. Errors 8, 11, 13, 19, 22.
    """
    if entry.is_managed and entry.version is None:
        raise TableIsOnlyDeclaredError(f"Table {format_identifier(entry.identifier)} is declared, and has no data yet")
    try:
        # Files decide about branches; about everything else the server does, if it decides at all.
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
    """Open a table by asking the catalog; Lance asks again when the credentials that it got expire."""
    # Lance holds the client, the catalog holds what Lance has opened: a circle that nobody would find.
    return lance.dataset(
        namespace_client=CatalogCallback(proxy(client)),
        table_id=list(entry.identifier),
        storage_options=catalog.options(entry) or None,
        session=catalog.session,
    )


def _access_key(catalog: Catalog, entry: Entry) -> tuple[Hashable, ...]:
    """Give what else a table has to be opened with to be the same: credentials, unless Lance itself renews them."""
    options = catalog.options(entry)
    return () if EXPIRY in options else tuple(sorted(options.items()))


def _explain_error(catalog: Catalog, entry: Entry, point: VersionSelector, error: Exception) -> Exception:
    """Give the error to raise for one that Lance raised when it opened a table, which may be that very one."""
    what = f"Table {format_identifier(entry.identifier)}"
    is_missing = is_not_found(error) or isinstance(error, OverflowError) or "has no version" in str(error)
    if is_damaged(error):
        return InvalidTableStateError(f"{what} is damaged: {error}")
    if not is_missing:
        return error
    if not entry.is_managed and tables.is_only_declared(catalog, entry):
        return TableIsOnlyDeclaredError(f"{what} is declared, and has no data yet")
    if point.version is not None:
        return TableVersionNotFoundError(f"{what} has no version {point.version}")
    return InvalidTableStateError(f"{what} has no data: {error}")


class CatalogCallback(LanceNamespace):
    """What Lance asks of a catalog about a table and its versions."""

    def __init__(self, client: LanceNamespace) -> None:
        self._client = client

    def namespace_id(self) -> str:
        """Name the catalog."""
        return self._client.namespace_id()

    def describe_table(self, request: Any) -> Any:
        """Tell where the table is, and how it is reached."""
        return self._client.describe_table(request)

    def list_table_versions(self, request: Any) -> Any:
        """List versions."""
        return self._client.list_table_versions(request)

    def describe_table_version(self, request: Any) -> Any:
        """Describe a version."""
        return self._client.describe_table_version(request)

    def create_table_version(self, request: Any) -> Any:
        """Create a version."""
        return self._client.create_table_version(request)
