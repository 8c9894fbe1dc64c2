"""Reports, plans and notes without the values of `${ENV:...}` and of secret variables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pennon.redaction import MASK, hide_secrets
from pennon.spark.pipeline.report import RunReport

if TYPE_CHECKING:
    from pennon.spark.pipeline.model import Check


@dataclass(frozen=True)
class Scrubber:
    """Hides the secrets of one pipeline, before anything is cut to length or written."""

    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        return hide_secrets(text, self.secrets) if self.secrets else text

    def title(self, check: Check) -> str:
        """Return the name of a check for people, without secrets."""
        shown = check if check.sql is None else check.model_copy(update={"sql": self.text(check.sql)})
        return self.text(shown.title)

    def scalar(self, value: Any) -> Any:
        """Return a value that is no text, masked if it reads like a secret."""
        return MASK if str(value) in self.secrets else value

    def texts(self, document: Any) -> Any:
        """Return a document with all its texts and keys scrubbed. Numbers stay: a report's figures are no secrets."""
        if isinstance(document, str):
            return self.text(document)
        if isinstance(document, dict):
            return {self.text(key): self.texts(value) for key, value in document.items()}
        if isinstance(document, (list, tuple)):
            return [self.texts(value) for value in document]
        return document

    def report(self, report: RunReport) -> RunReport:
        """Return a report without secrets."""
        return RunReport.of(self.texts(report.document())) if self.secrets else report
