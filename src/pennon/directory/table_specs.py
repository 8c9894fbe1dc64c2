"""What the operations on tables pass to each other: tables to create, tables created, tables dropped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from pennon.directory.manifest import TABLE, Row, properties_json
from pennon.identifiers import Identifier, object_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from pennon.directory.catalog import Catalog
    from pennon.table.writing import PreparedData

Record_co = TypeVar("Record_co", covariant=True)


@dataclass(frozen=True)
class TableSpec:
    """A table to create."""

    identifier: Identifier
    data: pa.Table | PreparedData
    properties: Mapping[str, str] | None
    storage_options: dict[str, str] = field(repr=False)

    def row(self, location: str) -> Row:
        """Return the row of the table at a location."""
        return Row(object_id(self.identifier), TABLE, location, properties_json(self.properties))


@dataclass(frozen=True)
class CreatedTable:
    """A table that exists now. The version is None if it was declared, or existed before."""

    location: str
    properties: dict[str, str] | None
    version: int | None = None

    @classmethod
    def of(cls, catalog: Catalog, row: Row, version: int | None = None) -> CreatedTable:
        """Return a table by its row. V1 catalogs, without a manifest, have no properties."""
        return cls(str(row.location), None if catalog.manifest is None else row.properties(), version)


@dataclass(frozen=True)
class DropResult(Generic[Record_co]):
    """A table that was just dropped."""

    location: str
    properties: dict[str, str] | None
    record: Record_co
    """The entry of the trash, or the marker, by which the table can be restored and purged."""
