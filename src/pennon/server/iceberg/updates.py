"""Parse the updates of a commit, before anything is changed.

A Lance table is changed by Lance: columns, rows and branches are not for this protocol to change. What is left is the
next version, whose manifest is staged already; letting old versions go; and properties. Updates that would change
nothing are fine. All others are refused (0), and the whole commit with them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.errors import InvalidInputError, UnsupportedOperationError
from pennon.iceberg.entry import MAIN
from pennon.iceberg.summaries import OPERATION, OURS, SCHEME, STAGED
from pennon.identifiers import format_identifier
from pennon.server.iceberg import columns, documents, models

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pennon.server.iceberg.documents import LoadedTable

_NEWEST = -1
"""Refers to the schema that the same commit added last."""
_NO_PARTITIONS = "a Lance table has no partitions"
_NO_ORDER = "a Lance table has no sort order"


@dataclass(frozen=True)
class NewVersion:
    """A version to create from a staged manifest."""

    version: int
    staged: str
    """The name of the staged file."""
    scheme: str | None
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
    schemas: list[models.Schema] = field(default_factory=list)
    """Schemas that must equal the table's, unless the commit adds a version."""

    @property
    def what(self) -> str:
        """The table, for messages."""
        return f"Table {format_identifier(self.looked.found.identifier)}"


def parse_updates(looked: LoadedTable, updates: Sequence[models.TableUpdate]) -> RequestedChanges:
    """Return the requested changes. Raises InvalidInputError or UnsupportedOperationError for others."""
    wanted = RequestedChanges(looked)
    for one in updates:
        _parse(wanted, one)
    _check(wanted)
    return wanted


def _parse(wanted: RequestedChanges, update: models.TableUpdate) -> None:
    match update:
        case models.AddSnapshotUpdate():
            _add_snapshot(wanted, update.snapshot)
        case models.SetSnapshotRefUpdate():
            _set_ref(wanted, update)
        case models.RemoveSnapshotsUpdate():
            _require_managed(wanted)
            wanted.expired += update.snapshot_ids
        case models.SetPropertiesUpdate():
            wanted.assigned |= update.updates
        case models.RemovePropertiesUpdate():
            wanted.removed |= set(update.removals)
        case models.AddSchemaUpdate():
            wanted.schemas.append(update.schema_)
        case models.SetCurrentSchemaUpdate():
            _set_current_schema(wanted, update.schema_id)
        case models.SetLocationUpdate():
            _set_location(wanted, update.location)
        case _:
            _require_no_change(wanted, update)


def _require_no_change(wanted: RequestedChanges, update: models.TableUpdate) -> None:
    """Raise UnsupportedOperationError if an update would change what is fixed for a Lance table."""
    match update:
        case models.AssignUUIDUpdate():
            is_same, why = update.uuid == wanted.looked.uuid, "its uuid is given by its place"
        case models.UpgradeFormatVersionUpdate():
            is_same = update.format_version in {1, documents.FORMAT_VERSION}
            why = f"it is shown in format version {documents.FORMAT_VERSION} only"
        case models.AddPartitionSpecUpdate():
            is_same, why = not update.spec.fields, _NO_PARTITIONS
        case models.SetDefaultSpecUpdate():
            is_same, why = update.spec_id in {documents.UNPARTITIONED, _NEWEST}, _NO_PARTITIONS
        case models.AddSortOrderUpdate():
            is_same, why = not update.sort_order.fields, _NO_ORDER
        case models.SetDefaultSortOrderUpdate():
            is_same, why = update.sort_order_id in {documents.UNSORTED, _NEWEST}, _NO_ORDER
        case _:
            is_same, why = False, f"{update.action!r} has no meaning for a Lance table"
    if not is_same:
        raise _unsupported(wanted, why)


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


def _require_managed(wanted: RequestedChanges) -> None:
    if not wanted.looked.is_managed:
        raise _unsupported(wanted, "its versions are not managed by the catalog (managed_by=storage)")


def _add_snapshot(wanted: RequestedChanges, snapshot: models.Snapshot) -> None:
    if wanted.version is not None:
        raise _unsupported(wanted, "one commit makes one version")
    _require_managed(wanted)
    if STAGED not in snapshot.summary:
        raise _unsupported(
            wanted, f"it is written through Lance, whose staged manifest the summary names as {STAGED!r}"
        )
    version = snapshot.snapshot_id
    if snapshot.sequence_number not in {None, version}:
        raise InvalidInputError(
            f"{wanted.what}: 'sequence-number' must be 'snapshot-id', the number of the Lance version"
        )
    kept = {key: value for key, value in snapshot.summary.items() if key not in OURS}
    if kept.get(OPERATION) == "overwrite":
        del kept[OPERATION]
    wanted.version = NewVersion(version, snapshot.summary[STAGED], snapshot.summary.get(SCHEME), kept or None)


def _set_ref(wanted: RequestedChanges, update: models.SetSnapshotRefUpdate) -> None:
    if update.ref_name != MAIN or update.type != "branch":
        raise _unsupported(wanted, f"branches and tags of a Lance table are made through Lance; here is only {MAIN!r}")
    wanted.main = update.snapshot_id


def _set_current_schema(wanted: RequestedChanges, number: int) -> None:
    added = {one.schema_id for one in wanted.schemas}
    if number not in {columns.SCHEMA_ID, _NEWEST} | added or (number == _NEWEST and not added):
        raise InvalidInputError(f"{wanted.what} has no schema {number}")


def _set_location(wanted: RequestedChanges, location: str) -> None:
    inside = wanted.looked.catalog.store.relative(location.rstrip("/"))
    if inside == wanted.looked.found.location:
        return
    if not inside:
        raise _unsupported(wanted, f"it cannot be at {location!r}, which is not in the catalog's root")
    wanted.place = layout.check_location(inside)


def _unsupported(wanted: RequestedChanges, why: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(f"{wanted.what} cannot be changed so: {why}")


def require_each_once(identifiers: Sequence[tuple[str, ...]]) -> None:
    """Raise InvalidInputError if a transaction names a table twice."""
    repeated = [one for one, times in Counter(identifiers).items() if times > 1]
    if repeated:
        raise InvalidInputError(f"The transaction names table {format_identifier(repeated[0])} more than once")
