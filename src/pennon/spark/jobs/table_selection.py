"""Selecting the tables of a job: one table, a namespace with everything below it, a pattern, or the whole catalog.

A pattern is a quoted identifier whose names may contain `*`, `?` and `[abc]`; `**` matches any number of names,
including none. Wild cards in backticks have no special meaning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import translate
from typing import TYPE_CHECKING, TypeAlias

from pennon.errors import InvalidInputError, TableNotFoundError
from pennon.identifiers import Identifier, format_identifier, namespace_identifier, parse_identifier
from pennon.spark.jobs import catalog_access

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pennon import DirectoryNamespace

    TableSelector: TypeAlias = "str | Sequence[str] | TablePattern | None"

_ANY_DEPTH = "**"
_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class TablePattern:
    """A pattern for identifiers, level by level; None matches any number of levels."""

    text: str
    levels: tuple[re.Pattern[str] | None, ...]

    @classmethod
    def parse(cls, text: str) -> TablePattern:
        """Parse a pattern. Raises InvalidInputError if it is malformed."""
        levels: list[re.Pattern[str] | None] = []
        position = 0
        while position < len(text):
            found = _PART.match(text, position)
            if found is None:
                raise InvalidInputError(f"Bad pattern {text!r}: no name at position {position + 1}")
            levels.append(_compile_level(text, *found.groups()))
            position = found.end()
            if position < len(text):
                if text[position] != "." or position + 1 == len(text):
                    raise InvalidInputError(f"Bad pattern {text!r}: unexpected {text[position]!r} at {position + 1}")
                position += 1
        if not levels:
            raise InvalidInputError("The pattern is empty; '**' selects all tables")
        return cls(text, tuple(levels))

    @classmethod
    def from_names(cls, names: Sequence[str]) -> TablePattern:
        """Return a pattern from single names, in which dots and backticks have no special meaning."""
        text = "/".join(names)
        if not names or not all(names):
            raise InvalidInputError(f"Bad pattern {text!r}: a name is empty")
        return cls(text, tuple(_compile_level(text, None, name) for name in names))

    def matches(self, identifier: Identifier) -> bool:
        """Return True if a table's identifier matches."""
        return _matches(self.levels, identifier)


def find_tables(catalog: DirectoryNamespace, which: TableSelector) -> list[Identifier]:
    """Return the identifiers of the selected tables, sorted.

    None selects the whole catalog. A name without wild cards selects a table, or a namespace with everything below it.
    A pattern may select no table. Raises TableNotFoundError if neither a table nor a namespace has the name, and
    InvalidInputError if the pattern is malformed.
    """
    if which is None:
        return sorted(catalog_access.list_tables(catalog))
    pattern = _to_pattern(which)
    if pattern is not None:
        return sorted(one for one in catalog_access.list_tables(catalog) if pattern.matches(one))
    wanted = _to_names(which)
    found = sorted(one for one in catalog_access.list_tables(catalog) if one[: len(wanted)] == wanted)
    if not found and wanted and not catalog_access.namespace_exists(catalog, wanted):
        raise TableNotFoundError(f"There is no table or namespace {format_identifier(wanted)}")
    return found


def is_selected(identifier: Identifier, which: TableSelector) -> bool:
    """Return True if a table that the catalog does not list, such as a dropped one, is selected."""
    if which is None:
        return True
    pattern = _to_pattern(which)
    if pattern is not None:
        return pattern.matches(identifier)
    wanted = _to_names(which)
    return identifier[: len(wanted)] == wanted


def is_pattern(text: str) -> bool:
    """Return True if a text has wild cards outside backticks."""
    return any(plain and _WILD.search(plain) for _, plain in _PART.findall(text))


def _to_pattern(which: TableSelector) -> TablePattern | None:
    if isinstance(which, TablePattern):
        return which
    return TablePattern.parse(which) if isinstance(which, str) and is_pattern(which) else None


def _to_names(which: TableSelector) -> Identifier:
    if isinstance(which, str):
        return parse_identifier(which)
    return namespace_identifier(() if which is None or isinstance(which, TablePattern) else which)


def _compile_level(text: str, quoted: str | None, plain: str | None) -> re.Pattern[str] | None:
    if quoted is not None:
        return re.compile(re.escape(quoted.replace("``", "`")))
    if plain == _ANY_DEPTH:
        return None
    if plain is None or _ANY_DEPTH in plain:
        raise InvalidInputError(f"Bad pattern {text!r}: '**' must stand alone between dots")
    return re.compile(translate(plain))


def _matches(levels: tuple[re.Pattern[str] | None, ...], names: Identifier) -> bool:
    if not levels:
        return not names
    first, rest = levels[0], levels[1:]
    if first is None:
        return any(_matches(rest, names[taken:]) for taken in range(len(names) + 1))
    return bool(names) and first.fullmatch(names[0]) is not None and _matches(rest, names[1:])
