"""Checks and how they run: one after the other, repaired if that was asked for, and then made once more.

A check that fails is a finding, and the next one runs. Only if a vital one fails, the others are skipped.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from pennon.errors import LanceNamespaceError, translate_errors
from pennon.results import DoctorCheck, Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

ERROR, WARNING, NOTE = "error", "warning", "note"
Subject = TypeVar("Subject")


class SkippedCheckError(Exception):
    """A check cannot be made, or was not asked for; the message is the reason."""


@dataclass(frozen=True)
class Check(Generic[Subject]):
    """One check of a catalog of some kind."""

    name: str
    title: str
    find: Callable[[Subject], Iterable[Finding]]
    """Finds what is wrong. May raise SkippedCheckError; another error is a finding."""
    repair: Callable[[Subject, Sequence[Finding]], Iterable[str]] | None = None
    """Repairs findings that are fixable, and returns errors of those that it could not repair."""
    vital: bool = False
    """Whether no other check can be made if this one fails."""


def run_checks(
    checks: Sequence[Check[Subject]],
    subject: Subject,
    *,
    fix: bool,
    renew: Callable[[], None] = lambda: None,
    report: Callable[[str], None] = lambda _: None,
) -> list[DoctorCheck]:
    """Return the outcomes of checks. With `fix`, findings are repaired, and what a second look finds remains.

    `report` gets the title of each check before it runs. `renew` is called before a second look.
    """
    outcomes: list[DoctorCheck] = []
    broken = ""
    for check in checks:
        report(check.title)
        started = time.monotonic()
        if broken:
            outcomes.append(DoctorCheck(check.name, check.title, skipped=broken))
            continue
        findings, skipped, failed = _find(check, subject)
        repaired: list[Finding] = []
        fixable = [finding for finding in findings if finding.fixable]
        if fix and fixable and check.repair is not None:
            errors = list(_repair(check, subject, fixable))
            renew()
            remaining, _, _ = _find(check, subject)
            left = {finding.subject for finding in remaining}
            repaired = [finding for finding in fixable if finding.subject not in left]
            findings = [*remaining, *(_describe_failure(check, error) for error in errors)]
        outcomes.append(DoctorCheck(check.name, check.title, findings, repaired, skipped, time.monotonic() - started))
        if check.vital and failed:
            broken = f"the check '{check.title}' failed"
    return outcomes


def _find(check: Check[Subject], subject: Subject) -> tuple[list[Finding], str | None, bool]:
    """Return the findings of a check, why it was skipped, and whether it failed."""
    found: list[Finding] = []
    try:
        with translate_errors(check.title):
            found.extend(check.find(subject))
    except SkippedCheckError as reason:
        return found, str(reason), False
    except LanceNamespaceError as error:
        return [*found, _describe_failure(check, str(error))], None, True
    return found, None, False


def _repair(check: Check[Subject], subject: Subject, findings: Sequence[Finding]) -> Iterator[str]:
    assert check.repair is not None  # noqa: S101 - the caller has looked
    try:
        with translate_errors(check.title):
            yield from check.repair(subject, findings)
    except LanceNamespaceError as error:
        yield f"the repair failed: {error}"


def _describe_failure(check: Check[Subject], message: str) -> Finding:
    return Finding(ERROR, check.title, message, "see the message; run the command again when its cause is removed")
