"""The report of a run: frozen values, converted to JSON and back."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from typing_extensions import Self

PUBLISHED = "published"
"""All targets are published."""
ALREADY_PUBLISHED = "already published"
"""An earlier run with this id has published them; this one did nothing."""
CHECKS_FAILED = "checks failed"
"""A check with severity error failed: nothing was published, and the staged data was deleted."""


CHECKS_PASSED = "checks passed"
"""No check of published tables with severity error failed."""


class Report:
    """A dataclass that is stored and shown as JSON."""

    def document(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return dict(json.loads(json.dumps(asdict(self), allow_nan=False)))  # type: ignore[call-overload]  # subclasses are dataclasses

    @classmethod
    def of(cls, document: object) -> Self:
        """Return the report from JSON values. Raises ValueError if a value is missing or has the wrong type."""
        return TypeAdapter(cls).validate_json(json.dumps(document), strict=True)


@dataclass(frozen=True)
class SourceReport:
    """A source that the run read; tables of the catalog have a `version` and their name, `table`."""

    name: str
    kind: str
    version: int | None = None
    table: str | None = None


@dataclass(frozen=True)
class StepReport:
    """A step. A step that was not staged is part of its readers (`within`), and has no figures."""

    name: str
    staged: bool
    rows: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    within: tuple[str, ...] = ()
    reused: bool = False
    """Whether an earlier attempt of the same run finished it."""
    reads: tuple[str, ...] = ()
    """The sources and steps that its query names."""
    tables: tuple[str, ...] = ()
    """The other tables that its query names."""


@dataclass(frozen=True)
class TargetReport:
    """A table that the run wrote; `version` is set once it is published."""

    table: str
    mode: str
    rows: int
    bytes: int
    seconds: float
    base_version: int | None = None
    version: int | None = None
    reused: bool = False
    source: str | None = None
    """The source or step whose rows were written."""


@dataclass(frozen=True)
class CheckReport(Report):
    """The result of a check: how many rows, keys or values fail it, and some of them."""

    on: str
    name: str
    severity: str
    passed: bool
    failing: int | None = None
    message: str | None = None
    seconds: float = 0.0
    samples: tuple[dict[str, Any], ...] = ()
    reused: bool = False


@dataclass(frozen=True)
class CheckReports(Report):
    """The results of a group of checks."""

    reports: tuple[CheckReport, ...]


class SavedReport(Report):
    """A report that a user gets."""

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the report to a file, as JSON."""
        with open(file, "w", encoding="utf-8") as opened:  # noqa: PTH123 - any kind of path
            json.dump(self.document(), opened, ensure_ascii=False, indent=2)
            opened.write("\n")


def _find_failures(checks: Iterable[CheckReport]) -> tuple[CheckReport, ...]:
    return tuple(one for one in checks if not one.passed and one.severity == "error")


@dataclass(frozen=True)
class PublishedTable:
    """A published table that was checked, and its version."""

    table: str
    version: int


@dataclass(frozen=True)
class AuditReport(SavedReport):
    """The report of checks over published tables."""

    pipeline: str
    status: str
    started: str
    seconds: float
    tables: tuple[PublishedTable, ...] = ()
    checks: tuple[CheckReport, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether no check with severity error failed."""
        return self.status == CHECKS_PASSED

    @property
    def failures(self) -> tuple[CheckReport, ...]:
        """The failed checks with severity error."""
        return _find_failures(self.checks)


@dataclass(frozen=True)
class RunReport(SavedReport):
    """The report of a run."""

    pipeline: str
    run_id: str
    status: str
    publish: str
    started: str
    seconds: float
    resumed: bool
    sources: tuple[SourceReport, ...] = ()
    steps: tuple[StepReport, ...] = ()
    targets: tuple[TargetReport, ...] = ()
    checks: tuple[CheckReport, ...] = ()

    @property
    def succeeded(self) -> bool:
        """Whether the targets are published, by this attempt or an earlier one."""
        return self.status in {PUBLISHED, ALREADY_PUBLISHED}

    @property
    def failures(self) -> tuple[CheckReport, ...]:
        """The checks that prevented the run from publishing."""
        return _find_failures(self.checks)
