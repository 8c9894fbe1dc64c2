"""Opening a table by the answer of `describe_table`: location, storage options, and who manages its versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance

from pennon.errors import TableIsOnlyDeclaredError, is_not_found
from pennon.identifiers import format_identifier

if TYPE_CHECKING:
    from lance import LanceDataset
    from lance_namespace import DescribeTableResponse, LanceNamespace

    from pennon.identifiers import Identifier
    from pennon.table.version_selector import VersionSelector


def open_described(
    catalog: LanceNamespace, identifier: Identifier, selector: VersionSelector, described: DescribeTableResponse
) -> LanceDataset:
    """Return the selected version of a table that `catalog` has described.

    Raises TableIsOnlyDeclaredError if its directory has files and no version.
    """
    try:
        return _open_selected(catalog, identifier, selector, described)
    except (OSError, ValueError) as error:
        if selector.is_latest and is_not_found(error):
            raise TableIsOnlyDeclaredError(f"Table {format_identifier(identifier)} has no version yet") from error
        raise


def _open_selected(
    catalog: LanceNamespace, identifier: Identifier, selector: VersionSelector, described: DescribeTableResponse
) -> LanceDataset:
    options = described.storage_options or None
    if selector.is_latest and described.managed_versioning:
        # The catalog may have versions whose files are not yet at their final paths.
        return lance.dataset(storage_options=options, namespace_client=catalog, table_id=list(identifier))
    version = selector.version if selector.tag is None else selector.tag
    if selector.branch is None:
        return lance.dataset(described.location, version=version, storage_options=options)
    dataset = lance.dataset(described.location, storage_options=options)
    return dataset.checkout_version((selector.branch, selector.version))
