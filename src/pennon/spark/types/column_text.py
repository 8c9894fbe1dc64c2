"""Columns as Spark's SQL declares them: `id BIGINT NOT NULL, tags ARRAY<STRING>`. Only the names are read."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_NESTED = {"array", "map", "struct"}
_NUMBERS = {
    *("bigint", "byte", "dec", "decimal", "double", "float", "int", "integer", "long", "numeric", "real", "short"),
    *("smallint", "tinyint"),
}
_TIMES = {"date", "interval", "time", "timestamp", "timestamp_ltz", "timestamp_ntz"}
_OTHERS = {"binary", "boolean", "char", "character", "geography", "geometry", "string", "varchar", "variant", "void"}
TYPE_NAMES = frozenset(_NESTED | _NUMBERS | _TIMES | _OTHERS)
"""The words with which a type of Spark begins."""
_TOKEN = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[<>():,]|[^\s<>():,`'\"]+")


@dataclass
class DeclaredColumns:
    """The names of columns and of their fields, and the words that are no type of Spark."""

    names: set[str] = field(default_factory=set)
    unknown_types: list[str] = field(default_factory=list)


def read_columns(text: str) -> DeclaredColumns | None:
    """Return what a text declares, or None if only Spark can parse it."""
    reader = _ColumnReader(_TOKEN.findall(text))
    try:
        reader.columns()
    except IndexError:
        return None
    return reader.found if reader.at_end and not text.lstrip().startswith("{") else None


class _ColumnReader:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._position = 0
        self.found = DeclaredColumns()

    @property
    def at_end(self) -> bool:
        return self._position == len(self._tokens)

    def columns(self) -> None:
        """Read columns, or the fields of a struct, up to the end or the closing bracket."""
        while True:
            self.found.names.add(self._next().strip("`").replace("``", "`"))
            self._accept(":")
            self._type()
            while not self.at_end and self._tokens[self._position] not in {",", ">"}:
                self._position += 1  # NOT NULL, COMMENT and the like
            if not self._accept(","):
                return

    def _type(self) -> None:
        word = self._next()
        if word.lower() not in TYPE_NAMES:
            self.found.unknown_types.append(word)
        if self._accept("("):
            while self._next() != ")":
                pass
        if not self._accept("<"):
            return
        if word.lower() == "struct":
            if not self._accept(">"):
                self.columns()
                self._expect_closing()
            return
        self._type()
        while self._accept(","):
            self._type()
        self._expect_closing()

    def _expect_closing(self) -> None:
        if not self._accept(">"):
            raise IndexError

    def _accept(self, token: str) -> bool:
        accepted = not self.at_end and self._tokens[self._position] == token
        self._position += accepted
        return accepted

    def _next(self) -> str:
        self._position += 1
        return self._tokens[self._position - 1]
