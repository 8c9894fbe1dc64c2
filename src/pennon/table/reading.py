"""Reading from a table: counting and querying."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.identifiers import Identifier, shown

if TYPE_CHECKING:
    from lance import LanceDataset


def count(dataset: LanceDataset, identifier: Identifier, predicate: str | None) -> int:
    """Count the rows that meet a predicate, all without one; a predicate that Lance does not understand raises 13."""
    try:
        return int(dataset.count_rows(predicate))
    except ValueError as error:
        raise InvalidInputError(f"Bad predicate for table {shown(identifier)}: {predicate}: {error}") from error
