"""Deleting files that were written for a change that was not committed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pennon.errors import LanceNamespaceError, translate_errors
from pennon.spark.jobs.catalog_access import list_versions
from pennon.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pennon.spark.address import Address
    from pennon.spark.reading.pinned import PinnedTable

_log = logging.getLogger(__name__)


def discard_files(address: Address, table: PinnedTable, paths: Iterable[str]) -> bool:
    """Delete files of a table that no version since `table` refers to; return True if a version refers to any of them.

    A commit whose response was lost looks like one that failed, so the versions are read first. If they cannot be read,
    or a file cannot be deleted, the files stay for the next `verify`.
    """
    wanted = set(paths)
    if not wanted:
        return False
    try:
        with translate_errors(f"removing files of {table!r}"):
            referenced = _referenced_files(address, table)
            gone = sorted(wanted - referenced)
            store = open_store(table.uri, dict(table.storage_options))
            try:
                if gone:
                    store.delete(*gone)
                for folder in {path.rpartition("/")[0] for path in gone if path.count("/") > 1}:
                    store.prune(folder)
            finally:
                store.close()
    except LanceNamespaceError as error:
        _log.warning(
            "Could not delete %d files that no version may refer to; 'verify' finds them: %s", len(wanted), error
        )
        return False
    return bool(wanted & referenced)


def _referenced_files(address: Address, table: PinnedTable) -> set[str]:
    """Return the files of all versions since a pinned one, including committed versions that are not finished yet."""
    import lance

    list_versions(address, table.identifier)
    dataset = lance.dataset(table.uri, storage_options=dict(table.storage_options) or None)
    return {
        path
        for batch in dataset.tracked_files(min_version=table.version)
        for path in batch.column(batch.schema.get_field_index("path")).to_pylist()
    }
