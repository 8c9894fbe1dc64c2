"""The operations on tables that change no version: list, load, rename, drop."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pennon.directory.lifecycle import deregister, register
from pennon.directory.lifecycle import drop as table_drop
from pennon.directory.lookup import listing
from pennon.errors import NamespaceNotFoundError, TableAlreadyExistsError
from pennon.identifiers import Identifier, format_identifier, table_not_found
from pennon.server.iceberg import documents
from pennon.server.permissions.listings import visible_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pennon.directory.catalog import Catalog
    from pennon.server.iceberg.models import RenameTableRequest


@contextmanager
def translate_not_found(identifier: Identifier) -> Iterator[None]:
    """Raise TableNotFoundError if the namespace of a table does not exist, as the protocol does.

    Clients of Iceberg look for `a.b.files` as a table of the namespace `a.b` first, then for a part of the table `a.b`.
    """
    try:
        yield
    except NamespaceNotFoundError as error:
        raise table_not_found(identifier) from error


def list_tables(
    catalog: Catalog,
    namespace: Identifier,
    token: str | None,
    size: int | None,
    choose: Callable[[list[str]], list[str]],
) -> dict[str, Any]:
    """Return a page of those tables of a namespace that `choose` keeps.

    Raises NamespaceNotFoundError if the namespace does not exist.
    """

    def fetch(token: str | None, limit: int | None) -> tuple[list[str], str | None]:
        return listing.list_tables(catalog, namespace, token, limit, include_declared=True)

    names, following = visible_page(fetch, choose, token, size)
    identifiers = [{"namespace": list(namespace), "name": name} for name in names]
    return {"identifiers": identifiers, "next-page-token": following}


def commit_result(catalog: Catalog, identifier: Identifier) -> dict[str, Any]:
    """Return the answer to UpdateTable. Clients require a metadata-location in it, although there is none."""
    return {"metadata-location": "", "metadata": documents.load_table(catalog, identifier)}


def rename(catalog: Catalog, body: RenameTableRequest) -> None:
    """Rename a table, also into another namespace.

    Raises NamespaceNotFoundError or TableNotFoundError if the table does not exist,
    TableAlreadyExistsError if the new name is taken.
    """
    source, target = body.source.identifier, body.destination.identifier
    with translate_not_found(source):
        catalog.resolver.table(source)
    try:
        register.rename(catalog, source, target)
    except TableAlreadyExistsError as error:
        raise TableAlreadyExistsError(f"Table already exists: {format_identifier(target)}; {error}") from error


def drop(catalog: Catalog, identifier: Identifier, *, with_data: bool, ttl_ms: int | None, now: bool) -> None:
    """Drop a table. Raises InvalidTableStateError if it is protected.

    Without its data it is deregistered. With its data it is dropped, and can be brought back until it is purged; the
    data goes at once only if `now` is said.
    """
    if not with_data:
        deregister.deregister(catalog, identifier)
    elif now:
        table_drop.drop_and_purge(catalog, identifier)
    else:
        table_drop.drop(catalog, identifier, catalog.settings.drop_ttl_ms if ttl_ms is None else ttl_ms)
