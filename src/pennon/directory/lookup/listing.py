"""List the tables of a namespace, by the manifest and by the directories of the root."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.lookup.directories import RootListing, list_root, look_if_usable
from pennon.directory.lookup.resolve import namespace_exists
from pennon.identifiers import DELIMITER, ROOT, Identifier, namespace_not_found, object_id
from pennon.paging import fetch_page, select_page
from pennon.store import call_together

if TYPE_CHECKING:
    from collections.abc import Callable

    from pennon.directory.catalog import Catalog
    from pennon.directory.manifest import Snapshot

_MANY_DIRECTORIES = 1_000
"""With more root tables, all rows are read into memory: queries of so many would take longer."""


def list_tables(
    catalog: Catalog, identifier: Identifier, token: str | None, limit: int | None, *, include_declared: bool
) -> tuple[list[str], str | None]:
    """Return a page of the names of a namespace's tables, and the token of the next page.

    At the root this costs one listing, beside the request that validates the manifest. Raises NamespaceNotFoundError.
    """
    listing = None
    if identifier == ROOT and catalog.lists_directories:
        listing = _list_root(catalog)
        names = _root_names(catalog, listing)
        if include_declared:
            return select_page(names, token, limit)
    elif include_declared and catalog.manifest is not None:
        return catalog.manifest.read(lambda snapshot: _page_of_tables(snapshot, identifier, token, limit))
    else:
        names = _manifest_names(catalog, identifier)
    prefix = object_id(identifier) + DELIMITER if identifier else ""
    names = _keep_filled(catalog, names, listing or list_root(catalog.store), lambda name: prefix + name)
    return select_page(names, token, limit)


def list_all_tables(
    catalog: Catalog, below: Identifier, token: str | None, limit: int | None, *, include_declared: bool
) -> tuple[list[str], str | None]:
    """Return a page of the object ids of all tables below a namespace, and the token of the next page.

    Raises NamespaceNotFoundError.
    """
    ids: list[str] = []
    listing = None
    if below == ROOT and catalog.lists_directories:
        listing = _list_root(catalog)
        ids = _root_names(catalog, listing, nested=True)
    elif catalog.manifest is not None:
        ids = catalog.manifest.read(lambda snapshot: _require_namespace(snapshot, below).table_ids(object_id(below)))
    else:
        catalog.resolver.require_namespace(below)
    if not include_declared:
        ids = _keep_filled(catalog, ids, listing or list_root(catalog.store), lambda key: key)
    return select_page(ids, token, limit)


def _list_root(catalog: Catalog) -> RootListing:
    """List the root, and in a bucket validate the manifest at the same time."""
    manifest, store = catalog.manifest, catalog.store
    if manifest is None or not _reads_together(catalog):
        return list_root(store)
    listing: RootListing
    _, listing = call_together(store, lambda: manifest.read(_ignore), lambda: list_root(store))
    return listing


def _reads_together(catalog: Catalog) -> bool:
    # With legacy markers, all directories are looked into before the manifest is needed.
    return not catalog.store.is_local and not catalog.settings.legacy_markers


def _ignore(_: Snapshot) -> None:
    """Look at nothing: the caller only needs the manifest to be validated."""


def _root_names(catalog: Catalog, listing: RootListing, *, nested: bool = False) -> list[str]:
    """Return the tables at the root by manifest and directory. The manifest comes first, and no location twice.

    `nested` adds the object ids of all tables in namespaces.
    """
    names = _visible_names(catalog, listing)
    if catalog.manifest is None:
        return names

    def has_hidden_row(snapshot: Snapshot) -> bool:
        shown = set(names)
        return any(_has_root_row(snapshot, name) for name in snapshot.table_names("") if name not in shown)

    # A rename commits the new row and then hides the directory. If the listing shows that a table with a row is hidden,
    # the manifest must be read after it, or the table would be listed under neither name.
    if not _reads_together(catalog) or catalog.manifest.peek(has_hidden_row):
        if len(names) > _MANY_DIRECTORIES:
            catalog.manifest.read_whole(_ignore)
        else:
            catalog.manifest.read(_ignore)
    # A row and a marker beside the directory may contradict each other: the marker inside decides.
    doubtful = catalog.manifest.peek(
        lambda snapshot: [name for name in _marked_names(listing) if _has_root_row(snapshot, name)]
    )
    visible_names = {*names, *_keep_visible(catalog, doubtful)}

    def merge(snapshot: Snapshot) -> list[str]:
        listed = snapshot.table_names("")
        snapshot.expect(*listed, *names)
        snapshot.expect_locations(*map(layout.root_table, names))
        merged = {name for name in listed if name in visible_names or not _has_root_row(snapshot, name)}
        for name in names:
            if not snapshot.object_ids_at(layout.root_table(name)) and snapshot.get(name) is None:
                merged.add(name)
        if nested:
            merged.update(key for key in snapshot.table_ids() if DELIMITER in key)
        return sorted(merged)

    return catalog.manifest.peek(merge)


def _marked_names(listing: RootListing) -> list[str]:
    return sorted(name for name in listing.deregistered & listing.directories if name not in listing.markers)


def _has_root_row(snapshot: Snapshot, name: str) -> bool:
    row = snapshot.get(name)
    return row is not None and row.location == layout.root_table(name)


def _visible_names(catalog: Catalog, listing: RootListing) -> list[str]:
    names = listing.visible_tables()
    return _keep_visible(catalog, names) if catalog.settings.legacy_markers else names


def _keep_visible(catalog: Catalog, names: list[str]) -> list[str]:
    results = catalog.store.map(lambda name: _is_visible(catalog, name), names)
    return [name for name, visible in zip(names, results, strict=True) if visible]


def _is_visible(catalog: Catalog, name: str) -> bool:
    # The listing has already shown that no marker hides the table.
    directory = look_if_usable(catalog.store, layout.root_table(name))
    return directory is not None and directory.visible


def _manifest_names(catalog: Catalog, identifier: Identifier) -> list[str]:
    if catalog.manifest is None:
        catalog.resolver.require_namespace(identifier)
        return []
    return catalog.manifest.read(
        lambda snapshot: list(_require_namespace(snapshot, identifier).table_names(object_id(identifier)))
    )


def _keep_filled(catalog: Catalog, names: list[str], listing: RootListing, key_of: Callable[[str], str]) -> list[str]:
    """Return the tables that have data.

    Tables that Pennon declared have a marker at the root, so only their directories are looked into. With
    `legacy_markers` all directories are.
    """
    suspects = []
    if catalog.manifest is not None:
        catalog.manifest.peek(lambda snapshot: snapshot.expect(*map(key_of, names)))
    for name in names:
        location = _location(catalog, key_of(name))
        marker = layout.declared_marker(location).removesuffix(layout.DECLARED_SUFFIX)
        if catalog.settings.legacy_markers or marker in listing.declared:
            suspects.append((name, location))
    results = catalog.store.map(lambda suspect: _is_empty(catalog, suspect[1]), suspects)
    empty = {name for (name, _), is_empty in zip(suspects, results, strict=True) if is_empty}
    return [name for name in names if name not in empty]


def _location(catalog: Catalog, key: str) -> str:
    row = None if catalog.manifest is None else catalog.manifest.peek(lambda snapshot: snapshot.get(key))
    return layout.root_table(key) if row is None or row.location is None else row.location


def _is_empty(catalog: Catalog, location: str) -> bool:
    directory = look_if_usable(catalog.store, location)
    return directory is None or not directory.has_versions


def _page_of_tables(
    snapshot: Snapshot, identifier: Identifier, token: str | None, limit: int | None
) -> tuple[list[str], str | None]:
    parent = object_id(identifier)
    _require_namespace(snapshot, identifier)
    return fetch_page(lambda after, count: snapshot.table_names(parent, after, count), token, limit)


def _require_namespace(snapshot: Snapshot, identifier: Identifier) -> Snapshot:
    if not namespace_exists(snapshot, identifier):
        raise namespace_not_found(identifier)
    return snapshot
