"""Counting the rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.table.lance_errors import judged
from pennon.table.requirements import require_complete

if TYPE_CHECKING:
    from lance import LanceDataset

    from pennon.identifiers import Identifier


def count(dataset: LanceDataset, identifier: Identifier, predicate: str | None) -> int:
    """Count the rows that meet a predicate, all without one; a predicate that Lance does not understand raises 13."""
    require_complete(identifier, predicate)
    with judged(f"counting {predicate!r}", identifier):
        return int(dataset.count_rows(predicate))
