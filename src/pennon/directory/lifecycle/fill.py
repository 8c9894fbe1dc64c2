"""Tables to be created, and those that are declared: a table in a hashed directory gets its first version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pennon.directory import layout
from pennon.directory.lifecycle import deregister, late_commits
from pennon.directory.manifest import TABLE, Draft, Row, properties_json
from pennon.directory.manifest_tables import trash
from pennon.directory.versions import service
from pennon.errors import ConcurrentModificationError
from pennon.identifiers import Identifier, format_identifier, object_id
from pennon.table.writing import write_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.resolve import Found
    from pennon.table.writing import PreparedData


@dataclass(frozen=True)
class Wanted:
    """A table to be created."""

    identifier: Identifier
    data: pa.Table | PreparedData
    properties: Mapping[str, str] | None
    storage_options: dict[str, str] = field(repr=False)

    def row(self, location: str) -> Row:
        """Give the row that the table gets at a location."""
        return Row(object_id(self.identifier), TABLE, location, properties_json(self.properties))


@dataclass(frozen=True)
class Created:
    """A table that is there now; the version is None if it was only declared or was there before."""

    location: str
    properties: dict[str, str] | None
    version: int | None = None


def fill_declared(catalog: Catalog, found: Found, wanted: Wanted) -> Created:
    """Write the first version of a declared table, which keeps its properties unless new ones are given."""
    location = found.location
    try:
        version = write_version(
            catalog.store.resolve(location, deeply=True),
            wanted.data,
            wanted.storage_options,
            session=catalog.session,
            through=_committing(catalog, found) if service.is_managed(catalog, found) else None,
        )
    except BaseException as error:
        deregister.delete_leftovers(catalog.store, location, error)
        if isinstance(error, OSError) and _is_dropped(catalog, found):
            late_commits.clear_purged(catalog, location, None)
            raise _dropped_meanwhile(found) from error
        raise
    catalog.store.delete(layout.declared(location))
    purged = False

    def plan(draft: Draft) -> Row | None:
        nonlocal purged
        row = draft.get(object_id(found.identifier))
        owners = trash.live_owners(draft, location)
        purged = trash.is_given_up(draft, location)
        if row is None or row.location != location:
            # It was renamed meanwhile, or dropped.
            return draft.get(owners[0]) if owners else None
        if wanted.properties:
            row = row.with_properties(properties_json(wanted.properties))
            draft.put(row)
        return row

    row = catalog.require_manifest("create_table").mutate(plan)
    if row is None:
        if purged:
            catalog.store.delete_tree(location)
        raise _dropped_meanwhile(found)
    return Created(location, shown_properties(catalog, row), version)


def _is_dropped(catalog: Catalog, found: Found) -> bool:
    rows = catalog.require_manifest("create_table")
    return rows.read(lambda snapshot: not any(map(trash.is_live, snapshot.object_ids_at(found.location))))


def _dropped_meanwhile(found: Found) -> ConcurrentModificationError:
    return ConcurrentModificationError(f"Table {format_identifier(found.identifier)} was dropped while it was created")


def _committing(catalog: Catalog, found: Found) -> dict[str, Any]:
    # Imported late: a table whose versions are not managed is made without the SDK's models (docs/adr/0010).
    from pennon.directory.versions import callback  # noqa: PLC0415

    return callback.commit_arguments(catalog, found.identifier)


def shown_properties(catalog: Catalog, row: Row) -> dict[str, str] | None:
    """Give the properties that a caller is told; None where there is no manifest to keep any."""
    return None if catalog.manifest is None else row.properties()
