"""Problems of a file, with file, line and key."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Path = tuple[str | int, ...]
"""The position of a value: the keys and indexes that lead to it."""
_ORDINARY_KEY = re.compile(r"[0-9A-Za-z_-]+")
_MOST_SHOWN = 20


@dataclass(frozen=True)
class FileProblem:
    """One problem at one position."""

    path: Path
    message: str
    line: int | None = None

    def format(self, file: str) -> str:
        """Return the problem as one line of text."""
        place = file if self.line is None else f"{file}:{self.line}"
        return f"{place}: {format_path(self.path)}: {self.message}" if self.path else f"{place}: {self.message}"


class InvalidFileError(InvalidInputError):
    """The file is invalid; `problems` has everything that was found, sorted by line."""

    def __init__(self, file: str, problems: Iterable[FileProblem]) -> None:
        self.file = file
        self.problems = tuple(sorted(problems, key=lambda one: one.line or 0))
        lines = [one.format(file) for one in self.problems[:_MOST_SHOWN]]
        if len(self.problems) > _MOST_SHOWN:
            lines.append(f"{file}: and {len(self.problems) - _MOST_SHOWN} more")
        super().__init__("\n".join(lines))


def format_path(path: Path) -> str:
    """Return a path as text, such as `targets[0].mode`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            key = part if _ORDINARY_KEY.fullmatch(part) else repr(part)
            text += f".{key}" if text else key
    return text


@dataclass(frozen=True)
class FilePositions:
    """Where the values of a file are: its name, and the line of each path."""

    file: str
    lines: Mapping[Path, int] = field(default_factory=dict)
    blocks: frozenset[Path] = frozenset()
    """Paths of block texts, which start in the line after their key, so that lines inside them are known."""

    def find_line(self, path: Path) -> int | None:
        """Return the line of a path, or of the nearest enclosing one that the file has."""
        return next((self.lines[path[:end]] for end in range(len(path), -1, -1) if path[:end] in self.lines), None)

    def locate(self, path: Path) -> str:
        """Return the file, line and key of a path, for messages."""
        line = self.find_line(path)
        return f"{self.file}: {format_path(path)}" if line is None else f"{self.file}:{line}: {format_path(path)}"

    def problem(self, path: Path, message: str) -> FileProblem:
        """Return a problem at a path."""
        return FileProblem(path, message, self.find_line(path))


def suggest(word: str, known: Sequence[str]) -> str:
    """Return a hint with a similar word, or with all known words if they are few; it begins with a separator."""
    lowered = {one.lower(): one for one in known}
    near = difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    if near:
        return f"; did you mean {lowered[near[0]]!r}?"
    few = 12
    if known and len(known) <= few:
        return f"; known: {', '.join(map(repr, sorted(known)))}"
    return ""
