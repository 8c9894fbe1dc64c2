"""The parts of a commit over several tables, as `commit_tables` accepts them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import lance
    from lance import LanceOperation


@dataclass(frozen=True)
class TableCommit:
    """A prepared change of one table: a Lance transaction, or an operation and the version that it is based on."""

    id: Sequence[str]
    operation: lance.Transaction | LanceOperation.BaseOperation
    read_version: int | None = None


@dataclass(frozen=True)
class NewTable:
    """A table that was written at a location from `new_table_location` and that the commit adds to the catalog."""

    id: Sequence[str]
    location: str
    properties: Mapping[str, str] | None = None
