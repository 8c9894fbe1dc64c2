"""Find the tables of the catalog that a query names, their positions in its text, and their versions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sqlglot import Token, TokenType, exp

from pennon.spark.quoting import fold_name
from pennon.spark.tokens import TokenCursor, is_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from pennon.identifiers import Identifier

_TRAVEL_KINDS = {
    "VERSION": "version",
    "SYSTEM_VERSION": "version",
    "TIMESTAMP": "timestamp",
    "SYSTEM_TIME": "timestamp",
}
_SHORT_TIME = re.compile(r"(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{3})", re.ASCII)
# Keywords that can follow a relation in FROM, and so are not its alias.
_CLAUSES = {
    *("WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW", "QUALIFY"),
    *("JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL", "SEMI", "ANTI", "LATERAL", "ON", "USING"),
    *("UNION", "INTERSECT", "EXCEPT", "MINUS", "PIVOT", "UNPIVOT", "TABLESAMPLE", "SELECT", "MAP", "REDUCE", "WITH"),
    *("AS", "FOR", "VERSION", "TIMESTAMP", "SYSTEM_VERSION", "SYSTEM_TIME", "MATCH_RECOGNIZE", "WATERMARK", "THEN"),
    *("WHEN", "INSERT", "SET", "VALUES", "TABLE"),
}


@dataclass(frozen=True)
class TimeTravel:
    """The version that a query asks for. `kind` is "version" or "timestamp"; `text` is the expression as written."""

    kind: str
    text: str


@dataclass(frozen=True)
class QueryTable:
    """A table of the catalog and its columns.

    `fixed_rows` is True for the result of a search: its rows are chosen before any condition applies. `lake` is the
    name of the lake, which may precede the table's name.
    """

    identifier: Identifier
    schema: pa.Schema
    fixed_rows: bool = False
    lake: str | None = None


class TableFinder(Protocol):
    """Finds the table of the catalog that a name refers to."""

    def __call__(self, parts: tuple[str, ...], travel: TimeTravel | None) -> QueryTable | None:
        """Return the table with this name, or None."""


@dataclass(frozen=True, eq=False)
class TableReference:
    """One mention of a table in FROM. The text from `start` to `end` is its name and version clause."""

    number: int
    parts: tuple[str, ...]
    table: QueryTable
    travel: TimeTravel | None
    start: int
    end: int
    alias: str | None
    alias_at: int | None
    node: exp.Table

    @property
    def name(self) -> str:
        """The name that may qualify the table's columns."""
        return self.parts[-1] if self.alias is None else self.alias


def find_references(text: str, tokens: Sequence[Token], tree: exp.Expr, find: TableFinder) -> list[TableReference]:
    """Return the references in the syntax tree of a query."""
    starts = {token.start: number for number, token in enumerate(tokens)}
    references: list[TableReference] = []
    for node in tree.find_all(exp.Table):
        if node.find_ancestor(exp.Hint) is None and find_cte(node) is None:
            cursor = TokenCursor(text, list(tokens))
            reference = _read_reference(cursor, starts, node, find, len(references))
            if reference is not None:
                references.append(reference)
    return references


def _read_reference(
    cursor: TokenCursor, starts: Mapping[int, int], node: exp.Table, find: TableFinder, number: int
) -> TableReference | None:
    """Return the reference at a node, or None if it does not name a table of the catalog."""
    names = _get_name_parts(node)
    first, last = (starts.get(name.meta.get("start", -1)) for name in (names[0], names[-1])) if names else (None, None)
    if first is None or last is None:
        return None
    alias = node.args["alias"].this if node.args.get("alias") else None
    cursor.position = last + 1
    travel = parse_travel(cursor, None if alias is None else starts.get(alias.meta.get("start", -1)))
    parts = tuple(str(name.this) for name in names)
    table = find(parts, travel)
    if table is None:
        return None
    start, end = cursor.tokens[first].start, cursor.tokens[cursor.position - 1].end + 1
    if alias is not None:
        return TableReference(number, parts, table, travel, start, end, str(alias.name), None, node)
    skip_sample(cursor)
    return TableReference(
        number, parts, table, travel, start, end, None, cursor.tokens[cursor.position - 1].end + 1, node
    )


def _get_name_parts(table: exp.Table) -> list[exp.Identifier]:
    """Return the parts of a table's name, or an empty list if it is a function or anything else."""
    parts = table.parts
    return [part for part in parts if isinstance(part, exp.Identifier)] if _are_names(parts) else []


def find_cte(table: exp.Table) -> exp.CTE | None:
    """Return the common table expression that a name in FROM refers to: the innermost one in scope, as in Spark."""
    if table.args.get("db") is not None or not isinstance(table.this, exp.Identifier):
        return None
    name = fold_name(table.name)
    return next((one for one in _find_visible_ctes(table) if fold_name(one.alias) == name), None)


def _find_visible_ctes(node: exp.Expr) -> Iterator[exp.CTE]:
    """Yield the common table expressions that a node can refer to, the innermost first."""
    within: exp.Expr | None = None
    while node.parent is not None:
        if isinstance(node, exp.CTE):
            within = node
        node = node.parent
        clause = node.args.get("with_")
        if isinstance(clause, exp.With):
            defined = clause.expressions
            if within is not None and within.parent is clause:
                # One of them sees those before it; if WITH is recursive, also itself.
                defined = defined[: (within.index or 0) + bool(clause.args.get("recursive"))]
            yield from reversed(defined)


def _are_names(parts: Sequence[exp.Expr]) -> bool:
    return bool(parts) and all(isinstance(part, exp.Identifier) and part.this for part in parts)


def parse_travel(cursor: TokenCursor, stop: int | None) -> TimeTravel | None:
    """Parse the version clause of a table, or return None. `stop` is the number of the token of the alias, if known."""
    start = cursor.position
    if cursor.accept("@"):
        return _parse_short_travel(cursor)
    cursor.accept("FOR")
    kind = cursor.accept_one(*_TRAVEL_KINDS)
    if kind is None or not cursor.accept("AS", "OF"):
        cursor.position = start
        return None
    first = cursor.position
    if _TRAVEL_KINDS[kind] == "version":
        cursor.position += 1
    elif stop is not None:
        cursor.position = stop - 1 if cursor.tokens[stop - 1].token_type is TokenType.ALIAS else stop
    else:
        cursor.take_until(*_CLAUSES - {"TIMESTAMP", "LEFT", "RIGHT", "VALUES"}, ",")
    last = cursor.tokens[min(cursor.position, len(cursor.tokens)) - 1]
    return TimeTravel(_TRAVEL_KINDS[kind], cursor.text[cursor.tokens[first].start : last.end + 1])


def _parse_short_travel(cursor: TokenCursor) -> TimeTravel:
    """Parse what follows `@` after the name of a table: `v3`, or a time as `20240131093000000`."""
    text = "" if cursor.token is None else cursor.token.text
    if text[:1] in {"v", "V"} and text[1:].isdigit():
        cursor.position += 1
        return TimeTravel("version", text[1:])
    time = _SHORT_TIME.fullmatch(text)
    if time is not None:
        cursor.position += 1
        return TimeTravel("timestamp", "'{}-{}-{} {}:{}:{}.{}'".format(*time.groups()))
    raise cursor.syntax_error("expected a version such as v3, or a time such as 20240131093000000")


def skip_sample(cursor: TokenCursor) -> None:
    """Move behind a TABLESAMPLE clause, if one comes next."""
    if not cursor.accept("TABLESAMPLE"):
        return
    while cursor.accept_one("SYSTEM", "BERNOULLI", "REPEATABLE") or cursor.peek("("):
        if cursor.accept("(") and not cursor.accept(")"):
            cursor.take_until()
            cursor.accept(")")


def has_alias(cursor: TokenCursor) -> bool:
    """Return True if the alias of a relation comes next."""
    token = cursor.token
    if token is None or not is_word(token):
        return False
    return token.token_type is TokenType.IDENTIFIER or cursor.peek("AS") or token.text.upper() not in _CLAUSES


def find_name_chains(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of the first and last token of each name, such as `a` or `a.b.c`."""
    number = 0
    while number < len(tokens):
        last = number
        if is_word(tokens[number]):
            while last + 2 < len(tokens) and tokens[last + 1].token_type is TokenType.DOT and is_word(tokens[last + 2]):
                last += 2
            yield number, last
        number = last + 1
