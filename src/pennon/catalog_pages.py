"""Everything that a catalog lists, page after page, by the interface that all implementations have."""

from __future__ import annotations

import difflib
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

from pennon.errors import InvalidInputError, LanceNamespaceError, NamespaceNotFoundError, TableNotFoundError
from pennon.identifiers import Identifier, quote_identifier, split_object_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    from lance_namespace_urllib3_client.models.table_version import TableVersion

    from pennon.catalog_namespace import CatalogNamespace
    from pennon.rest import RestNamespace
    from pennon.results import DroppedTable

    Client: TypeAlias = CatalogNamespace[Any] | RestNamespace

_Entry = TypeVar("_Entry")
_PAGE = 1000
_MOST_SUGGESTIONS = 3
_LOOKED_AT = 10_000


def has_table(catalog: Client, identifier: Identifier) -> bool:
    """Return True if the catalog has a table, also if it is only declared; False also if a name is not valid."""
    from lance_namespace import TableExistsRequest

    try:
        catalog.table_exists(TableExistsRequest(id=list(identifier)))
    except (TableNotFoundError, NamespaceNotFoundError, InvalidInputError):
        return False
    return True


def has_namespace(catalog: Client, identifier: Identifier) -> bool:
    """Return True if the catalog has a namespace. The root always exists."""
    from lance_namespace import NamespaceExistsRequest

    if not identifier:
        return True
    try:
        catalog.namespace_exists(NamespaceExistsRequest(id=list(identifier)))
    except NamespaceNotFoundError:
        return False
    return True


def suggest_similar(catalog: Client, identifier: Identifier) -> str:
    """Return a question that names tables and namespaces with a similar name, for messages, or an empty string."""
    try:
        names = [quote_identifier(one) for one in _list_candidates(catalog, identifier)]
    except LanceNamespaceError:
        return ""
    close = difflib.get_close_matches(quote_identifier(identifier), names, _MOST_SUGGESTIONS)
    return f"; did you mean {' or '.join(repr(one) for one in close)}?" if close else ""


def _list_candidates(catalog: Client, identifier: Identifier) -> Iterable[Identifier]:
    """Return what is next to an object, or all tables if its namespace does not exist."""
    parent = identifier[:-1]
    try:
        beside = chain(iterate_tables(catalog, parent), iterate_namespaces(catalog, parent, recursive=False))
        return list(islice(beside, _LOOKED_AT))
    except NamespaceNotFoundError:
        return list(islice(iterate_all_tables(catalog, ()), _LOOKED_AT))


def iterate_namespaces(catalog: Client, parent: Identifier, *, recursive: bool) -> Iterator[Identifier]:
    """Yield the namespaces in a namespace; with `recursive`, also those below them."""
    from lance_namespace import ListNamespacesRequest

    def fetch(token: str | None) -> tuple[Iterable[str], str | None]:
        page = catalog.list_namespaces(ListNamespacesRequest(id=list(parent), limit=_PAGE, page_token=token))
        return page.namespaces, page.page_token

    for name in iterate_pages(fetch):
        yield (*parent, name)
        if recursive:
            yield from iterate_namespaces(catalog, (*parent, name), recursive=True)


def iterate_tables(catalog: Client, namespace: Identifier) -> Iterator[Identifier]:
    """Yield the tables of a namespace."""
    from lance_namespace import ListTablesRequest

    def fetch(token: str | None) -> tuple[Iterable[str], str | None]:
        page = catalog.list_tables(ListTablesRequest(id=list(namespace), limit=_PAGE, page_token=token))
        return page.tables, page.page_token

    return ((*namespace, name) for name in iterate_pages(fetch))


def iterate_all_tables(catalog: Client, namespace: Identifier) -> Iterator[Identifier]:
    """Yield the tables below a namespace, including declared ones.

    Raises NamespaceNotFoundError if the namespace does not exist.
    """
    from lance_namespace import ListTablesRequest

    def fetch(token: str | None) -> tuple[Iterable[str], str | None]:
        page = catalog.list_all_tables(ListTablesRequest(id=list(namespace), limit=_PAGE, page_token=token))
        return page.tables, page.page_token

    return map(split_object_id, iterate_pages(fetch))


def iterate_versions(catalog: Client, identifier: Identifier, branch: str | None = None) -> Iterator[TableVersion]:
    """Yield the versions of a table. Listing also finishes versions that a dead writer has committed."""
    from lance_namespace import ListTableVersionsRequest

    def fetch(token: str | None) -> tuple[Iterable[TableVersion], str | None]:
        request = ListTableVersionsRequest(id=list(identifier), limit=_PAGE, page_token=token, branch=branch)
        page = catalog.list_table_versions(request)
        return page.versions, page.page_token

    return iterate_pages(fetch)


def iterate_dropped_tables(catalog: Client, namespace: Identifier, *, detailed: bool = False) -> Iterator[DroppedTable]:
    """Yield the dropped tables of a namespace."""
    return iterate_pages(lambda token: catalog.list_dropped_tables(namespace, token, _PAGE, detailed=detailed))


def iterate_pages(fetch: Callable[[str | None], tuple[Iterable[_Entry], str | None]]) -> Iterator[_Entry]:
    """Yield the entries of all pages. `fetch` returns the page for a token, and the token of the next page."""
    token = None
    while True:
        page, token = fetch(token)
        yield from page
        if not token:
            return
