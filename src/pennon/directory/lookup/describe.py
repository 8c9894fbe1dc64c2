"""Looking at tables: list, exists, describe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.lookup.listing import RootListing, list_root, look_at, look_if_usable
from pennon.directory.lookup.resolve import namespace_exists
from pennon.directory.versions import managed
from pennon.errors import (
    InvalidTableStateError,
    TableBranchNotFoundError,
    TableIsOnlyDeclaredError,
    TableNotFoundError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
    is_damaged,
    is_not_found,
)
from pennon.identifiers import DELIMITER, ROOT, Identifier, format_identifier, namespace_not_found, object_id
from pennon.paging import select_page
from pennon.table.description import TableDescription, describe_version, open_table
from pennon.table.version_selector import VersionSelector

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance import LanceDataset

    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.resolve import Found
    from pennon.directory.manifest import Snapshot


@dataclass(frozen=True)
class Described:
    """A table with what was asked about it."""

    found: Found
    only_declared: bool | None
    details: TableDescription | None


def exists(catalog: Catalog, identifier: Identifier) -> None:
    """Raise 1 or 4 unless the table is there."""
    catalog.resolver.table(identifier)


def describe_table(
    catalog: Catalog,
    identifier: Identifier,
    *,
    version: int | None = None,
    tag: str | None = None,
    branch: str | None = None,
    detailed: bool = False,
    check_declared: bool = False,
) -> Described:
    """Describe a table; the data is opened only if a version, a tag, a branch or details are asked for."""
    selector = VersionSelector.of(format_identifier(identifier), version, tag, branch)
    found = catalog.resolver.table(identifier, look=check_declared)
    only_declared = found.directory.only_declared if found.directory is not None else None
    if version is None and tag is None and branch is None and not detailed:
        return Described(found, only_declared if check_declared else None, None)
    dataset = _opened(catalog, found, selector)
    if dataset is None:
        return Described(found, only_declared=True, details=None)
    return Described(found, only_declared=False, details=describe_version(dataset) if detailed else None)


def opened(
    catalog: Catalog,
    identifier: Identifier,
    *,
    version: int | None = None,
    tag: str | None = None,
    branch: str | None = None,
) -> tuple[Found, LanceDataset | None]:
    """Find a table and open it at a version, tag or branch; None if it is only declared. Errors 1, 4, 8, 11, 19, 22."""
    selector = VersionSelector.of(format_identifier(identifier), version, tag, branch)
    found = catalog.resolver.table(identifier)
    return found, _opened(catalog, found, selector)


def list_tables(
    catalog: Catalog, identifier: Identifier, token: str | None, limit: int | None, *, include_declared: bool
) -> tuple[list[str], str | None]:
    """List a page of the tables directly in a namespace. At the root, one listing and nothing per table."""
    listing = None
    if identifier == ROOT and catalog.lists_directories:
        listing = list_root(catalog.store)
        names = _root_names(catalog, listing)
        if include_declared:
            return select_page(names, token, limit)
    elif include_declared and catalog.manifest is not None:
        return catalog.manifest.read(
            lambda snapshot: select_page(
                _required(snapshot, identifier).table_names(object_id(identifier)), token, limit
            )
        )
    else:
        names = _manifest_names(catalog, identifier)
    prefix = object_id(identifier) + DELIMITER if identifier else ""
    names = _with_data(catalog, names, listing or list_root(catalog.store), lambda name: prefix + name)
    return select_page(names, token, limit)


def list_all_tables(
    catalog: Catalog, below: Identifier, token: str | None, limit: int | None, *, include_declared: bool
) -> tuple[list[str], str | None]:
    """List a page of the full identifiers of all tables at any depth below a namespace."""
    ids: list[str] = []
    listing = None
    if below == ROOT and catalog.lists_directories:
        listing = list_root(catalog.store)
        ids = _root_names(catalog, listing, nested=True)
    elif catalog.manifest is not None:
        ids = catalog.manifest.read(lambda snapshot: _required(snapshot, below).table_ids(object_id(below)))
    else:
        catalog.resolver.require_namespace(below)
    if not include_declared:
        ids = _with_data(catalog, ids, listing or list_root(catalog.store), lambda key: key)
    return select_page(ids, token, limit)


def _root_names(catalog: Catalog, listing: RootListing, *, nested: bool = False) -> list[str]:
    """Merge what the manifest and the directory know of the root: manifest first, no location and no name twice.

    With `nested`, the full identifiers of the tables in namespaces as well.
    """
    names = _visible(catalog, listing)
    if catalog.manifest is None:
        return names

    doubtful = catalog.manifest.read(lambda snapshot: [name for name in _marked(listing) if _root_row(snapshot, name)])
    looked = catalog.store.map(lambda name: _is_visible(catalog, name), doubtful)
    shown_names = set(names) | {name for name, visible in zip(doubtful, looked, strict=True) if visible}

    def merge(snapshot: Snapshot) -> list[str]:
        merged = {name for name in snapshot.table_names("") if name in shown_names or not _root_row(snapshot, name)}
        for name in names:
            if not snapshot.object_ids_at(layout.root_table(name)) and snapshot.get(name) is None:
                merged.add(name)
        if nested:
            merged.update(key for key in snapshot.table_ids() if DELIMITER in key)
        return sorted(merged)

    return catalog.manifest.peek(merge)


def _marked(listing: RootListing) -> list[str]:
    """Name the tables whose row and whose marker at the root may contradict each other."""
    return sorted(name for name in listing.deregistered & listing.directories if name not in listing.markers)


def _root_row(snapshot: Snapshot, name: str) -> bool:
    row = snapshot.get(name)
    return row is not None and row.location == layout.root_table(name)


def _visible(catalog: Catalog, listing: RootListing) -> list[str]:
    names = listing.visible()
    if not catalog.settings.legacy_markers:
        return names
    looked = catalog.store.map(lambda name: _is_visible(catalog, name), names)
    return [name for name, visible in zip(names, looked, strict=True) if visible]


def _is_visible(catalog: Catalog, name: str) -> bool:
    # The listing has already shown whether a marker hides the table.
    directory = look_if_usable(catalog.store, layout.root_table(name))
    return directory is not None and directory.visible


def _manifest_names(catalog: Catalog, identifier: Identifier) -> list[str]:
    if catalog.manifest is None:
        catalog.resolver.require_namespace(identifier)
        return []
    return catalog.manifest.read(
        lambda snapshot: list(_required(snapshot, identifier).table_names(object_id(identifier)))
    )


def _with_data(catalog: Catalog, names: list[str], listing: RootListing, key_of: Callable[[str], str]) -> list[str]:
    """Leave out tables that are only declared.

    Tables that Pennon declared have a marker beside their directory, so the listing of the root tells which to look at;
    with `legacy_markers` every table is looked at.
    """
    suspects = []
    for name in names:
        location = _location(catalog, key_of(name))
        marker = layout.declared(location).removesuffix(layout.DECLARED_SUFFIX)
        if catalog.settings.legacy_markers or marker in listing.declared:
            suspects.append((name, location))
    looked = catalog.store.map(lambda suspect: _is_empty(catalog, suspect[1]), suspects)
    empty = {name for (name, _), verdict in zip(suspects, looked, strict=True) if verdict}
    return [name for name in names if name not in empty]


def _location(catalog: Catalog, key: str) -> str:
    row = None if catalog.manifest is None else catalog.manifest.peek(lambda snapshot: snapshot.get(key))
    return layout.root_table(key) if row is None or row.location is None else row.location


def _is_empty(catalog: Catalog, location: str) -> bool:
    directory = look_if_usable(catalog.store, location)
    return directory is None or not directory.has_versions


def _required(snapshot: Snapshot, identifier: Identifier) -> Snapshot:
    if not namespace_exists(snapshot, identifier):
        raise namespace_not_found(identifier)
    return snapshot


def reason(catalog: Catalog, found: Found, error: Exception, point: VersionSelector) -> Exception:
    """Give the error to raise for one that Lance raised when it opened a table, which may be that very one."""
    what = f"Table {format_identifier(found.identifier)}"
    if is_damaged(error):
        return InvalidTableStateError(f"{what} cannot be opened: {error}")
    if not is_not_found(error) and not isinstance(error, OverflowError):
        return error
    directory = found.directory or look_at(catalog.store, found.location)
    if not directory.has_files:
        return TableNotFoundError(
            f"Table not found: {format_identifier(found.identifier)} has nothing at {found.location!r}"
        )
    if point.version is not None:
        return TableVersionNotFoundError(f"{what} has no version {point.version}")
    if point.tag is not None:
        return TableTagNotFoundError(f"{what} has no tag '{point.tag}'")
    if point.branch is not None:
        return TableBranchNotFoundError(f"{what} has no branch '{point.branch}'")
    if directory.has_versions:
        return InvalidTableStateError(f"{what} cannot be opened at {found.location!r}")
    return TableIsOnlyDeclaredError(f"{what} is declared, and has no data yet")


def _opened(catalog: Catalog, found: Found, selector: VersionSelector) -> LanceDataset | None:
    managed.finish_table(catalog, object_id(found.identifier), found.location, tidy=False)
    try:
        return open_table(
            catalog.store.resolve(found.location),
            catalog.store.storage_options,
            selector,
            table=format_identifier(found.identifier),
            session=catalog.session,
            check_branch=lambda name: catalog.store.resolve(f"{found.location}/tree/{name}"),
        )
    except (OSError, ValueError) as error:
        why = reason(catalog, found, error, selector)
        if isinstance(why, TableIsOnlyDeclaredError):
            return None
        raise why from error
