"""Timing two implementations side by side, in alternating blocks, so that a busy machine affects both equally."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from operations import Operation, Subject


LOOKUPS = 5


@dataclass(frozen=True)
class Plan:
    """The number of warm-up calls, and of timed calls in blocks that alternate between implementations."""

    blocks: int
    per_block: int
    warm_up: int = 2

    @property
    def objects(self) -> int:
        """The number of objects that an operation creates if each call creates one."""
        return self.warm_up + self.blocks * self.per_block


@dataclass
class Timing:
    """The milliseconds of one operation in one implementation, or its error."""

    samples: list[float] = field(default_factory=list)
    error: str | None = None

    @property
    def median(self) -> float | None:
        """The median, or None if the operation failed."""
        return statistics.median(self.samples) if self.samples and self.error is None else None


def compare(operation: Operation, subjects: Sequence[Subject], plan: Plan) -> dict[str, Timing]:
    """Time one operation in all subjects alternately; the first error of a subject ends its part."""
    timings = {subject.name: Timing() for subject in subjects}
    per_block = plan.per_block * (LOOKUPS if operation.lookup else 1)
    for subject in subjects:
        _run(operation, subject, range(plan.warm_up), Timing(), failed=timings[subject.name])
    for block in range(plan.blocks):
        start = plan.warm_up + block * per_block
        indexes = [index % plan.objects for index in range(start, start + per_block)]
        for subject in subjects:
            timing = timings[subject.name]
            _run(operation, subject, indexes, timing, failed=timing)
    return timings


def _run(operation: Operation, subject: Subject, indexes: Sequence[int], timing: Timing, *, failed: Timing) -> None:
    """Add one sample per index to `timing`, and an error, if there is one, to `failed`."""
    for index in indexes:
        if failed.error is not None:
            return
        try:
            call = operation.prepare(subject, index)
            start = time.perf_counter()
            answer = call()
            timing.samples.append((time.perf_counter() - start) * 1e3)
            if operation.after is not None:
                operation.after(subject, index, answer)
        except Exception as error:  # noqa: BLE001 - whatever an implementation raises is a result here
            failed.error = error_label(error)


def error_label(error: Exception) -> str:
    """Return the namespace error code of an error, or its type."""
    code = getattr(error, "code", None)
    if isinstance(error, NotImplementedError) and code is None:
        return "0 unsupported"
    if isinstance(code, int):
        return f"{int(code)} {getattr(code, 'name', '').lower().replace('_', ' ')}".strip()
    return type(error).__name__
