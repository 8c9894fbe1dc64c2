"""Queries of a pipeline: what they read, found with sqlglot."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from pennon.spark.sql.references import cte_of, table_names

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
    """A table that a query names; `pinned` if the query itself says which version."""

    name: Name
    pinned: bool


@lru_cache(maxsize=256)
def references(text: str) -> tuple[Reference, ...]:
    """Give what a query reads, each once, without its own common table expressions."""
    found: dict[Reference, None] = {}
    for table in tables_of(query(text)):
        found[Reference(name_of(table), table.args.get("version") is not None)] = None
    return tuple(found)


def query(text: str) -> exp.Query:
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
    return parsed[0]


def tables_of(tree: exp.Query) -> list[exp.Table]:
    """Give the nodes of a query that name tables, and not its own common table expressions."""
    return [
        one
        for one in tree.find_all(exp.Table)
        if table_names(one) and cte_of(one) is None and one.find_ancestor(exp.Hint) is None
    ]


def name_of(table: exp.Table) -> Name:
    """Give the parts of a table's name."""
    return tuple(str(one.this) for one in table_names(table))
