"""Namespaces: create, drop, list, describe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon import json_answers as answers
from pennon.errors import (
    InvalidInputError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
)
from pennon.http_transport import UnknownOutcomeError
from pennon.iceberg import dropping, rest
from pennon.identifiers import ROOT, Identifier, format_identifier, parent_not_found
from pennon.modes import CreateMode, DropBehavior, DropMode
from pennon.paging import select_page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pennon.iceberg.catalog import Catalog


def create(
    catalog: Catalog, identifier: Identifier, mode: CreateMode, properties: Mapping[str, str] | None
) -> dict[str, str]:
    """Create a namespace and return its properties. The commit point is the server's CreateNamespace."""
    if identifier == ROOT:
        if mode is CreateMode.EXIST_OK:
            return {}
        if mode is CreateMode.OVERWRITE:
            raise InvalidInputError("The root namespace cannot be overwritten")
        raise NamespaceAlreadyExistsError("Namespace already exists: the root namespace")
    # Many servers accept a namespace without its parent.
    _require_parent(catalog, identifier)
    try:
        return _create(catalog, identifier, properties or {})
    except NamespaceAlreadyExistsError:
        if mode is CreateMode.CREATE:
            raise NamespaceAlreadyExistsError(f"Namespace already exists: {format_identifier(identifier)}") from None
    if mode is CreateMode.EXIST_OK:
        return catalog.require_namespace(identifier)
    drop(catalog, identifier, DropMode.SKIP, DropBehavior.CASCADE)
    return _create(catalog, identifier, properties or {})


def drop(catalog: Catalog, identifier: Identifier, mode: DropMode, behavior: DropBehavior) -> dict[str, str]:
    """Drop a namespace, with everything in it if asked, and return its properties.

    A cascade is many requests, one for each thing: what is done before an error stays done. Tables that are not Lance
    tables are never dropped (3), and no namespace whose directory the server deletes with data in it (3).
    """
    if identifier == ROOT:
        raise InvalidInputError("The root namespace cannot be dropped")
    try:
        properties = catalog.require_namespace(identifier)
        children, tables = catalog.children(identifier), catalog.names(identifier)
    except NamespaceNotFoundError:
        if mode is DropMode.SKIP:
            return {}
        raise
    if (children or tables) and behavior is DropBehavior.RESTRICT:
        raise NamespaceNotEmptyError(f"Namespace not empty: {format_identifier(identifier)}")
    foreign = _foreign(catalog, identifier) if children or tables else []
    if foreign:
        raise NamespaceNotEmptyError(
            f"Namespace {format_identifier(identifier)} holds tables of other kinds: "
            f"{', '.join(map(format_identifier, foreign[:5]))}"
        )
    _require_data_stays(catalog, identifier, properties)
    for child in children:
        drop(catalog, child, DropMode.SKIP, DropBehavior.CASCADE)
    for name in tables:
        dropping.drop(catalog, (*identifier, name), catalog.settings.drop_ttl_ms)
    _drop(catalog, identifier)
    return properties


def list_children(
    catalog: Catalog, identifier: Identifier, token: str | None, limit: int | None
) -> tuple[list[str], str | None]:
    """List a page of the names of child namespaces."""
    return select_page([one[-1] for one in catalog.children(identifier)], token, limit)


def alter_properties(catalog: Catalog, identifier: Identifier, changes: Mapping[str, str | None]) -> dict[str, str]:
    """Set properties, remove those whose value is None, and return all properties."""
    if identifier == ROOT:
        raise InvalidInputError("The root namespace of an Iceberg REST catalog has no properties")
    before = catalog.require_namespace(identifier)
    updates = {key: value for key, value in changes.items() if value is not None}
    removals = [key for key, value in changes.items() if value is None and key in before]
    if updates or removals:
        body = {"updates": updates, "removals": removals}
        try:
            catalog.server.call(rest.UPDATE_NAMESPACE, identifier, body)
        except UnknownOutcomeError:
            catalog.server.call(rest.UPDATE_NAMESPACE, identifier, body)
    return catalog.require_namespace(identifier)


def _create(catalog: Catalog, identifier: Identifier, properties: Mapping[str, str]) -> dict[str, str]:
    body = {"namespace": list(identifier), "properties": dict(properties)}
    try:
        answer = catalog.server.call(rest.CREATE_NAMESPACE, ROOT, body)
    except UnknownOutcomeError as error:
        try:
            catalog.require_namespace(identifier)
        except NamespaceNotFoundError:
            raise error from None
        raise UnknownOutcomeError(
            f"Namespace {format_identifier(identifier)} exists, but nobody knows who created it: {error}"
        ) from error
    return answers.texts(answer, "properties", f"Namespace {format_identifier(identifier)}")


def _drop(catalog: Catalog, identifier: Identifier) -> None:
    try:
        catalog.server.call(rest.DROP_NAMESPACE, identifier)
    except NamespaceNotEmptyError:
        raise NamespaceNotEmptyError(f"Namespace not empty: {format_identifier(identifier)}") from None
    except NamespaceNotFoundError:
        # Somebody else was faster; servers whose namespaces come and go with their tables do it themselves.
        return
    except UnknownOutcomeError:
        try:
            catalog.require_namespace(identifier)
        except NamespaceNotFoundError:
            return
        raise


def _require_parent(catalog: Catalog, identifier: Identifier) -> None:
    try:
        catalog.require_namespace(identifier[:-1])
    except NamespaceNotFoundError:
        raise parent_not_found(identifier) from None


def _require_data_stays(catalog: Catalog, identifier: Identifier, properties: Mapping[str, str]) -> None:
    """Raise NamespaceNotEmptyError if the server would delete the data of tables together with a namespace.

    Tables that were dropped or renamed keep their places. A server that deletes tables with their entries deletes the
    directory of a namespace, too.
    """
    location = properties.get("location")
    if location is None or not dropping.may_have_data(catalog, location):
        return
    found = [one for one in dropping.all_tables(catalog) if one.is_deleted_with_entry and one.is_below(location)]
    if found:
        raise NamespaceNotEmptyError(
            f"Namespace {format_identifier(identifier)} stays: this server deletes {location!r} with it, and "
            "there is the data of "
            f"{', '.join(map(dropping.format_name, found[:5]))}. Purge these tables first"
        )


def _foreign(catalog: Catalog, below: Identifier) -> list[Identifier]:
    """Find tables at any depth that are not Lance tables."""
    ids = [(*parent, name) for parent in catalog.walk(below) for name in catalog.names(parent)]
    entries = catalog.map(catalog.any_table, ids)
    return [one for one, entry in zip(ids, entries, strict=True) if entry is not None and not entry.is_lance]
