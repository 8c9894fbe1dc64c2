"""Which tables a job is for: one table, a namespace with all below it, a pattern, or the whole catalog.

A pattern is an identifier as people write it, whose names may hold `*`, `?` and `[abc]`; `**` stands for any number of
names, also none. Names in backticks mean just themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import translate
from typing import TYPE_CHECKING, TypeAlias

from pennon.errors import InvalidInputError, TableNotFoundError
from pennon.identifiers import Identifier, format_identifier, namespace_identifier, parse_identifier
from pennon.spark.jobs import asking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pennon import DirectoryNamespace

    Which: TypeAlias = "str | Sequence[str] | Pattern | None"

_ANY_DEPTH = "**"
_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Pattern:
    """What names have to look like, level by level; None is any number of levels."""

    text: str
    levels: tuple[re.Pattern[str] | None, ...]

    @classmethod
    def of(cls, text: str) -> Pattern:
        """Read a pattern, or raise 13."""
        levels: list[re.Pattern[str] | None] = []
        position = 0
        while position < len(text):
            found = _PART.match(text, position)
            if found is None:
                raise InvalidInputError(f"Bad pattern {text!r}: no name at position {position + 1}")
            levels.append(_level(text, *found.groups()))
            position = found.end()
            if position < len(text):
                if text[position] != "." or position + 1 == len(text):
                    raise InvalidInputError(f"Bad pattern {text!r}: unexpected {text[position]!r} at {position + 1}")
                position += 1
        if not levels:
            raise InvalidInputError("An empty pattern means no table; '**' means all")
        return cls(text, tuple(levels))

    @classmethod
    def of_names(cls, names: Sequence[str]) -> Pattern:
        """Read a pattern that is given name by name, so that dots and backticks in a name mean themselves."""
        text = "/".join(names)
        if not names or not all(names):
            raise InvalidInputError(f"Bad pattern {text!r}: a name is empty")
        return cls(text, tuple(_level(text, None, name) for name in names))

    def matches(self, identifier: Identifier) -> bool:
        """Tell whether a table's identifier is meant."""
        return _matches(self.levels, identifier)


def find(catalog: DirectoryNamespace, which: Which) -> list[Identifier]:
    """Find the tables that are meant, sorted; errors 1, 4 if a plain name means nothing, 13 for a bad pattern.

    None is the whole catalog. A name without wild cards is a table, or a namespace with all that is below it; a pattern
    that nothing matches gives no tables.
    """
    if which is None:
        return sorted(asking.tables(catalog))
    pattern = _pattern(which)
    if pattern is not None:
        return sorted(one for one in asking.tables(catalog) if pattern.matches(one))
    wanted = _names(which)
    found = sorted(one for one in asking.tables(catalog) if one[: len(wanted)] == wanted)
    if not found and wanted and not asking.is_namespace(catalog, wanted):
        raise TableNotFoundError(f"There is no table or namespace {format_identifier(wanted)}")
    return found


def chosen(identifier: Identifier, which: Which) -> bool:
    """Tell whether a table that the catalog does not list, such as a dropped one, is meant."""
    if which is None:
        return True
    pattern = _pattern(which)
    if pattern is not None:
        return pattern.matches(identifier)
    wanted = _names(which)
    return identifier[: len(wanted)] == wanted


def is_pattern(text: str) -> bool:
    """Tell whether a text holds wild cards outside of backticks."""
    return any(plain and _WILD.search(plain) for _, plain in _PART.findall(text))


def _pattern(which: Which) -> Pattern | None:
    if isinstance(which, Pattern):
        return which
    return Pattern.of(which) if isinstance(which, str) and is_pattern(which) else None


def _names(which: Which) -> Identifier:
    if isinstance(which, str):
        return parse_identifier(which)
    return namespace_identifier(() if which is None or isinstance(which, Pattern) else which)


def _level(text: str, quoted: str | None, plain: str | None) -> re.Pattern[str] | None:
    if quoted is not None:
        return re.compile(re.escape(quoted.replace("``", "`")))
    if plain == _ANY_DEPTH:
        return None
    if plain is None or _ANY_DEPTH in plain:
        raise InvalidInputError(f"Bad pattern {text!r}: '**' stands alone between dots")
    return re.compile(translate(plain))


def _matches(levels: tuple[re.Pattern[str] | None, ...], names: Identifier) -> bool:
    if not levels:
        return not names
    first, rest = levels[0], levels[1:]
    if first is None:
        return any(_matches(rest, names[taken:]) for taken in range(len(names) + 1))
    return bool(names) and first.fullmatch(names[0]) is not None and _matches(rest, names[1:])
