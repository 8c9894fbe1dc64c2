"""The operations of a catalog that Lance calls back, as a base for clients that change one of them."""

from __future__ import annotations

from typing import Any

from lance_namespace import LanceNamespace


class CatalogCallback(LanceNamespace):
    """Passes the calls of Lance to a client of the catalog."""

    def __init__(self, client: LanceNamespace) -> None:
        self._client = client

    def namespace_id(self) -> str:
        """Return the id of the catalog."""
        return self._client.namespace_id()

    def describe_table(self, request: Any) -> Any:
        """Return the location and the storage options of a table."""
        return self._client.describe_table(request)

    def list_table_versions(self, request: Any) -> Any:
        """List versions."""
        return self._client.list_table_versions(request)

    def describe_table_version(self, request: Any) -> Any:
        """Describe a version."""
        return self._client.describe_table_version(request)

    def create_table_version(self, request: Any) -> Any:
        """Create a version."""
        return self._client.create_table_version(request)
