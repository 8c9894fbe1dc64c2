"""Patterns for identifiers of tables.

A pattern is a quoted identifier whose names may contain `*`, `?` and `[abc]`; `**` matches any number of names,
including none. Wild cards in backticks have no special meaning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import translate
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pennon.identifiers import Identifier

_ANY_DEPTH = "**"
_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
_PATTERN = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))*")
_WILD = re.compile(r"[*?\[]")
# As in fnmatch, a set has at least one character, which may be `]`.
_SET = re.compile(r"\[!?.[^\]]*\]")


@dataclass(frozen=True)
class TablePattern:
    """A pattern for identifiers, level by level; None matches any number of levels."""

    levels: tuple[re.Pattern[str] | None, ...]

    @classmethod
    def parse(cls, text: str) -> TablePattern:
        """Parse a pattern. Raises InvalidInputError if it is malformed."""
        if _PATTERN.fullmatch(text) is None:
            raise InvalidInputError(
                f"Bad pattern {text!r}: join names by single dots, and put special names in backticks; "
                "'**' selects all tables"
            )
        return cls(
            tuple(
                re.compile(re.escape(quoted.replace("``", "`"))) if quoted else _compile_level(text, plain)
                for quoted, plain in _PART.findall(text)
            )
        )

    @classmethod
    def from_names(cls, names: Sequence[str]) -> TablePattern:
        """Return a pattern from single names, in which dots and backticks have no special meaning."""
        text = "/".join(names)
        if not names or not all(names):
            raise InvalidInputError(f"Bad pattern {text!r}: a name is empty")
        return cls(tuple(_compile_level(text, name) for name in names))

    def matches(self, identifier: Identifier) -> bool:
        """Return True if a table's identifier matches."""
        return _matches(self.levels, identifier)


def is_pattern(text: str) -> bool:
    """Return True if a text has wild cards outside backticks."""
    return any(plain and _WILD.search(plain) for _, plain in _PART.findall(text))


def _compile_level(text: str, name: str) -> re.Pattern[str] | None:
    if name == _ANY_DEPTH:
        return None
    if _ANY_DEPTH in name:
        raise InvalidInputError(f"Bad pattern {text!r}: '**' must stand alone between dots")
    if "[" in _SET.sub("", name):
        raise InvalidInputError(f"Bad pattern {text!r}: a '[' has no ']'")
    return re.compile(translate(name))


def _matches(levels: tuple[re.Pattern[str] | None, ...], names: Identifier) -> bool:
    if not levels:
        return not names
    first, rest = levels[0], levels[1:]
    if first is None:
        return any(_matches(rest, names[taken:]) for taken in range(len(names) + 1))
    return bool(names) and first.fullmatch(names[0]) is not None and _matches(rest, names[1:])
