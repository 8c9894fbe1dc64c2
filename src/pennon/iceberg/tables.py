"""List tables, and find their latest version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.iceberg import files, managed
from pennon.identifiers import Identifier, object_id
from pennon.paging import select_page

if TYPE_CHECKING:
    from pennon.iceberg.catalog import Catalog
    from pennon.iceberg.entry import Entry

_BATCH = 16


def list_tables(
    catalog: Catalog, identifier: Identifier, token: str | None, limit: int | None, *, include_declared: bool
) -> tuple[list[str], str | None]:
    """List a page of the Lance tables in a namespace. Raises NamespaceNotFoundError if there is none.

    The protocol lists names only: each table of the page is loaded to see what it is, unless all are known to be ours.
    """
    names = catalog.names(identifier)
    if not names:
        # Some servers list nothing where there is no namespace.
        catalog.require_namespace(identifier)
    if catalog.has_only_lance_tables and include_declared:
        return select_page(names, token, limit)
    wanted = [(name, (*identifier, name)) for name in names]
    return _page(catalog, wanted, token, limit, include_declared=include_declared)


def list_all_tables(
    catalog: Catalog, below: Identifier, token: str | None, limit: int | None, *, include_declared: bool
) -> tuple[list[str], str | None]:
    """List a page of the full identifiers of all Lance tables at any depth below a namespace."""
    ids = [(*parent, name) for parent in catalog.walk(below) for name in catalog.names(parent)]
    wanted = sorted((object_id(one), one) for one in ids)
    if catalog.has_only_lance_tables and include_declared:
        return select_page([key for key, _ in wanted], token, limit)
    return _page(catalog, wanted, token, limit, include_declared=include_declared)


def is_only_declared(catalog: Catalog, entry: Entry) -> bool:
    """Return True if a table has no version yet."""
    return entry.version is None if entry.is_managed else not files.list_versions(catalog.store(entry))


def latest_version(catalog: Catalog, entry: Entry) -> int:
    """Return the latest version, or 0."""
    if entry.is_managed:
        newest = managed.latest(entry, catalog.store(entry))
        return 0 if newest is None else newest.version
    return max(files.list_versions(catalog.store(entry)), default=0)


def _page(
    catalog: Catalog,
    wanted: list[tuple[str, Identifier]],
    token: str | None,
    limit: int | None,
    *,
    include_declared: bool,
) -> tuple[list[str], str | None]:
    """Return a page of Lance tables, and load only as many tables as the page needs."""
    keys = [key for key, _ in wanted]
    following, _ = select_page(keys, token, None)
    found: list[str] = []
    offset = len(keys) - len(following)
    while offset < len(wanted):
        some = wanted[offset : offset + (_BATCH if limit is None else min(_BATCH, limit + 1 - len(found)))]
        offset += len(some)
        shows = catalog.map(lambda one: _is_shown(catalog, one[1], include_declared=include_declared), some)
        found += [key for (key, _), is_shown in zip(some, shows, strict=True) if is_shown]
        # One more than the page shows whether there is another page.
        if limit is not None and len(found) > limit:
            break
    return select_page(found, None, limit)


def _is_shown(catalog: Catalog, identifier: Identifier, *, include_declared: bool) -> bool:
    entry = catalog.any_table(identifier)
    if entry is None or not entry.is_lance:
        return False
    return include_declared or not is_only_declared(catalog, entry)
