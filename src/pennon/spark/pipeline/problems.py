"""What is wrong with a pipeline, said so that its author finds the place: file, line and key."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Path = tuple[str | int, ...]
"""Where a value stands: the keys and positions that lead to it."""
_ORDINARY_KEY = re.compile(r"[0-9A-Za-z_-]+")
_MOST_SHOWN = 20


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, at one place."""

    path: Path
    message: str
    line: int | None = None

    def shown(self, file: str) -> str:
        """Give the problem as one line of text."""
        place = file if self.line is None else f"{file}:{self.line}"
        return f"{place}: {dotted(self.path)}: {self.message}" if self.path else f"{place}: {self.message}"


class InvalidPipelineError(InvalidInputError):
    """The pipeline cannot be run as it is written (13); `problems` has everything that was found, by line."""

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = tuple(sorted(problems, key=lambda one: one.line or 0))
        lines = [one.shown(file) for one in self.problems[:_MOST_SHOWN]]
        if len(self.problems) > _MOST_SHOWN:
            lines.append(f"{file}: and {len(self.problems) - _MOST_SHOWN} more")
        super().__init__("\n".join(lines))


def dotted(path: Path) -> str:
    """Write a path as people do: `targets[0].mode`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            key = part if _ORDINARY_KEY.fullmatch(part) else repr(part)
            text += f".{key}" if text else key
    return text


def line_of(lines: Mapping[Path, int], path: Path) -> int | None:
    """Give the line of a place, or of the nearest one around it that the file has."""
    for length in range(len(path), -1, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None


def suggestion(word: str, known: Sequence[str]) -> str:
    """Ask whether a similar word was meant, or name those that there are if they are few; begins with a separator."""
    lowered = {one.lower(): one for one in known}
    near = difflib.get_close_matches(word.lower(), list(lowered), n=1, cutoff=0.6)
    if near:
        return f"; did you mean {lowered[near[0]]!r}?"
    few = 12
    if known and len(known) <= few:
        return f"; there is {', '.join(map(repr, sorted(known)))}"
    return ""
