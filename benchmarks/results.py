"""The results of a run, and their JSON document."""

from __future__ import annotations

import os
import platform
import statistics
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from importlib import metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seeding import Footprint
    from targets import Target
    from timing import Timing

OURS = "pennon"
REFERENCE = "reference"

V1 = "V1"
V2 = "V2"
COMPATIBILITY = "compatibility"


@dataclass(frozen=True)
class Measurement:
    """One operation at one size, in each implementation."""

    mode: str
    operation: str
    entries: int
    timings: dict[str, Timing]

    @property
    def ours(self) -> Timing:
        """The timing of Pennon."""
        return self.timings[OURS]

    @property
    def reference(self) -> Timing:
        """The timing of the reference client."""
        return self.timings[REFERENCE]

    @property
    def ratio(self) -> float | None:
        """How many times faster Pennon is, or None if one of the two failed."""
        ours, reference = self.ours.median, self.reference.median
        return None if ours is None or reference is None else reference / ours


@dataclass(frozen=True)
class Growth:
    """The files of the manifest directory before and after many mutations."""

    start_entries: int
    mutations: int
    seconds: float
    before: Footprint
    after: Footprint
    after_close: Footprint


@dataclass
class Results:
    """Everything that one run measured."""

    measurements: list[Measurement] = field(default_factory=list)
    growth: dict[str, Growth] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def find(self, mode: str, operation: str, entries: int) -> Measurement | None:
        """Return one measurement, or None."""
        wanted = (mode, operation, entries)
        found = (m for m in self.measurements if (m.mode, m.operation, m.entries) == wanted)
        return next(found, None)


def document(results: Results, targets: Sequence[Target]) -> dict[str, Any]:
    """Return a run as a JSON document."""
    return {
        "environment": environment(),
        "measurements": [_measurement(measurement) for measurement in results.measurements],
        "growth": {name: asdict(growth) for name, growth in results.growth.items()},
        "targets": [asdict(target) for target in targets],
        "notes": results.notes,
    }


def environment() -> dict[str, Any]:
    """Return the machine and the versions that the run used."""
    packages = ("pennon", "pylance", "lance-namespace", "pyarrow", "pyspark")
    return {
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "packages": {name: _version(name) for name in packages},
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _measurement(measurement: Measurement) -> dict[str, Any]:
    return {
        "mode": measurement.mode,
        "operation": measurement.operation,
        "entries": measurement.entries,
        "ratio": _rounded(measurement.ratio),
        **{name: _timing(timing) for name, timing in measurement.timings.items()},
    }


def _timing(timing: Timing) -> dict[str, Any]:
    if timing.median is None:
        return {"error": timing.error}
    deciles = statistics.quantiles(timing.samples, n=10, method="inclusive")
    return {
        "median_ms": _rounded(timing.median),
        "min_ms": _rounded(min(timing.samples)),
        "p90_ms": _rounded(deciles[-1]),
        "repetitions": len(timing.samples),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
