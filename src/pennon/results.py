"""What operations beyond the SDK return. `pennon` exports these types; both namespaces return them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime  # noqa: TC003 - pydantic reads the types of the fields, to parse them from JSON
from enum import Enum


class TableStatus(str, Enum):
    """Whether a table exists. Each member equals its string: `TableStatus.EXISTS == "Exists"`."""

    EXISTS = "Exists"
    SOFT_DELETED = "SoftDeleted"
    """The table is dropped and can be restored."""
    NOT_FOUND = "NotFound"
    """The table never existed, or was purged."""

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class TableStatusReport:
    """The status of a table; for a dropped table also when it was dropped and the drop's deletion id."""

    status: TableStatus
    dropped_at: datetime | None = None
    deletion_id: str | None = None


@dataclass(frozen=True)
class DroppedTable:
    """A table that is hidden, keeps its data, and waits to be restored or purged."""

    id: list[str]
    deletion_id: str
    dropped_at: datetime
    purgeable_at: datetime
    """When `purge_tables` may delete it. The end of the calendar if its retention cannot be read."""
    location: str
    being_purged: bool = False
    rows: int | None = None
    """The rows of the latest version. Set only in detailed listings, and only if the table has a version."""
    bytes: int | None = None
    """The size of all files of all versions. Set only in detailed listings."""
    fault: str | None = None
    """Why the retention cannot be read, if so. Such a table is kept until it is purged by name with `force=True`."""

    def is_due(self, now: datetime) -> bool:
        """Return True if the table may be purged. A table with no retention is due regardless of clocks."""
        if self.being_purged:
            return True
        return self.fault is None and (self.purgeable_at <= now or self.purgeable_at == self.dropped_at)


@dataclass(frozen=True)
class PurgedTable:
    """What a purge deleted of one dropped table, or why it failed."""

    id: list[str]
    deletion_id: str
    location: str
    files: int = 0
    bytes: int = 0
    error: str | None = None
    code: int | None = None
    """The code of the error, as in docs/reference/errors.md."""


@dataclass(frozen=True)
class KeptTable:
    """A dropped table that was not purged because its retention cannot be read."""

    id: list[str]
    deletion_id: str
    location: str
    reason: str
    fix: str


@dataclass(frozen=True)
class PurgeReport:
    """What a purge deleted, or would delete in a dry run."""

    dry_run: bool
    tables: list[PurgedTable] = field(default_factory=list)
    kept: list[KeptTable] = field(default_factory=list)
    """Tables whose retention cannot be read. Reported when all tables that are due are purged."""

    @property
    def failed(self) -> list[PurgedTable]:
        """The tables that could not be purged and still exist."""
        return [table for table in self.tables if table.error is not None]


@dataclass(frozen=True)
class MigratedTable:
    """A table that a migration added to the manifest, or would add in a dry run."""

    name: str
    location: str


@dataclass(frozen=True)
class SkippedEntry:
    """An entry of the root that a migration left unchanged, and the reason."""

    name: str
    reason: str


@dataclass(frozen=True)
class MigrationReport:
    """What `migrate_to_manifest` changed, or would change in a dry run."""

    dry_run: bool
    migrated: list[MigratedTable] = field(default_factory=list)
    already: list[str] = field(default_factory=list)
    """Tables that the manifest already had."""
    skipped: list[SkippedEntry] = field(default_factory=list)


@dataclass(frozen=True)
class ManagementReport:
    """What turning version management on or off did."""

    tables: int
    versions: int
    """The number of versions whose rows were added or removed."""


@dataclass(frozen=True)
class MarkerReport:
    """The tables whose markers `migrate_markers` wrote to the root or removed from it, or would in a dry run."""

    dry_run: bool
    deregistered: list[str] = field(default_factory=list)
    declared: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    """Tables whose marker in the root was out of date and was removed."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One entry of the root that is skipped, with the reason and how to fix it."""

    entry: str
    reason: str
    fix: str


@dataclass(frozen=True)
class Finding:
    """Something that `LakeCatalog.doctor` found."""

    severity: str
    """`error`: something does not work. `warning`: something is left over or due. `note`: nothing has to be done."""
    subject: str
    """What it is about: the address of a table, a path in the root, or a promise of the store."""
    problem: str
    advice: str
    """What to do."""
    command: str | None = None
    """A command that does it, where there is one."""
    fixable: bool = False
    """Whether `fix=True` repairs it."""


@dataclass(frozen=True)
class DoctorCheck:
    """One check of a catalog."""

    name: str
    title: str
    findings: list[Finding] = field(default_factory=list)
    """What was found. After a repair, what remains."""
    repaired: list[Finding] = field(default_factory=list)
    """What was found and is repaired."""
    skipped: str | None = None
    """Why the check was not made, or None if it was."""
    seconds: float = 0.0


@dataclass(frozen=True)
class StorePromise:
    """Something that a store has to do for Pennon, and whether it does."""

    name: str
    needed_for: str
    kept: bool


@dataclass(frozen=True)
class DoctorReport:
    """The checks of a catalog, with what they found."""

    catalog: str
    fix: bool
    """Whether it was to be repaired."""
    checks: list[DoctorCheck] = field(default_factory=list)
    figures: dict[str, str | float | int] = field(default_factory=dict)
    """What was measured, such as `round_trip_ms` and `clock_ahead_seconds`."""
    promises: list[StorePromise] = field(default_factory=list)
    """What the probe of the store has shown. Empty if the store was not probed."""

    @property
    def findings(self) -> list[Finding]:
        """Everything that was found and is not repaired."""
        return [finding for check in self.checks for finding in check.findings]

    @property
    def repaired(self) -> list[Finding]:
        """Everything that was repaired."""
        return [finding for check in self.checks for finding in check.repaired]

    @property
    def is_healthy(self) -> bool:
        """True if there are no errors and no warnings. Notes do not count."""
        return all(finding.severity == "note" for finding in self.findings)
