"""Restore dropped tables and namespaces with their data, versions and properties."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory.lifecycle import dropped
from pennon.directory.lifecycle.kinds import kind_of_drop
from pennon.directory.manifest import NAMESPACE, TABLE, Draft
from pennon.directory.manifest_tables import trash
from pennon.directory.root_tables.settle import retry_without_dead_row
from pennon.directory.table_rows import require_no_root_table
from pennon.errors import NamespaceAlreadyExistsError, NamespaceNotFoundError, TableNotFoundError
from pennon.identifiers import Identifier, format_identifier, object_id, parent_not_found

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog


def undrop(catalog: Catalog, identifier: Identifier, as_id: Identifier | None, deletion_id: str | None) -> str:
    """Restore the latest drop of a name, or the one with a deletion id, and return the table's location.

    Raises TableNotFoundError if the name is not dropped, TableAlreadyExistsError if the new name is taken,
    NamespaceNotFoundError if its namespace does not exist, ConcurrentModificationError if it is being purged.
    """
    record = dropped.find(catalog, identifier, deletion_id)
    if record is None:
        which = f" under the deletion id {deletion_id!r}" if deletion_id else ""
        raise TableNotFoundError(f"Table {format_identifier(identifier)} is not dropped{which}")
    target = as_id or identifier
    kind = kind_of_drop(record)
    if isinstance(record, trash.TrashEntry):
        return retry_without_dead_row(catalog, target, lambda: kind.undrop(catalog, record, target))
    return kind.undrop(catalog, record, target)


def undrop_namespace(catalog: Catalog, identifier: Identifier, deletion_id: str | None) -> list[Identifier]:
    """Restore a dropped namespace and all that was dropped with it, in one commit; returns the tables.

    Raises NamespaceNotFoundError if it is not dropped, NamespaceAlreadyExistsError if a name is taken.
    """
    manifest = catalog.require_manifest("undrop_namespace")

    def plan(draft: Draft) -> list[Identifier]:
        entries = [entry for entry in trash.list_entries(draft) if entry.state == trash.DROPPED]
        drops = [
            entry
            for entry in entries
            if entry.original.object_type == NAMESPACE
            and entry.identifier == identifier
            and deletion_id in {None, entry.deletion_id, entry.deletion.group}
        ]
        if not drops:
            raise NamespaceNotFoundError(f"Namespace {format_identifier(identifier)} is not dropped")
        latest = max(drops, key=lambda entry: entry.deletion.deleted_at_ms)
        if not draft.parent_exists(object_id(identifier)):
            raise parent_not_found(identifier)
        group = [entry for entry in entries if entry.deletion.group == latest.deletion.group != ""]
        for entry in sorted(group or [latest], key=lambda entry: len(entry.identifier)):
            _restore_entry(draft, entry)
        return [entry.identifier for entry in group if entry.original.object_type == TABLE]

    require_no_root_table(catalog, identifier)
    return manifest.mutate(plan)


def _restore_entry(draft: Draft, entry: trash.TrashEntry) -> None:
    key = object_id(entry.identifier)
    if draft.get(key) is not None:
        raise NamespaceAlreadyExistsError(
            f"Cannot restore {format_identifier(entry.identifier)}: the name is taken again"
        )
    if not draft.parent_exists(key):
        raise parent_not_found(entry.identifier)
    trash.restore_row(draft, entry, entry.identifier)
