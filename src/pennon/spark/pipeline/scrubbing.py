"""Removing the values of `${ENV:...}` and of secret variables from reports, plans and notes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pennon.redaction import MASK, hide_secrets
from pennon.spark.pipeline.report import Report

if TYPE_CHECKING:
    from pennon.spark.pipeline.model import Check

AnyReport = TypeVar("AnyReport", bound=Report)


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

    def scrub_document(self, document: Any, *, keys: bool = False) -> Any:
        """Return a document with its texts scrubbed. Numbers stay: a report's figures are not secrets.

        The keys of a report stay too; those of samples are names of columns, and with `keys` they are scrubbed.
        """
        if isinstance(document, str):
            return self.scrub_text(document)
        if isinstance(document, dict):
            return {
                self.scrub_text(key) if keys else key: self.scrub_document(value, keys=keys or key == "samples")
                for key, value in document.items()
            }
        if isinstance(document, (list, tuple)):
            return [self.scrub_document(value, keys=keys) for value in document]
        return document

    def scrub_report(self, report: AnyReport) -> AnyReport:
        """Return a report or plan without secrets."""
        return type(report).of(self.scrub_document(report.document())) if self.secrets else report
