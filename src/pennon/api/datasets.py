"""Opening a table as a dataset of Lance, by what a catalog of any kind says about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_namespace import DescribeTableRequest

from pennon.errors import TableIsOnlyDeclaredError, translate_errors
from pennon.identifiers import Identifier, format_identifier
from pennon.table.described_table import open_described

if TYPE_CHECKING:
    from lance import LanceDataset

    from pennon.connection import AnyNamespace
    from pennon.table.version_selector import VersionSelector


def open_dataset(catalog: AnyNamespace, identifier: Identifier, selector: VersionSelector) -> LanceDataset:
    """Return a version of a table as a dataset of Lance, which reads its storage.

    Raises:
        NamespaceNotFoundError, TableNotFoundError, TableVersionNotFoundError, TableTagNotFoundError or
        TableBranchNotFoundError: It does not exist.
        TableIsOnlyDeclaredError: The table is only declared, or has no version.
    """
    described = catalog.describe_table(
        DescribeTableRequest(
            id=list(identifier),
            version=selector.version,
            tag=selector.tag,
            branch=selector.branch,
            vend_credentials=True,
            check_declared=True,
        )
    )
    if described.is_only_declared:
        raise TableIsOnlyDeclaredError(f"Table {format_identifier(identifier)} is declared and has no data yet")
    with translate_errors(f"opening table {format_identifier(identifier)}"):
        return open_described(catalog, identifier, selector, described)
