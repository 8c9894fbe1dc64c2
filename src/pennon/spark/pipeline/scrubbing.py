"""Removing the values of `${ENV:...}` and of secret variables from reports, plans and notes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pennon.pipeline_runs.report import Report
from pennon.redaction import MASK, hide_secrets

if TYPE_CHECKING:
    from collections.abc import Callable

    from pennon.spark.pipeline.model import Check

AnyReport = TypeVar("AnyReport", bound=Report)
_OWN = frozenset({"fate", "mode", "publish", "scope", "severity", "started", "status"})
"""Fields of reports whose texts are Pennon's own. A secret may be equal to one."""


@dataclass(frozen=True)
class Scrubber:
    """Removes the secrets of one pipeline, before anything is truncated or written."""

    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    def scrub_text(self, text: str) -> str:
        """Return a text without secrets."""
        return hide_secrets(text, self.secrets) if self.secrets else text

    def scrub_title(self, check: Check) -> str:
        """Return the title of a check without secrets."""
        shown = check if check.sql is None else check.model_copy(update={"sql": self.scrub_text(check.sql)})
        return self.scrub_text(shown.title)

    def scrub_scalar(self, value: Any) -> Any:
        """Return a value that is not a text, masked if its text is a secret."""
        return MASK if str(value) in self.secrets else value

    def scrub_report(self, report: AnyReport) -> AnyReport:
        """Return a report or plan without secrets."""
        return change_texts(report, self.scrub_text) if self.secrets else report


def change_texts(report: AnyReport, change: Callable[[str], str]) -> AnyReport:
    """Return a report or plan with all texts changed that a user has written, also the names of sampled columns."""
    return type(report).of(_change(report.document(), change))


def _change(document: Any, change: Callable[[str], str], *, keys: bool = False) -> Any:
    if isinstance(document, str):
        return change(document)
    if isinstance(document, list):
        return [_change(one, change, keys=keys) for one in document]
    if not isinstance(document, dict):
        return document
    if keys:
        return {change(key): _change(value, change, keys=True) for key, value in document.items()}
    return {
        key: value if key in _OWN else _change(value, change, keys=key == "samples") for key, value in document.items()
    }
