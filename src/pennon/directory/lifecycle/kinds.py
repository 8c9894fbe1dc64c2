"""The two kinds of table, and the choice between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pennon.directory.lookup.resolve import is_root_table
from pennon.directory.manifest_tables import kind as manifest_tables
from pennon.directory.manifest_tables.trash import TrashEntry
from pennon.directory.markers.claim import StoredMarker
from pennon.directory.root_tables import kind as root_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.resolve import ResolvedTable
    from pennon.directory.manifest import Row
    from pennon.directory.table_rows import CreatedTable, DropResult, TableSpec
    from pennon.errors import LanceNamespaceError
    from pennon.identifiers import Identifier
    from pennon.store import Amount

Record = TypeVar("Record")


class TableKind(Protocol[Record]):
    """What each kind of table does in its own way. `Record` is what it keeps of a dropped table.

    The modules `root_tables.kind` and `manifest_tables.kind` implement it. Their docstrings name the commit point
    of each operation and what it raises.
    """

    def declare(self, catalog: Catalog, identifier: Identifier, row: Row) -> None:
        """Reserve the name and the location of a row."""

    def create(self, catalog: Catalog, spec: TableSpec, location: str) -> CreatedTable:
        """Write a new table to a location."""

    def fill(self, catalog: Catalog, table: ResolvedTable, spec: TableSpec) -> CreatedTable:
        """Write the first version of a declared table."""

    def drop(
        self, catalog: Catalog, table: ResolvedTable, ttl_ms: int, *, force: bool, for_good: bool
    ) -> DropResult[Record] | None:
        """Hide a table and keep its data; None if the caller must look it up again."""

    def undrop(self, catalog: Catalog, dropped: Record, target: Identifier) -> str:
        """Restore a dropped table under a name and return its location."""

    def purge(
        self, catalog: Catalog, dropped: Sequence[Record], *, force: bool = False
    ) -> list[Amount | LanceNamespaceError]:
        """Delete dropped tables permanently; returns for each what was deleted, or why nothing was."""

    def protect(self, catalog: Catalog, table: ResolvedTable, *, protected: bool) -> None:
        """Set or lift the protection of a table."""


ROOT_TABLES: TableKind[StoredMarker] = root_tables
MANIFEST_TABLES: TableKind[TrashEntry] = manifest_tables
DropRecord = StoredMarker | TrashEntry


def kind_at(identifier: Identifier, location: str) -> TableKind[Any]:
    """Return the kind of a table by its name and location."""
    return ROOT_TABLES if is_root_table(identifier, location) else MANIFEST_TABLES


def kind_of(table: ResolvedTable) -> TableKind[Any]:
    """Return the kind of a table that was found."""
    return kind_at(table.identifier, table.location)


def kind_of_drop(record: DropRecord) -> TableKind[Any]:
    """Return the kind of a dropped table."""
    return MANIFEST_TABLES if isinstance(record, TrashEntry) else ROOT_TABLES
