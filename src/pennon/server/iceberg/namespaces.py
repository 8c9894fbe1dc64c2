"""The operations on namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon.directory import namespaces
from pennon.identifiers import Identifier, format_identifier, namespace_identifier
from pennon.modes import CreateMode, DropBehavior, DropMode
from pennon.server.iceberg.errors import UNPROCESSABLE, ProtocolError
from pennon.server.permissions.listings import visible_page

if TYPE_CHECKING:
    from collections.abc import Callable

    from pennon.directory.catalog import Catalog
    from pennon.server.iceberg.models import CreateNamespaceRequest, UpdateNamespacePropertiesRequest


def list_namespaces(
    catalog: Catalog,
    parent: Identifier,
    token: str | None,
    size: int | None,
    choose: Callable[[list[str]], list[str]],
) -> dict[str, Any]:
    """Return a page of those namespaces below one that `choose` keeps.

    Raises NamespaceNotFoundError if the one above does not exist.
    """

    def fetch(token: str | None, limit: int | None) -> tuple[list[str], str | None]:
        return namespaces.list_children(catalog, parent, token, limit)

    names, following = visible_page(fetch, choose, token, size)
    return {"namespaces": [[*parent, name] for name in names], "next-page-token": following}


def create(catalog: Catalog, body: CreateNamespaceRequest) -> dict[str, Any]:
    """Create a namespace.

    Raises NamespaceNotFoundError if the parent does not exist, NamespaceAlreadyExistsError if the namespace exists.
    """
    identifier = namespace_identifier(body.namespace)
    made = namespaces.create(catalog, identifier, CreateMode.CREATE, body.properties)
    return {"namespace": list(identifier), "properties": made}


def describe_namespace(catalog: Catalog, identifier: Identifier) -> dict[str, Any]:
    """Return a namespace with its properties. Raises NamespaceNotFoundError if it does not exist."""
    return {"namespace": list(identifier), "properties": namespaces.describe(catalog, identifier) or {}}


def update(catalog: Catalog, identifier: Identifier, body: UpdateNamespacePropertiesRequest) -> dict[str, Any]:
    """Set and remove properties in one commit. Raises NamespaceNotFoundError if the namespace does not exist."""
    what = f"Namespace {format_identifier(identifier)}"
    removals, updates = body.removals, body.updates
    both = sorted(set(removals) & updates.keys())
    if both:
        raise ProtocolError(
            UNPROCESSABLE, "UnprocessableEntityException", f"{what}: the property {both[0]!r} is set and removed"
        )
    before = namespaces.describe(catalog, identifier) or {}
    removed = sorted({key for key in removals if key in before})
    if removed or updates:
        namespaces.alter_properties(catalog, identifier, {**dict.fromkeys(removed), **updates})
    return {"updated": sorted(updates), "removed": removed, "missing": sorted(set(removals) - set(removed))}


def drop(catalog: Catalog, identifier: Identifier) -> None:
    """Drop an empty namespace. Raises NamespaceNotFoundError or NamespaceNotEmptyError."""
    namespaces.drop(catalog, identifier, DropMode.FAIL, DropBehavior.RESTRICT)
