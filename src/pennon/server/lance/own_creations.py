"""Creations that clients repeat after a server lost its memory: they get an answer, not "already exists".

The answers in memory (`idempotency.py`) are gone with the process, and other servers of the catalog never had them. So
a creation with a key leaves the digest of its request in the object (docs/adr/0027).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import lance_namespace as sdk

from pennon.directory import DirectoryNamespace, creation_requests
from pennon.errors import LanceNamespaceError, NamespaceAlreadyExistsError, TableAlreadyExistsError
from pennon.identifiers import namespace_identifier
from pennon.server.lance.extension_models import Adopt, Version

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pennon.catalog_namespace import CatalogNamespace

    Namespace = CatalogNamespace[Any]


class Creation(Protocol):
    """A request that creates an object."""

    id: list[str] | None
    properties: dict[str, str] | None

    def model_copy(self, *, update: Mapping[str, Any]) -> Creation:
        """Return the request with other values."""


def are_recognized(namespace: Namespace) -> bool:
    """Return True if creations in the catalog leave the digest of their request. V1 and Iceberg cannot store it."""
    return isinstance(namespace, DirectoryNamespace) and namespace.catalog.manifest is not None


def create_once(
    namespace: Namespace, operation: str, request: Creation, digest: str, create: Callable[[Any], Any]
) -> Any:  # noqa: ANN401 - of any operation
    """Return what `create` returns for the request, or an answer about the object if the request created it before.

    The operation is one of CREATIONS.
    """
    if not isinstance(namespace, DirectoryNamespace) or not are_recognized(namespace):
        return create(request)
    describe = CREATIONS[operation]
    if _replaces(request) and _is_own(namespace, request, digest):
        return describe(namespace, request)
    properties = creation_requests.with_request(request.properties, digest)
    try:
        return create(request.model_copy(update={"properties": properties}))
    except (NamespaceAlreadyExistsError, TableAlreadyExistsError):
        if not _is_own(namespace, request, digest):
            raise
        return describe(namespace, request)


def _replaces(request: Creation) -> bool:
    """Return True if a second try would not fail because the object exists."""
    return isinstance(request, Adopt) or str(getattr(request, "mode", None) or "").lower() == "overwrite"


def _is_own(namespace: DirectoryNamespace, request: Creation, digest: str) -> bool:
    try:
        return creation_requests.was_created_by(namespace.catalog, namespace_identifier(request.id), digest)
    except LanceNamespaceError:
        # The creation has the error for it.
        return False


def _describe_namespace(namespace: Namespace, request: sdk.CreateNamespaceRequest) -> sdk.CreateNamespaceResponse:
    found = namespace.describe_namespace(sdk.DescribeNamespaceRequest(id=request.id))
    return sdk.CreateNamespaceResponse(properties=found.properties)


def _describe_created(namespace: Namespace, request: sdk.CreateTableRequest) -> sdk.CreateTableResponse:
    found = namespace.describe_table(sdk.DescribeTableRequest(id=request.id))
    return sdk.CreateTableResponse(
        location=found.location, properties=found.properties, storage_options=found.storage_options
    )


def _describe_declared(namespace: Namespace, request: sdk.DeclareTableRequest) -> sdk.DeclareTableResponse:
    asked = sdk.DescribeTableRequest(id=request.id, vend_credentials=request.vend_credentials)
    found = namespace.describe_table(asked)
    return sdk.DeclareTableResponse(
        location=found.location,
        properties=found.properties,
        storage_options=found.storage_options,
        managed_versioning=found.managed_versioning,
    )


def _describe_registered(namespace: Namespace, request: sdk.RegisterTableRequest) -> sdk.RegisterTableResponse:
    found = namespace.describe_table(sdk.DescribeTableRequest(id=request.id))
    return sdk.RegisterTableResponse(location=request.location, properties=found.properties)


def _describe_adopted(namespace: Namespace, request: Adopt) -> Version:
    return Version(version=namespace.latest_table_versions([request.id])[0])


CREATIONS: dict[str, Callable[[Namespace, Any], object]] = {
    "CreateNamespace": _describe_namespace,
    "CreateTable": _describe_created,
    "DeclareTable": _describe_declared,
    "RegisterTable": _describe_registered,
    "AdoptTable": _describe_adopted,
}
"""What answers the repetition of each operation that creates a table or a namespace."""
