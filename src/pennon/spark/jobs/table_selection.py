"""Selecting the tables of a job: one table, a namespace with everything below it, a pattern, or the whole catalog.

A pattern is a quoted identifier whose names may contain `*`, `?` and `[abc]`; `**` matches any number of names,
including none. Wild cards in backticks have no special meaning.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import translate
from typing import TYPE_CHECKING, TypeAlias

from lance_namespace_urllib3_client.models.namespace_exists_request import NamespaceExistsRequest

from pennon.errors import InvalidInputError, NamespaceNotFoundError, TableNotFoundError
from pennon.identifiers import Identifier, namespace_identifier, parse_identifier, quote_identifier
from pennon.spark.lake_listing import has_table, iterate_all_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pennon.spark.address import Client

    TableSelector: TypeAlias = "str | Sequence[str] | TablePattern | SingleTable | None"

_ANY_DEPTH = "**"
_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
_PATTERN = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))*")
_WILD = re.compile(r"[*?\[]")
# As in fnmatch, a set has at least one character, which may be `]`.
_SET = re.compile(r"\[!?.[^\]]*\]")


@dataclass(frozen=True)
class SingleTable:
    """Selects one table, and not a namespace of the same name."""

    identifier: Identifier

    def matches(self, identifier: Identifier) -> bool:
        """Return True if a table's identifier matches."""
        return identifier == self.identifier


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


def find_tables(catalog: Client, which: TableSelector) -> list[Identifier]:
    """Return the identifiers of the selected tables, sorted.

    None selects the whole catalog. A name without wild cards selects a table, or a namespace with everything below it.
    A pattern may select no table. Raises TableNotFoundError if neither a table nor a namespace has the name, and
    InvalidInputError if the pattern is malformed.
    """
    require_existing(catalog, which)
    selector = _parse(which)
    if isinstance(selector, TablePattern):
        return sorted(one for one in iterate_all_tables(catalog, ()) if selector.matches(one))
    if isinstance(selector, SingleTable):
        return [selector.identifier]
    found = [selector] if selector and has_table(catalog, selector) else []
    with suppress(NamespaceNotFoundError):
        found += iterate_all_tables(catalog, selector)
    return sorted(found)


def require_existing(catalog: Client, which: TableSelector) -> None:
    """Raise the errors of `find_tables`, without listing tables."""
    selector = _parse(which)
    if isinstance(selector, TablePattern) or not selector:
        return
    if isinstance(selector, SingleTable):
        if not has_table(catalog, selector.identifier):
            raise TableNotFoundError(f"There is no table '{quote_identifier(selector.identifier)}'")
    elif not has_table(catalog, selector):
        try:
            catalog.namespace_exists(NamespaceExistsRequest(id=list(selector)))
        except NamespaceNotFoundError as error:
            raise TableNotFoundError(f"There is no table or namespace '{quote_identifier(selector)}'") from error


def is_selected(identifier: Identifier, which: TableSelector) -> bool:
    """Return True if a table that the catalog does not list, such as a dropped one, is selected."""
    selector = _parse(which)
    if isinstance(selector, tuple):
        return identifier[: len(selector)] == selector
    return selector.matches(identifier)


def is_pattern(text: str) -> bool:
    """Return True if a text has wild cards outside backticks."""
    return any(plain and _WILD.search(plain) for _, plain in _PART.findall(text))


def _parse(which: TableSelector) -> TablePattern | SingleTable | Identifier:
    """Return a selector of tables, or the name of a table or namespace; the empty name is the whole catalog."""
    if isinstance(which, (TablePattern, SingleTable)):
        return which
    if isinstance(which, str):
        return TablePattern.parse(which) if is_pattern(which) else parse_identifier(which)
    return namespace_identifier(which)


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
