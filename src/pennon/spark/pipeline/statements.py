"""Queries and table names in a pipeline, and the tables that a query reads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from pennon.spark.query.references import TimeTravel, find_references
from pennon.spark.tokens import tokenize

DIALECT = "spark"
THIS = "this"
"""The name under which a check reads the data that it checks."""
Name = tuple[str, ...]
"""The parts of a table's name in a query."""


class BadQueryError(ValueError):
    """A text is not a query; `line` is the line of the fault, starting with 1."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class QueryReference:
    """A table in a query, and the version that the query specifies."""

    name: Name
    travel: TimeTravel | None


@lru_cache(maxsize=256)
def list_references(text: str) -> tuple[QueryReference, ...]:
    """Return the tables that a query reads, each once, without its common table expressions."""
    found: dict[QueryReference, None] = {}

    def find(parts: Name, travel: TimeTravel | None) -> None:
        found[QueryReference(parts, travel)] = None

    find_references(text, tokenize(text) or [], parse_query(text), find)
    return tuple(found)


def parse_query(text: str) -> exp.Expression:
    """Parse a text that must be one query. Raises BadQueryError."""
    try:
        parsed = [one for one in sqlglot.parse(text, read=DIALECT) if one is not None]
    except SqlglotError as error:
        details = getattr(error, "errors", None) or [{}]
        description = re.sub(
            r"<Token token_type: \S+ text: (.*?), line: .*?>", r"'\1'", details[0].get("description") or str(error)
        )
        raise BadQueryError(f"it cannot be parsed as SQL: {description.rstrip('.')}", details[0].get("line")) from error
    if len(parsed) != 1:
        raise BadQueryError("it must be one query" if parsed else "it is empty")
    if not isinstance(parsed[0], exp.Query):
        raise BadQueryError("it must be a query (SELECT ...) that changes nothing")
    return cast("exp.Expression", parsed[0])


def is_this(name: Name) -> bool:
    """Return True if a name in a query stands for the checked data."""
    return [part.lower() for part in name] == [THIS]
