"""Describe a table: where it is and, if asked, what it contains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.directory.lookup.opening import open_resolved
from pennon.identifiers import Identifier, format_identifier
from pennon.table.description import TableDescription, describe_version
from pennon.table.version_selector import VersionSelector

if TYPE_CHECKING:
    from lance import LanceDataset

    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.resolve import ResolvedTable


@dataclass(frozen=True)
class TableDetails:
    """A table with what was asked about it."""

    table: ResolvedTable
    is_only_declared: bool | None
    details: TableDescription | None


def require_table(catalog: Catalog, identifier: Identifier) -> None:
    """Raise NamespaceNotFoundError or TableNotFoundError unless the table exists."""
    catalog.resolver.table(identifier)


def describe_table(
    catalog: Catalog,
    identifier: Identifier,
    *,
    version: int | None = None,
    tag: str | None = None,
    branch: str | None = None,
    detailed: bool = False,
    check_declared: bool = False,
) -> TableDetails:
    """Return what is known about a table. Its data is opened only for a version, tag or branch, or for details.

    Raises what `open_table` raises.
    """
    selector = VersionSelector.of(format_identifier(identifier), version, tag, branch)
    table = catalog.resolver.table(identifier, look=check_declared)
    if selector.is_latest and branch is None and not detailed:
        declared = table.directory.is_only_declared if check_declared and table.directory is not None else None
        return TableDetails(table, declared, None)
    dataset = open_resolved(catalog, table, selector)
    if dataset is None:
        return TableDetails(table, is_only_declared=True, details=None)
    return TableDetails(table, is_only_declared=False, details=describe_version(dataset) if detailed else None)


def open_table(
    catalog: Catalog,
    identifier: Identifier,
    *,
    version: int | None = None,
    tag: str | None = None,
    branch: str | None = None,
) -> tuple[ResolvedTable, LanceDataset | None]:
    """Return a table and its data at a version, tag or branch; the data is None if the table is only declared.

    Raises NamespaceNotFoundError, TableNotFoundError, TableVersionNotFoundError, TableTagNotFoundError or
    TableBranchNotFoundError if something does not exist, InvalidTableStateError if the table is damaged.
    """
    selector = VersionSelector.of(format_identifier(identifier), version, tag, branch)
    table = catalog.resolver.table(identifier)
    return table, open_resolved(catalog, table, selector)
