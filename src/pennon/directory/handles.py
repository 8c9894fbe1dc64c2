"""Tables that are open, for operations inside of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance

from pennon.directory import tables
from pennon.directory.versions import client, operations
from pennon.errors import InvalidTableStateError
from pennon.identifiers import Identifier, shown

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog


def opened(
    catalog: Catalog,
    identifier: Identifier,
    *,
    version: int | None = None,
    tag: str | None = None,
    branch: str | None = None,
) -> lance.LanceDataset:
    """Open a table at a version, tag or branch; what is committed to it goes through the catalog if that decides.

    Errors 1, 4, 8, 11, 19 (only declared, or damaged), 22.
    """
    found, dataset = tables.opened(catalog, identifier, version=version, tag=tag, branch=branch)
    if dataset is None:
        raise InvalidTableStateError(f"Table {shown(identifier)} is declared, and has no data yet")
    if branch is not None or not operations.is_managed(catalog, found):
        return dataset
    # Files decide about branches; about everything else the catalog does.
    at_latest = lance.dataset(
        **client.opening(catalog, identifier),
        storage_options=dict(catalog.store.storage_options) or None,
        session=catalog.session,
    )
    return at_latest if version is None and tag is None else at_latest.checkout_version(dataset.version)
