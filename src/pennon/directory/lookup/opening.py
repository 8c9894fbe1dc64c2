"""Tables that are open, for operations inside of them.

Each operation finds its table anew, so a table that was dropped, renamed or made anew elsewhere is never met under its
old name. What is kept between operations is only the open table at a location. Which version of it is the latest is
asked each time: where the catalog manages versions its rows tell, which have just been read; else Lance looks at the
files, and knows a manifest that was written anew under the same number by its e-tag.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import proxy

import lance

from pennon.directory.lookup import describe
from pennon.directory.versions import callback, managed, service
from pennon.identifiers import Identifier, format_identifier, object_id
from pennon.table.handles import Handle, TableFiles, open_by_files

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.resolve import Found
    from pennon.table.version_selector import VersionSelector


def opened(
    catalog: Catalog, identifier: Identifier, point: VersionSelector, *, shared: bool = False
) -> lance.LanceDataset:
    """Open a table at a version, tag or branch; what is committed to it goes through the catalog if that decides.

    A shared one is used by others as well, and must not be moved or written through in place. Errors 1, 4, 8, 11, 13,
    19 (only declared, or damaged), 22.
    """
    found = catalog.resolver.table(identifier)
    try:
        # Files decide about branches; about everything else the catalog does.
        if point.branch is None and service.is_managed(catalog, found):
            return _by_rows(catalog, found, point, shared=shared)
        return _by_files(catalog, found, point, shared=shared)
    except (OSError, ValueError, OverflowError) as error:
        raise describe.reason(catalog, found, error, point) from error


def _by_files(catalog: Catalog, found: Found, point: VersionSelector, *, shared: bool) -> lance.LanceDataset:
    managed.finish_table(catalog, object_id(found.identifier), found.location, tidy=False)
    location = catalog.store.resolve(found.location)

    def latest() -> lance.LanceDataset:
        return lance.dataset(
            location, storage_options=dict(catalog.store.storage_options) or None, session=catalog.session
        )

    def require_branch(name: str) -> str:
        return catalog.store.resolve(f"{found.location}/tree/{name}")

    place = TableFiles(
        (location,), location, catalog.store.is_local, latest, format_identifier(found.identifier), require_branch
    )
    return open_by_files(catalog.handles, place, point, shared=shared)


def _by_rows(catalog: Catalog, found: Found, point: VersionSelector, *, shared: bool) -> lance.LanceDataset:
    catalog.store.resolve(found.location)
    key = (found.location, found.identifier)
    kept = catalog.handles.find(key) or _managed(catalog, found)
    point = point.resolve_tag(kept.dataset, format_identifier(found.identifier))
    if point.branch is not None:
        return _by_files(catalog, found, point, shared=shared)
    table = service.managed_table(found)
    newest = managed.find_latest(catalog, table) if point.is_latest else None
    record = newest if point.version is None else managed.describe_version(catalog, table, point.version)
    if record is None:
        raise FileNotFoundError(f"There is no version of table {format_identifier(found.identifier)}")
    if kept.stamp == record:
        return kept.dataset if shared else kept.dataset.checkout_version((None, record.version))
    # The row was read before the version is opened: if another one takes its place, the next look sees it.
    dataset = kept.dataset.checkout_version((None, record.version))
    if shared and newest is not None:
        catalog.handles.keep(key, replace(kept, dataset=dataset, stamp=record))
    return dataset


def _managed(catalog: Catalog, found: Found) -> Handle:
    # Lance holds the client, the catalog holds what Lance has opened: a circle that nobody would find.
    versions = callback.VersionClient(proxy(catalog))
    dataset = lance.dataset(
        **callback.opening_arguments(catalog, found.identifier, versions),
        storage_options=dict(catalog.store.storage_options) or None,
        session=catalog.session,
    )
    handle = Handle(dataset, stamp_after=versions.find_created)
    catalog.handles.keep((found.location, found.identifier), handle)
    return handle
