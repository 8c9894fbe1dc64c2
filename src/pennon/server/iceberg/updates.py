"""Parse the updates of a commit, before anything is changed.

A Lance table is changed by Lance: columns, rows and branches are not for this protocol to change. What is left is the
next version, whose manifest is staged already; letting old versions go; and properties. Updates that would change
nothing are fine. All others are refused (0), and the whole commit with them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pennon.directory import layout
from pennon.errors import InvalidInputError, UnsupportedOperationError
from pennon.iceberg.entry import MAIN
from pennon.iceberg.summaries import OPERATION, OURS, SCHEME, STAGED
from pennon.identifiers import format_identifier
from pennon.server.iceberg import columns, documents, fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pennon.server.iceberg.documents import LoadedTable

_KNOWN = {
    "remove-snapshot-ref",
    "set-statistics",
    "remove-statistics",
    "set-partition-statistics",
    "remove-partition-statistics",
    "remove-partition-specs",
    "remove-schemas",
    "enable-row-lineage",
    "add-encryption-key",
    "remove-encryption-key",
    "add-view-version",
    "set-current-view-version",
}
_NEWEST = -1
"""Refers to the schema that the same commit added last."""


@dataclass(frozen=True)
class NewVersion:
    """A version to create from a staged manifest."""

    version: int
    staged: str
    """The name of the staged file."""
    scheme: str | None
    manifest: str
    """The URI in the snapshot."""
    metadata: dict[str, str] | None


@dataclass
class RequestedChanges:
    """The changes that a commit requests for one table."""

    looked: LoadedTable
    version: NewVersion | None = None
    main: int | None = None
    place: str | None = None
    """The location of a declared table's first version, if it differs from the declared one."""
    assigned: dict[str, str] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    expired: list[int] = field(default_factory=list)
    schemas: list[dict[str, Any]] = field(default_factory=list)
    """Schemas that must equal the table's, unless the commit adds a version."""

    @property
    def what(self) -> str:
        """The table, for messages."""
        return f"Table {format_identifier(self.looked.found.identifier)}"


def parse_updates(looked: LoadedTable, updates: Sequence[object]) -> RequestedChanges:
    """Return the requested changes. Raises InvalidInputError or UnsupportedOperationError for others."""
    wanted = RequestedChanges(looked)
    for one in updates:
        update = fields.mapping(one, f"{wanted.what}: an update")
        action = fields.text(update, "action", f"{wanted.what}: an update")
        if action in _KNOWN:
            raise _unsupported(wanted, f"{action!r} has no meaning for a Lance table")
        if action not in _READERS:
            raise InvalidInputError(f"{wanted.what}: unknown update {action!r}")
        _READERS[action](wanted, update)
    _check(wanted)
    return wanted


def _check(wanted: RequestedChanges) -> None:
    if wanted.version is not None and wanted.main != wanted.version.version:
        raise _unsupported(wanted, "a new version must become the current one: 'set-snapshot-ref' of 'main' is missing")
    if wanted.place is not None and (wanted.version is None or wanted.version.version != 1):
        raise _unsupported(wanted, "it stays where it is; only the first version of a declared one may be elsewhere")
    # Setting a property to its current value changes nothing.
    fixed = wanted.looked.fixed
    for key, value in wanted.assigned.items():
        if key in fixed and value.strip().lower() != fixed[key]:
            raise InvalidInputError(f"{wanted.what} has {key}={fixed[key]}, which cannot be set to {value!r}")
    wanted.assigned = {key: value for key, value in wanted.assigned.items() if key not in fixed}
    fixed_away = sorted(wanted.removed & fixed.keys())
    if fixed_away:
        raise InvalidInputError(f"{wanted.what} cannot be without the property {fixed_away[0]!r}")
    both = sorted(wanted.removed & wanted.assigned.keys())
    if both:
        raise InvalidInputError(f"{wanted.what}: the property {both[0]!r} is set and removed at once")


def _add_snapshot(wanted: RequestedChanges, update: Mapping[str, Any]) -> None:
    what = f"{wanted.what}: the snapshot"
    snapshot = fields.mapping(update.get("snapshot"), what)
    if wanted.version is not None:
        raise _unsupported(wanted, "one commit makes one version")
    if not wanted.looked.is_managed:
        raise _unsupported(wanted, "its versions are not managed by the catalog (managed_by=storage)")
    summary = fields.texts(snapshot, "summary", what)
    if STAGED not in summary:
        raise _unsupported(
            wanted, f"it is written through Lance, whose staged manifest the summary names as {STAGED!r}"
        )
    version = fields.number(snapshot, "snapshot-id", what)
    if snapshot.get("sequence-number") is not None and fields.number(snapshot, "sequence-number", what) != version:
        raise InvalidInputError(f"{what}: 'sequence-number' must be 'snapshot-id', the number of the Lance version")
    kept = {key: value for key, value in summary.items() if key not in OURS}
    if kept.get(OPERATION) == "overwrite":
        del kept[OPERATION]
    wanted.version = NewVersion(
        version,
        summary[STAGED],
        summary.get(SCHEME),
        str(snapshot.get("manifest-list") or ""),
        kept or None,
    )


def _set_snapshot_ref(wanted: RequestedChanges, update: Mapping[str, Any]) -> None:
    what = f"{wanted.what}: 'set-snapshot-ref'"
    if fields.text(update, "ref-name", what) != MAIN or update.get("type", "branch") != "branch":
        raise _unsupported(wanted, f"branches and tags of a Lance table are made through Lance; here is only {MAIN!r}")
    wanted.main = fields.number(update, "snapshot-id", what)


def _remove_snapshots(wanted: RequestedChanges, update: Mapping[str, Any]) -> None:
    if not wanted.looked.is_managed:
        raise _unsupported(wanted, "its versions are not managed by the catalog (managed_by=storage)")
    wanted.expired += fields.numbers(update, "snapshot-ids", f"{wanted.what}: 'remove-snapshots'")


def _set_properties(wanted: RequestedChanges, update: Mapping[str, Any]) -> None:
    wanted.assigned |= fields.texts(update, "updates", f"{wanted.what}: 'set-properties'")


def _remove_properties(wanted: RequestedChanges, update: Mapping[str, Any]) -> None:
    wanted.removed |= set(fields.names(update, "removals", f"{wanted.what}: 'remove-properties'"))


def _add_schema(wanted: RequestedChanges, update: Mapping[str, Any]) -> None:
    wanted.schemas.append(fields.mapping(update.get("schema"), f"{wanted.what}: the schema"))


def _set_current_schema(wanted: RequestedChanges, update: Mapping[str, Any]) -> None:
    number = fields.number(update, "schema-id", f"{wanted.what}: 'set-current-schema'")
    added = {one.get("schema-id") for one in wanted.schemas}
    if number not in {columns.SCHEMA_ID, _NEWEST} | added or (number == _NEWEST and not added):
        raise InvalidInputError(f"{wanted.what} has no schema {number}")


def _set_location(wanted: RequestedChanges, update: Mapping[str, Any]) -> None:
    location = fields.text(update, "location", f"{wanted.what}: 'set-location'")
    inside = wanted.looked.catalog.store.relative(location.rstrip("/"))
    if inside == wanted.looked.found.location:
        return
    if not inside:
        raise _unsupported(wanted, f"it cannot be at {location!r}, which is not in the catalog's root")
    wanted.place = layout.check_location(inside)


def _only(action: str, key: str, fine: Callable[[RequestedChanges, Any], bool], why: str) -> Callable[..., None]:
    """Return a parser that accepts an update only if it changes nothing."""

    def read(wanted: RequestedChanges, update: Mapping[str, Any]) -> None:
        if key not in update:
            raise InvalidInputError(f"{wanted.what}: {action!r} needs {key!r}")
        if not fine(wanted, update[key]):
            raise _unsupported(wanted, why)

    return read


def _is_empty(_: RequestedChanges, value: object) -> bool:
    return isinstance(value, dict) and not value.get("fields")


def _unsupported(wanted: RequestedChanges, why: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(f"{wanted.what} cannot be changed so: {why}")


_NO_PARTITIONS = "a Lance table has no partitions"
_NO_ORDER = "a Lance table has no sort order"
_READERS: dict[str, Callable[[RequestedChanges, Mapping[str, Any]], None]] = {
    "add-snapshot": _add_snapshot,
    "set-snapshot-ref": _set_snapshot_ref,
    "remove-snapshots": _remove_snapshots,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "add-schema": _add_schema,
    "set-current-schema": _set_current_schema,
    "assign-uuid": _only(
        "assign-uuid", "uuid", lambda one, value: value == one.looked.uuid, "its uuid is given by its place"
    ),
    "upgrade-format-version": _only(
        "upgrade-format-version",
        "format-version",
        lambda _, value: value in {1, documents.FORMAT_VERSION},
        f"it is shown in format version {documents.FORMAT_VERSION} only",
    ),
    "set-location": _set_location,
    "add-spec": _only("add-spec", "spec", _is_empty, _NO_PARTITIONS),
    "set-default-spec": _only("set-default-spec", "spec-id", lambda _, value: value in {0, _NEWEST}, _NO_PARTITIONS),
    "add-sort-order": _only("add-sort-order", "sort-order", _is_empty, _NO_ORDER),
    "set-default-sort-order": _only(
        "set-default-sort-order", "sort-order-id", lambda _, value: value in {0, _NEWEST}, _NO_ORDER
    ),
}


def require_each_once(identifiers: Sequence[tuple[str, ...]]) -> None:
    """Raise InvalidInputError if a transaction names a table twice."""
    repeated = [one for one, times in Counter(identifiers).items() if times > 1]
    if repeated:
        raise InvalidInputError(f"The transaction names table {format_identifier(repeated[0])} more than once")
