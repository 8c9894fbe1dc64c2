"""What a terminal shows after a program has written to it, and whether that is what a page shows."""

from __future__ import annotations

import difflib
import re

OMISSION = "…"
_CONTROL = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|([\r\n])")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)?")
_ID = re.compile(r"\b[0-9a-f]{32}\b")


def render_screen(written: str) -> str:
    """Return the text on a screen: colours are removed, and lines that were cleared or written over are gone."""
    lines: list[str] = [""]
    row = column = at = 0
    for control in _CONTROL.finditer(written):
        row, column = _put(lines, row, column, written[at : control.start()])
        at = control.end()
        parameter, command, character = control.groups()
        if character == "\n":
            row += 1
            if row == len(lines):
                lines.append("")
        elif character == "\r":
            column = 0
        elif command == "A":
            row = max(0, row - int(parameter or 1))
        elif command == "K":
            lines[row] = "" if parameter == "2" else lines[row][:column]
        elif command not in {"m", "h", "l"}:
            raise ValueError(f"a control sequence that is not known: {control[0]!r}")
    _put(lines, row, column, written[at:])
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def _put(lines: list[str], row: int, column: int, text: str) -> tuple[int, int]:
    line = lines[row].ljust(column)
    lines[row] = line[:column] + text + line[column + len(text) :]
    return row, column + len(text)


def matches(expected: str, shown: str) -> bool:
    """Return True if a screen shows what a page shows.

    Times and ids need not be the same. `…` stands for any text in a line, and alone in a line for any number of lines.
    Blanks count as one.
    """
    pattern = ""
    for line in _normalize(expected):
        if line == OMISSION:
            pattern += r"(?:[^\n]*\n)*?"
        else:
            parts = (re.escape(part.strip()) for part in line.split(OMISSION))
            pattern += r"[^\n]*?".join(parts) + r"\n"
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _normalize(shown))) is not None


def require_match(expected: str, shown: str, where: object) -> None:
    """Raises AssertionError with the differences if a screen does not show what a page shows."""
    if not matches(expected, shown):
        lines = difflib.unified_diff(
            _normalize(expected), _normalize(shown), "the page", "the screen", lineterm="", n=9
        )
        raise AssertionError(f"{where} shows something else:\n" + "\n".join(lines) + f"\n\nThe screen:\n{shown}")


def _normalize(text: str) -> list[str]:
    text = _ID.sub("ID", _TIME.sub("TIME", text.strip("\n")))
    return [" ".join(line.split()) for line in text.split("\n")]
