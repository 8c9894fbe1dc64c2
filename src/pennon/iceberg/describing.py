"""Describe a table, and check whether it exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import TableBranchNotFoundError, TableTagNotFoundError, TableVersionNotFoundError
from pennon.iceberg import handles, tables
from pennon.identifiers import Identifier, format_identifier
from pennon.table.description import TableDescription, describe_version
from pennon.table.version_selector import VersionSelector

if TYPE_CHECKING:
    from lance_namespace import LanceNamespace

    from pennon.iceberg.catalog import Catalog
    from pennon.iceberg.entry import Entry


@dataclass(frozen=True)
class DescribedEntry:
    """An entry with the details that were requested."""

    entry: Entry
    only_declared: bool | None
    details: TableDescription | None


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
) -> DescribedEntry:
    """Describe a table. The data is opened only if a version, tag, branch or details are requested."""
    selector = VersionSelector.of(format_identifier(identifier), version, tag, branch)
    entry = catalog.table(identifier)
    if version is None and tag is None and branch is None and not detailed:
        return DescribedEntry(entry, tables.is_only_declared(catalog, entry) if check_declared else None, None)
    if tables.is_only_declared(catalog, entry):
        if tag is not None:
            raise TableTagNotFoundError(f"Table {format_identifier(identifier)} has no tag '{tag}'")
        if branch is not None:
            raise TableBranchNotFoundError(f"Table {format_identifier(identifier)} has no branch '{branch}'")
        if version is not None:
            raise TableVersionNotFoundError(f"Table {format_identifier(identifier)} has no version {version}")
        return DescribedEntry(entry, only_declared=True, details=None)
    dataset = handles.open_table(catalog, client, entry, selector, shared=True)
    return DescribedEntry(entry, only_declared=False, details=describe_version(dataset) if detailed else None)
