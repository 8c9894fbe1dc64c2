"""Files that were written for a change that was not made: nobody knows them, so whoever wrote them removes them."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pennon.errors import LanceNamespaceError, translated
from pennon.store import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pennon.spark.pinned import PinnedTable

_log = logging.getLogger(__name__)


def discard(table: PinnedTable, paths: Iterable[str]) -> None:
    """Delete files below a table's directory; what cannot be deleted stays for the next `verify` to find."""
    gone = sorted(set(paths))
    if not gone:
        return
    try:
        with translated(f"removing files of {table!r}"):
            store = open_store(table.uri, dict(table.storage_options))
            try:
                store.delete(*gone)
            finally:
                store.close()
    except LanceNamespaceError as error:
        _log.warning("%d files that no version names stay: %s", len(gone), error)
