"""Files that were written for a change that was not made: nobody knows them, so whoever wrote them removes them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pennon.errors import LanceNamespaceError, translate_errors
from pennon.spark.jobs.asking import versions
from pennon.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pennon.spark.address import Address
    from pennon.spark.reading.pinned import PinnedTable

_log = logging.getLogger(__name__)


def discard(address: Address, table: PinnedTable, paths: Iterable[str]) -> bool:
    """Delete files below a table's directory that no version since `table` names; tells whether one names any.

    A commit of which only the answer was lost looks like one that failed: so versions are looked at first. What cannot
    be looked at, or not be deleted, stays for the next `verify` to find.
    """
    wanted = set(paths)
    if not wanted:
        return False
    try:
        with translate_errors(f"removing files of {table!r}"):
            named = _named(address, table)
            gone = sorted(wanted - named)
            store = open_store(table.uri, dict(table.storage_options))
            try:
                if gone:
                    store.delete(*gone)
                for folder in {path.rpartition("/")[0] for path in gone if path.count("/") > 1}:
                    store.prune(folder)
            finally:
                store.close()
    except LanceNamespaceError as error:
        _log.warning("%d files that no version names may stay: %s", len(wanted), error)
        return False
    return bool(wanted & named)


def _named(address: Address, table: PinnedTable) -> set[str]:
    """Name the files of all versions since one that was pinned, those that are committed and not yet finished too."""
    import lance

    versions(address, table.identifier)
    dataset = lance.dataset(table.uri, storage_options=dict(table.storage_options) or None)
    return {
        path
        for batch in dataset.tracked_files(min_version=table.version)
        for path in batch.column(batch.schema.get_field_index("path")).to_pylist()
    }
