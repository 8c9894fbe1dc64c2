"""Requirements of a commit: if one does not hold, ConcurrentModificationError is raised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon.directory.lookup import opening
from pennon.directory.versions import service
from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    TableIsOnlyDeclaredError,
    TableVersionNotFoundError,
)
from pennon.iceberg.entry import MAIN
from pennon.identifiers import format_identifier
from pennon.server.iceberg import columns, documents, fields
from pennon.table.version_selector import VersionSelector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pennon.server.iceberg.documents import LoadedTable

_NUMBERS = {
    "assert-current-schema-id": ("current-schema-id", columns.SCHEMA_ID),
    "assert-last-assigned-partition-id": ("last-assigned-partition-id", documents.LAST_PARTITION_ID),
    "assert-default-spec-id": ("default-spec-id", documents.UNPARTITIONED),
    "assert-default-sort-order-id": ("default-sort-order-id", documents.UNSORTED),
}


def require(looked: LoadedTable, requirements: Sequence[object]) -> bool:
    """Return True if the requirements name the current version.

    Raises ConcurrentModificationError if one does not hold.
    """
    is_pinned = False
    what = f"Table {format_identifier(looked.found.identifier)}"
    for one in requirements:
        requirement = fields.mapping(one, f"{what}: a requirement")
        kind = fields.text(requirement, "type", f"{what}: a requirement")
        if kind == "assert-create":
            raise ConcurrentModificationError(f"Requirement failed: table already exists: {what}")
        if kind == "assert-table-uuid":
            _require_same(what, "UUID", looked.uuid, fields.text(requirement, "uuid", what).lower())
        elif kind == "assert-ref-snapshot-id":
            _require_ref(looked, what, requirement)
            is_pinned = True
        elif kind == "assert-last-assigned-field-id":
            wanted = fields.number(requirement, "last-assigned-field-id", what)
            _require_same(what, "last-assigned-field-id", _last_field_id(looked), wanted)
        elif kind in _NUMBERS:
            key, there = _NUMBERS[kind]
            _require_same(what, key, there, fields.number(requirement, key, what))
        else:
            raise InvalidInputError(f"{what}: unknown requirement {kind!r}")
    return is_pinned


def _require_ref(looked: LoadedTable, what: str, requirement: Mapping[str, Any]) -> None:
    name = fields.text(requirement, "ref", what)
    given = requirement.get("snapshot-id")
    wanted = None if given is None else fields.number(requirement, "snapshot-id", what)
    there = _current(looked) if name == MAIN else None
    _require_same(what, f"the snapshot of {name!r}", there, wanted)


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
