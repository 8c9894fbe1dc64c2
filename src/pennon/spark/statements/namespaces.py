"""Execute the statements about namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import NamespaceNotFoundError
from pennon.identifiers import Identifier, quote_identifier
from pennon.spark.lake_listing import ResultRows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pennon.spark.address import Address
    from pennon.spark.lake import Lake


def create_namespace(
    address: Address, namespace: Identifier, properties: dict[str, str], *, if_not_exists: bool
) -> ResultRows:
    """Create a namespace."""
    from lance_namespace import CreateNamespaceRequest

    mode = "exist_ok" if if_not_exists else "create"
    request = CreateNamespaceRequest(id=list(namespace), mode=mode, properties=properties or None)
    address.connect().create_namespace(request)
    return ResultRows([(quote_identifier(namespace),)], "namespace string")


def alter_namespace(address: Address, namespace: Identifier, changes: Mapping[str, str | None]) -> ResultRows:
    """Set properties of a namespace, and remove those with the value None. Return all of its properties."""
    properties = address.connect().alter_namespace_properties(namespace, changes)
    return ResultRows(sorted(properties.items()), "key string, value string")


def describe_namespace(lake: Lake, namespace: Identifier) -> ResultRows:
    """Describe a namespace: its name and its properties."""
    from lance_namespace import DescribeNamespaceRequest

    described = lake.catalog.describe_namespace(DescribeNamespaceRequest(id=list(namespace)))
    rows = [("Catalog Name", lake.name), ("Namespace Name", quote_identifier(namespace))]
    return ResultRows([*rows, *sorted((described.properties or {}).items())], "info_name string, info_value string")


def drop_namespace(address: Address, namespace: Identifier, *, if_exists: bool, cascade: bool) -> ResultRows:
    """Drop a namespace. CASCADE also drops its tables and namespaces."""
    from lance_namespace import DropNamespaceRequest

    behavior = "Cascade" if cascade else "Restrict"
    dropped = True
    try:
        address.connect().drop_namespace(DropNamespaceRequest(id=list(namespace), behavior=behavior))
    except NamespaceNotFoundError:
        if not if_exists:
            raise
        dropped = False
    return ResultRows([(quote_identifier(namespace), dropped)], "namespace string, dropped boolean")


def undrop_namespace(address: Address, namespace: Identifier, deletion_id: str | None) -> ResultRows:
    """Restore a dropped namespace and list the tables that were restored with it."""
    tables = address.lifecycle_client().undrop_namespace(namespace, deletion_id)
    return ResultRows([(quote_identifier(tuple(table)),) for table in tables], "table string")


def protect_namespace(address: Address, namespace: Identifier, *, protected: bool) -> ResultRows:
    """Protect a namespace from being dropped, or remove the protection."""
    address.lifecycle_client().set_namespace_protection(namespace, protected)
    return ResultRows([(quote_identifier(namespace), protected)], "namespace string, protected boolean")
