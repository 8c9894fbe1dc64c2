"""Drop a table: hide it and keep its data until it is purged (docs/concepts/lifecycle.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory.lifecycle.kinds import DropRecord, kind_of, kind_of_drop
from pennon.directory.lookup.resolve import ResolvedTable
from pennon.directory.manifest import TABLE
from pennon.errors import UnusableEntryError
from pennon.identifiers import Identifier, object_id, table_not_found

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog
    from pennon.directory.table_rows import DropResult

_ATTEMPTS = 8


def drop_and_purge(catalog: Catalog, identifier: Identifier, *, force: bool = False) -> DropResult[DropRecord]:
    """Drop a table and purge it at once. A crash in between leaves it dropped, with an expired retention.

    Raises what `drop` raises, and NotProvenError if the table cannot be purged.
    """
    dropped = drop(catalog, identifier, 0, force=force, for_good=True)
    (outcome,) = kind_of_drop(dropped.record).purge(catalog, [dropped.record], force=True)
    if isinstance(outcome, Exception):
        raise outcome
    return dropped


def drop(
    catalog: Catalog, identifier: Identifier, ttl_ms: int, *, force: bool = False, for_good: bool = False
) -> DropResult[DropRecord]:
    """Drop a table, whose data can be purged after `ttl_ms`. With `for_good`, it must be possible to purge it.

    Raises NamespaceNotFoundError or TableNotFoundError if it does not exist, InvalidTableStateError if it is
    protected, ConcurrentModificationError if another client holds it.
    """
    # The commit that moves a row to the trash checks it, so a row in memory is enough.
    table = _find_row(catalog, identifier)
    if table is not None and table.is_root_table:
        table = None
    for _ in range(_ATTEMPTS):
        table = table or _resolve(catalog, identifier)
        if table is None:
            break
        dropped = kind_of(table).drop(catalog, table, ttl_ms, force=force, for_good=for_good)
        if dropped is not None:
            return dropped
        table = None
    raise table_not_found(identifier)


def _resolve(catalog: Catalog, identifier: Identifier) -> ResolvedTable | None:
    """Find a table. One whose row cannot be used is dropped by its row alone: its location is never touched."""
    try:
        return catalog.resolver.find(identifier, marker=False)
    except UnusableEntryError:
        table = _find_row(catalog, identifier)
        if table is None or table.is_root_table:
            raise
        return table


def _find_row(catalog: Catalog, identifier: Identifier) -> ResolvedTable | None:
    """Return a table by its row in memory, without a request."""
    if catalog.manifest is None:
        return None
    row = catalog.manifest.peek(lambda snapshot: snapshot.get(object_id(identifier)))
    if row is None or row.object_type != TABLE or row.location is None:
        return None
    return ResolvedTable(identifier, row.location, row, None)
