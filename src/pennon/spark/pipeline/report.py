"""The report of a run: frozen values, converted to JSON and back."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

PUBLISHED = "published"
"""All targets are published."""
ALREADY_PUBLISHED = "already published"
"""An earlier run with this id has published them; this one did nothing."""
CHECKS_FAILED = "checks failed"
"""A check with severity error failed: nothing was published, and the staged data was deleted."""


@dataclass(frozen=True)
class SourceReport:
    """A source that the run read; tables of the catalog have a `version`."""

    name: str
    kind: str
    version: int | None = None


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


@dataclass(frozen=True)
class CheckReport:
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

    def document(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return dict(json.loads(json.dumps(asdict(self), default=_to_json, allow_nan=False)))

    @classmethod
    def of(cls, document: dict[str, Any]) -> CheckReport:
        """Return the report from JSON values. Raises TypeError if a value has the wrong type."""
        return _from_dict(cls, document)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class RunReport:
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
        return tuple(one for one in self.checks if not one.passed and one.severity == "error")

    def document(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return dict(json.loads(json.dumps(asdict(self), default=_to_json, allow_nan=False)))

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the report to a file, as JSON."""
        with open(file, "w", encoding="utf-8") as opened:  # noqa: PTH123 - any kind of path
            json.dump(self.document(), opened, ensure_ascii=False, indent=2)
            opened.write("\n")

    @classmethod
    def of(cls, document: dict[str, Any]) -> RunReport:
        """Return the report from JSON values. Raises TypeError if a value has the wrong type."""
        kinds: dict[str, Any] = {
            "sources": SourceReport,
            "steps": StepReport,
            "targets": TargetReport,
            "checks": CheckReport,
        }
        values = {key: document[key] for key in cls.__dataclass_fields__ if key in document}
        for key, kind in kinds.items():
            values[key] = tuple(_from_dict(kind, one) for one in values.get(key, ()))
        _require_kinds(cls, values)
        return cls(**values)


_KINDS = {
    "str": (str,),
    "str | None": (str, type(None)),
    "bool": (bool,),
    "int | None": (int, type(None)),
    "int": (int,),
    "float": (int, float),
}
"""The types that values may have, by the annotation of their field."""


def _require_kinds(kind: Any, values: dict[str, Any]) -> None:
    """Raise TypeError if a value does not have the type of its field."""
    for key, value in values.items():
        allowed = _KINDS.get(str(kind.__dataclass_fields__[key].type))
        if allowed is not None and type(value) not in allowed:
            raise TypeError(f"{key!r} is {str(value)[:100]!r}")


def _from_dict(kind: Any, content: dict[str, Any]) -> Any:
    values = {key: content[key] for key in kind.__dataclass_fields__ if key in content}
    _require_kinds(kind, values)
    return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})


def _to_json(value: object) -> Any:
    return value.isoformat() if isinstance(value, datetime) else str(value)
