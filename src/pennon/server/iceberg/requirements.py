"""Requirements of a commit: if one does not hold, ConcurrentModificationError is raised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory.lookup import opening
from pennon.directory.versions import service
from pennon.errors import (
    ConcurrentModificationError,
    TableIsOnlyDeclaredError,
    TableVersionNotFoundError,
)
from pennon.iceberg.entry import MAIN
from pennon.identifiers import format_identifier
from pennon.server.iceberg import columns, documents, models
from pennon.table.version_selector import VersionSelector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pennon.server.iceberg.documents import LoadedTable


def require(looked: LoadedTable, requirements: Sequence[models.TableRequirement]) -> bool:
    """Return True if the requirements name the current version.

    Raises ConcurrentModificationError if one does not hold.
    """
    is_pinned = False
    what = f"Table {format_identifier(looked.found.identifier)}"
    for one in requirements:
        match one:
            case models.AssertCreate():
                raise ConcurrentModificationError(f"Requirement failed: table already exists: {what}")
            case models.AssertTableUUID():
                _require_same(what, "UUID", looked.uuid, one.uuid.lower())
            case models.AssertRefSnapshotId():
                there = _current(looked) if one.ref == MAIN else None
                _require_same(what, f"the snapshot of {one.ref!r}", there, one.snapshot_id)
                is_pinned = True
            case models.AssertLastAssignedFieldId():
                _require_same(what, "last-assigned-field-id", _last_field_id(looked), one.last_assigned_field_id)
            case models.AssertCurrentSchemaId():
                _require_same(what, "current-schema-id", columns.SCHEMA_ID, one.current_schema_id)
            case models.AssertLastAssignedPartitionId():
                given = one.last_assigned_partition_id
                _require_same(what, "last-assigned-partition-id", documents.LAST_PARTITION_ID, given)
            case models.AssertDefaultSpecId():
                _require_same(what, "default-spec-id", documents.UNPARTITIONED, one.default_spec_id)
            case models.AssertDefaultSortOrderId():
                _require_same(what, "default-sort-order-id", documents.UNSORTED, one.default_sort_order_id)
    return is_pinned


def _current(looked: LoadedTable) -> int | None:
    try:
        return service.describe_version(looked.catalog, looked.found.identifier, None).version
    except TableVersionNotFoundError:
        return None


def _last_field_id(looked: LoadedTable) -> int:
    try:
        dataset = opening.open_table(looked.catalog, looked.found.identifier, VersionSelector(), shared=True)
    except TableIsOnlyDeclaredError:
        return 0
    return columns.shown(dataset)[1]


def _require_same(what: str, key: str, there: object, wanted: object) -> None:
    if there != wanted:
        raise ConcurrentModificationError(
            f"Requirement failed: {key} does not match: expected {wanted} != {there}, of {what}"
        )
