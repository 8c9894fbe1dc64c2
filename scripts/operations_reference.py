"""Write docs/reference/operations.md: every operation, called in every mode and on the reference client.

The text around the table is in operations_page.md. Run it with the project's Python; `--check` writes nothing
and fails if the page is not up to date.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from operation_calls import MODES, REFERENCE, Answer, Subject, answered, operations
from operation_cases import CASES

from pennon import DirectoryNamespace, errors

FILE = Path(__file__).parent.parent / "docs" / "reference" / "operations.md"
_PREPARING = "second"
_ERRORS = re.compile(r"[Ee]rrors? (\d[^.;]*)")
_CLASSES = re.compile(r"\b\w+Error\b")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BASE = "Not supported: "
_PAGE = Path(__file__).parent / "operations_page.md"


def written() -> str:
    """Run all cases and return the page."""
    answers = {mode: _answers(mode) for mode in MODES}
    lines = [f"| operation | case | {' | '.join(MODES)} | errors |", f"|---|---|{'---|' * len(MODES)}---|"]
    reasons: dict[str, dict[str, None]] = {}
    for operation in operations():
        for number, case in enumerate(CASES[operation]):
            told = [answers[mode][operation][number] for mode in MODES]
            if case.label == _PREPARING:
                continue
            for mode, answer in zip(MODES, told, strict=True):
                if answer.text == "0" and mode != REFERENCE:
                    reasons.setdefault(_reason(answer), {})[f"`{operation}`"] = None
            first = f"`{operation}`" if number == 0 else ""
            errors = _errors(operation) if number == 0 else ""
            lines.append(f"| {first} | {case.label} | {' | '.join(one.text for one in told)} | {errors} |")
    told_why = "\n".join(f"- {', '.join(refused)}: {reason}." for reason, refused in reasons.items())
    return _PAGE.read_text().replace("{table}", "\n".join(lines)).replace("{reasons}", told_why)


def _answers(mode: str) -> dict[str, list[Answer]]:
    """Run all cases on one namespace, each operation in a separate root."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for operation in operations():
            subject = Subject(mode, Path(folder) / operation)
            found[operation] = [answered(subject, case) for case in CASES[operation]]
            subject.close()
    return found


def _reason(answer: Answer) -> str:
    """Return why an operation is not supported, without the parts that differ between calls."""
    text = _UUID.sub("...", " ".join(answer.message.split()))
    if text.startswith(_BASE):
        return "there is no such operation yet"
    return text.partition(": ")[2] or text


def _errors(operation: str) -> str:
    """Return the codes of the errors that an operation's docstring names."""
    text = " ".join((inspect.getdoc(getattr(DirectoryNamespace, operation)) or "").split())
    codes = {int(getattr(errors, name)("").code) for name in _CLASSES.findall(text)}
    if codes:
        return ", ".join(str(code) for code in sorted(codes))
    found = _ERRORS.search(text)
    return found[1].strip() if found is not None else ""


def main() -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is not up to date")
    checks = parser.parse_args().check
    page = written()
    if checks:
        return int(FILE.read_text() != page)
    FILE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
