"""Looking at tables: list, exists, describe, open."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lance

from pennon.errors import (
    InvalidInputError,
    InvalidTableStateError,
    TableBranchNotFoundError,
    TableIsOnlyDeclaredError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
    is_damaged,
    is_not_found,
)
from pennon.iceberg import files, managed
from pennon.identifiers import Identifier, object_id, shown
from pennon.paging import page
from pennon.table.branches import MAIN
from pennon.table.description import Description, describe, open_table

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance_namespace import LanceNamespace

    from pennon.iceberg.catalog import Catalog
    from pennon.iceberg.entry import Entry

_BATCH = 16


@dataclass(frozen=True)
class Described:
    """A table with what was asked about it."""

    entry: Entry
    only_declared: bool | None
    details: Description | None


def list_tables(
    catalog: Catalog, identifier: Identifier, token: str | None, limit: int | None, *, include_declared: bool
) -> tuple[list[str], str | None]:
    """List a page of the Lance tables in a namespace.

    The protocol lists names only: each table of the page is loaded to see what it is, unless all are assumed ours.
    """
    names = catalog.names(identifier)
    if catalog.settings.assumes_lance_tables and include_declared:
        return page(names, token, limit)
    wanted = [(name, (*identifier, name)) for name in names]
    return _page(catalog, wanted, token, limit, include_declared=include_declared)


def list_all_tables(
    catalog: Catalog, below: Identifier, token: str | None, limit: int | None, *, include_declared: bool
) -> tuple[list[str], str | None]:
    """List a page of the full identifiers of all Lance tables at any depth below a namespace."""
    ids = [(*parent, name) for parent in catalog.walk(below) for name in catalog.names(parent)]
    wanted = sorted((object_id(one), one) for one in ids)
    if catalog.settings.assumes_lance_tables and include_declared:
        return page([key for key, _ in wanted], token, limit)
    return _page(catalog, wanted, token, limit, include_declared=include_declared)


def describe_table(
    catalog: Catalog,
    client: LanceNamespace,
    identifier: Identifier,
    *,
    version: int | None = None,
    tag: str | None = None,
    branch: str | None = None,
    detailed: bool = False,
    check_declared: bool = False,
) -> Described:
    """Describe a table; the data is opened only if a version, a tag, a branch or details are asked for."""
    require_one_point(identifier, version, tag, branch)
    entry = catalog.table(identifier)
    if version is None and tag is None and branch is None and not detailed:
        return Described(entry, is_only_declared(catalog, entry) if check_declared else None, None)
    if is_only_declared(catalog, entry):
        if tag is not None:
            raise TableTagNotFoundError(f"Table {shown(identifier)} has no tag '{tag}'")
        if branch is not None:
            raise TableBranchNotFoundError(f"Table {shown(identifier)} has no branch '{branch}'")
        if version is not None:
            raise TableVersionNotFoundError(f"Table {shown(identifier)} has no version {version}")
        return Described(entry, only_declared=True, details=None)
    dataset = opened(catalog, client, entry, version=version, tag=tag, branch=branch)
    return Described(entry, only_declared=False, details=describe(dataset) if detailed else None)


def opened(
    catalog: Catalog,
    client: LanceNamespace,
    entry: Entry,
    *,
    version: int | None = None,
    tag: str | None = None,
    branch: str | None = None,
) -> LanceDataset:
    """Open a table; what is committed to it goes through the server if that decides. Errors 8, 11, 19, 22."""
    identifier = entry.identifier
    require_one_point(identifier, version, tag, branch)
    branch = None if branch == MAIN else branch
    if entry.is_managed and entry.version is None:
        raise TableIsOnlyDeclaredError(f"Table {shown(identifier)} is declared, and has no data yet")
    try:
        if not entry.is_managed or branch is not None:
            return _by_files(catalog, entry, version=version, tag=tag, branch=branch)
        dataset = lance.dataset(
            namespace_client=client,
            table_id=list(identifier),
            storage_options=catalog.options(entry) or None,
            session=catalog.session,
        )
        if tag is None:
            return dataset if version is None else _at(dataset, identifier, version)
        found = dataset.tags.list().get(tag)
        if found is None:
            raise TableTagNotFoundError(f"Table {shown(identifier)} has no tag '{tag}'")
        if found["branch"] is not None:
            return _by_files(catalog, entry, tag=tag)
        return _at(dataset, identifier, int(found["version"]))
    except (OSError, ValueError) as error:
        if is_damaged(error):
            raise InvalidTableStateError(f"Table {shown(identifier)} is damaged: {error}") from error
        if not is_not_found(error):
            raise
        if not entry.is_managed and is_only_declared(catalog, entry):
            raise TableIsOnlyDeclaredError(f"Table {shown(identifier)} is declared, and has no data yet") from error
        raise InvalidTableStateError(f"Table {shown(identifier)} has no data: {error}") from error


def _by_files(
    catalog: Catalog, entry: Entry, *, version: int | None = None, tag: str | None = None, branch: str | None = None
) -> LanceDataset:
    return open_table(
        _plain(catalog, entry),
        catalog.options(entry),
        shown=shown(entry.identifier),
        session=catalog.session,
        version=version,
        tag=tag,
        branch=branch,
    )


def is_only_declared(catalog: Catalog, entry: Entry) -> bool:
    """Tell whether a table has no version yet."""
    return entry.version is None if entry.is_managed else not files.listed(catalog.store(entry))


def require_one_point(identifier: Identifier, version: int | None, tag: str | None, branch: str | None) -> None:
    """Refuse a tag together with a version or a branch (13)."""
    if tag is not None and (version is not None or branch is not None):
        raise InvalidInputError(f"A tag names a version of table {shown(identifier)}: give no other one with it")


def latest_version(catalog: Catalog, entry: Entry) -> int:
    """Give the latest version; 0 if there is none."""
    if entry.is_managed:
        newest = managed.latest(entry, catalog.store(entry))
        return 0 if newest is None else newest.version
    return max(files.listed(catalog.store(entry)), default=0)


def _at(dataset: LanceDataset, identifier: Identifier, version: int) -> LanceDataset:
    try:
        return dataset.checkout_version(version)
    except (OSError, ValueError, OverflowError) as error:
        if isinstance(error, OverflowError) or is_not_found(error) or "has no version" in str(error):
            raise TableVersionNotFoundError(f"Table {shown(identifier)} has no version {version}") from error
        raise


def _plain(catalog: Catalog, entry: Entry) -> str:
    """Give the location as Lance takes it."""
    return catalog.store(entry).location("").rstrip("/")


def _page(
    catalog: Catalog,
    wanted: list[tuple[str, Identifier]],
    token: str | None,
    limit: int | None,
    *,
    include_declared: bool,
) -> tuple[list[str], str | None]:
    """Cut a page out of what is there, and look only at as many tables as fill it."""
    keys = [key for key, _ in wanted]
    following, _ = page(keys, token, None)
    found: list[str] = []
    offset = len(keys) - len(following)
    while offset < len(wanted):
        some = wanted[offset : offset + (_BATCH if limit is None else min(_BATCH, limit + 1 - len(found)))]
        offset += len(some)
        shows = catalog.side_by_side([_looking(catalog, one, include_declared=include_declared) for _, one in some])
        found += [key for (key, _), is_shown in zip(some, shows, strict=True) if is_shown]
        # One more than the page tells whether there is another one.
        if limit is not None and len(found) > limit:
            break
    return page(found, None, limit)


def _looking(catalog: Catalog, identifier: Identifier, *, include_declared: bool) -> Any:  # noqa: ANN401 - a call
    def look() -> bool:
        entry = catalog.any_table(identifier)
        if entry is None or not entry.is_lance:
            return False
        return include_declared or not is_only_declared(catalog, entry)

    return look
