"""The targets of Pennon relative to the reference, and their verdicts for a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from operations import COLD_START
from results import COMPATIBILITY, OURS, REFERENCE, V1, V2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from results import Results

PASS = "PASS"  # noqa: S105 - a verdict, not a password
FAIL = "FAIL"
NOT_RUN = "not run"
NOT_COMPARABLE = "n/a"

SMALL = 1_000
LARGE = 100_000
MUTATIONS = 1_000
READS = (
    "namespace_exists",
    "table_exists",
    "describe_namespace",
    "describe_table",
    "list_namespaces",
    "list_tables",
)
COMMITS = ("create_namespace", "declare_table")


@dataclass(frozen=True)
class Target:
    """One requirement, the measured value, and the verdict."""

    subject: str
    goal: str
    measured: str
    verdict: str


def judge(results: Results) -> list[Target]:
    """Return the verdict of every target for a run."""
    return list(_targets(results))


def _targets(results: Results) -> Iterator[Target]:
    yield _speedup(results, V1, "list_tables", SMALL, 20)
    for operation in READS:
        yield _speedup(results, V2, operation, LARGE, 20)
    for operation in COMMITS:
        yield _speedup(results, V2, operation, LARGE, 10)
        yield _scaling(results, operation, 2)
    yield _never_slower(results, V2)
    yield _never_slower(results, COMPATIBILITY)
    yield _growth(results, "files", 10)
    yield _growth(results, "bytes", 10)


def _speedup(results: Results, mode: str, operation: str, entries: int, least: float) -> Target:
    subject, goal = f"{mode} {operation}, {entries:,}", f"at least {least:g}x faster"
    found = results.find(mode, operation, entries)
    if found is None:
        return Target(subject, goal, "", NOT_RUN)
    if found.ours.median is None:
        return Target(subject, goal, f"error {found.ours.error}", FAIL)
    if found.ratio is None:
        return Target(subject, goal, f"reference: error {found.reference.error}", NOT_COMPARABLE)
    return Target(subject, goal, f"{found.ratio:.1f}x", _verdict(reached=found.ratio >= least))


def _scaling(results: Results, operation: str, most: float) -> Target:
    """Compare Pennon's time at the large size with its time at the small one."""
    subject, goal = f"{V2} {operation}, {LARGE:,}", f"at most {most:g}x its cost at {SMALL:,}"
    small, large = (results.find(V2, operation, entries) for entries in (SMALL, LARGE))
    if small is None or large is None:
        return Target(subject, goal, "", NOT_RUN)
    low, high = small.ours.median, large.ours.median
    if low is None or high is None:
        return Target(subject, goal, f"error {small.ours.error or large.ours.error}", FAIL)
    measured = f"{high / low:.2f}x ({low:.2f} to {high:.2f} ms)"
    return Target(subject, goal, measured, _verdict(reached=high <= most * low))


def _never_slower(results: Results, mode: str) -> Target:
    """Check that no operation at the small size is slower than the reference, or fails only in Pennon.

    A cold start is shown but not judged: it is no operation, and Pennon reads the whole manifest then, once.
    """
    subject, goal = f"{mode} every operation, {SMALL:,}", "not slower"
    rows = [row for row in results.measurements if (row.mode, row.entries) == (mode, SMALL)]
    rows = [row for row in rows if row.operation != COLD_START]
    if not rows:
        return Target(subject, goal, "", NOT_RUN)
    failed = [f"{row.operation} error {row.ours.error}" for row in rows if row.ours.median is None]
    ratios = sorted((row.ratio, row.operation) for row in rows if row.ratio is not None)
    slower = [f"{operation} {ratio:.2f}x" for ratio, operation in ratios if ratio < 1]
    least = f"least: {ratios[0][1]} {ratios[0][0]:.2f}x" if ratios else "nothing to compare"
    measured = ", ".join(failed + slower) or least
    return Target(subject, goal, measured, _verdict(reached=not failed and not slower))


def _growth(results: Results, quantity: str, share: int) -> Target:
    """Compare the files of both manifests after the last mutation."""
    subject, goal = f"{quantity} after {MUTATIONS:,} mutations", f"at most 1/{share} of the reference"
    ours, reference = (results.growth.get(name) for name in (OURS, REFERENCE))
    if reference is None or reference.mutations != MUTATIONS:
        return Target(subject, goal, "", NOT_RUN)
    if ours is None:
        return Target(subject, goal, "a mutation failed, see the notes", FAIL)
    low, high = getattr(ours.after, quantity), getattr(reference.after, quantity)
    measured = f"{low:,} of {high:,} (1/{high / max(low, 1):.1f})"
    return Target(subject, goal, measured, _verdict(reached=low * share <= high))


def _verdict(*, reached: bool) -> str:
    return PASS if reached else FAIL
