"""Queries of a pipeline: what they read, found with sqlglot."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from pennon.spark.sql.cursor import tokenize
from pennon.spark.sql.references import TimeTravel, find_references

DIALECT = "spark"
Name = tuple[str, ...]
"""The parts of a table's name as a query has them."""


class BadQueryError(ValueError):
    """A text is no query that can be read; `line` is counted from its first line, which is 1."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Reference:
    """A table that a query names, and the version that it asks for itself, if it does."""

    name: Name
    travel: TimeTravel | None


@lru_cache(maxsize=256)
def references(text: str) -> tuple[Reference, ...]:
    """Give what a query reads, each once, without its own common table expressions."""
    found: dict[Reference, None] = {}

    def find(parts: Name, travel: TimeTravel | None) -> None:
        found[Reference(parts, travel)] = None

    find_references(text, tokenize(text) or [], query(text), find)
    return tuple(found)


def query(text: str) -> exp.Expression:
    """Parse one query, as a tree of its own; raises BadQueryError."""
    try:
        parsed = [one for one in sqlglot.parse(text, read=DIALECT) if one is not None]
    except SqlglotError as error:
        details = getattr(error, "errors", None) or [{}]
        description = re.sub(
            r"<Token token_type: \S+ text: (.*?), line: .*?>", r"'\1'", details[0].get("description") or str(error)
        )
        raise BadQueryError(f"it cannot be read as SQL: {description.rstrip('.')}", details[0].get("line")) from error
    if len(parsed) != 1:
        raise BadQueryError("it has to be one query" if parsed else "it is empty")
    if not isinstance(parsed[0], exp.Query):
        raise BadQueryError("it has to be a query (SELECT ...), which changes nothing")
    return cast("exp.Expression", parsed[0])
