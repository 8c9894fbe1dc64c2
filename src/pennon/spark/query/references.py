"""Find the tables of the catalog that a query names, their positions in its text, and their versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sqlglot import Token, TokenType, exp

from pennon.spark.tokens import TokenCursor, is_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from pennon.identifiers import Identifier

_TRAVEL_KINDS = {
    "VERSION": "version",
    "SYSTEM_VERSION": "version",
    "TIMESTAMP": "timestamp",
    "SYSTEM_TIME": "timestamp",
}
# Keywords that can follow a relation in FROM, and so are not its alias.
_CLAUSES = {
    *("WHERE", "GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW", "QUALIFY"),
    *("JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL", "SEMI", "ANTI", "LATERAL", "ON", "USING"),
    *("UNION", "INTERSECT", "EXCEPT", "MINUS", "PIVOT", "UNPIVOT", "TABLESAMPLE", "SELECT", "MAP", "REDUCE", "WITH"),
    *("AS", "FOR", "VERSION", "TIMESTAMP", "SYSTEM_VERSION", "SYSTEM_TIME", "MATCH_RECOGNIZE", "WATERMARK", "THEN"),
    *("WHEN", "INSERT", "SET", "VALUES", "TABLE"),
}
_FUNCTIONS_WITH_FROM = {"EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY", "POSITION"}


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
    node: exp.Table | None = None

    @property
    def name(self) -> str:
        """The name that may qualify the table's columns."""
        return self.parts[-1] if self.alias is None else self.alias


def fold_name(name: str) -> str:
    """Return a name in a form that ignores case. Names that Spark takes as equal are equal here; a few others too."""
    return name.upper().casefold().replace("i\u0307", "i")


def match_name(name: str, names: Sequence[str]) -> str | None:
    """Return the only one of `names` that equals a name, else the only one that differs just in case, or None."""
    matches = [other for other in names if other == name] or [
        other for other in names if fold_name(other) == fold_name(name)
    ]
    return matches[0] if len(matches) == 1 else None


def find_references(text: str, tokens: Sequence[Token], tree: exp.Expr, find: TableFinder) -> list[TableReference]:
    """Return the references in the syntax tree of a query."""
    starts = {token.start: number for number, token in enumerate(tokens)}
    references: list[TableReference] = []
    for table in tree.find_all(exp.Table):
        names = _get_name_parts(table)
        if not names or table.find_ancestor(exp.Hint) is not None or find_cte(table) is not None:
            continue
        first = starts.get(names[0].meta.get("start", -1))
        last = starts.get(names[-1].meta.get("start", -1))
        if first is None or last is None:
            continue
        parts = tuple(str(name.this) for name in names)
        alias = table.args.get("alias")
        alias_name = None if alias is None or alias.this is None else alias.this
        stop = None if alias_name is None else starts.get(alias_name.meta.get("start", -1))
        position = _NamePosition(text, tokens, first, last, stop)
        reference = _build_reference(position, parts, find, len(references), table)
        if reference is not None:
            references.append(reference)
    return references


def scan_references(text: str, tokens: Sequence[Token], find: TableFinder) -> list[TableReference]:
    """Return the references in a query without a syntax tree, based on the tokens around each name."""
    shadowed = set(_find_cte_names(tokens))
    references: list[TableReference] = []
    for first, last in _find_name_chains(tokens):
        parts = tuple(token.text for token in tokens[first : last + 1 : 2])
        if len(parts) == 1 and fold_name(parts[0]) in shadowed:
            continue
        keyword = _find_keyword(tokens, first)
        if keyword is None or (last + 1 < len(tokens) and tokens[last + 1].token_type is TokenType.L_PAREN):
            continue
        position = _NamePosition(text, tokens, first, last, bare=keyword == "TABLE")
        reference = _build_reference(position, parts, find, len(references), None)
        if reference is not None:
            references.append(reference)
    return references


def _get_name_parts(table: exp.Table) -> list[exp.Identifier]:
    """Return the parts of a table's name, or an empty list if it is a function or anything else."""
    parts = table.parts
    return [part for part in parts if isinstance(part, exp.Identifier)] if _are_names(parts) else []


def find_cte(table: exp.Table) -> exp.CTE | None:
    """Return the common table expression that a name in FROM refers to: the innermost one in scope, as in Spark."""
    if table.args.get("db") is not None or not isinstance(table.this, exp.Identifier):
        return None
    name = fold_name(table.name)
    node: exp.Expr = table
    inside: exp.CTE | None = None
    while node.parent is not None:
        if isinstance(node, exp.CTE):
            inside = node
        node = node.parent
        if isinstance(node, exp.With):
            continue
        clause = node.args.get("with_")
        if not isinstance(clause, exp.With):
            continue
        visible = list(clause.expressions)
        if inside is not None and inside.parent is clause:
            index = next(number for number, one in enumerate(visible) if one is inside)
            visible = visible[: index + 1] if clause.args.get("recursive") else visible[:index]
        for one in reversed(visible):
            if fold_name(one.alias) == name:
                return one  # type: ignore[no-any-return]  # the expressions of WITH are CTEs
    return None


def _are_names(parts: Sequence[exp.Expr]) -> bool:
    return bool(parts) and all(isinstance(part, exp.Identifier) and part.this for part in parts)


@dataclass(frozen=True)
class _NamePosition:
    """The tokens of a table's name. `stop` is the token of its alias. With `bare`, no alias can follow."""

    text: str
    tokens: Sequence[Token]
    first: int
    last: int
    stop: int | None = None
    bare: bool = False


def _build_reference(
    position: _NamePosition, parts: tuple[str, ...], find: TableFinder, number: int, node: exp.Table | None
) -> TableReference | None:
    tokens, bare = position.tokens, position.bare
    cursor = TokenCursor(position.text, list(tokens), position.last + 1)
    travel = _parse_travel(cursor, position.stop)
    query_table = find(parts, travel)
    if query_table is None:
        return None
    end = tokens[cursor.position - 1].end + 1
    if cursor.accept("TABLESAMPLE"):
        cursor.take_until(*_CLAUSES - {"TABLESAMPLE"})
    alias_at = tokens[cursor.position - 1].end + 1
    alias: str | None = None
    if node is not None:
        alias_node = node.args.get("alias")
        alias = alias_node.name if alias_node is not None and alias_node.this is not None else None
    elif not bare:
        cursor.accept("AS")
        following = cursor.token
        if following is not None and is_word(following) and _can_be_alias(following):
            alias = following.text
    needs_alias = alias is None and not bare
    return TableReference(
        number,
        parts,
        query_table,
        travel,
        tokens[position.first].start,
        end,
        alias,
        alias_at if needs_alias else None,
        node,
    )


def _parse_travel(cursor: TokenCursor, stop: int | None) -> TimeTravel | None:
    start = cursor.position
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


def _can_be_alias(token: Token) -> bool:
    return token.token_type is TokenType.IDENTIFIER or token.text.upper() not in _CLAUSES


def _find_name_chains(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yield the first and last token of each name."""
    number = 0
    while number < len(tokens):
        if not is_word(tokens[number]) or (number and tokens[number - 1].token_type is TokenType.DOT):
            number += 1
            continue
        last = number
        while last + 2 < len(tokens) and tokens[last + 1].token_type is TokenType.DOT and is_word(tokens[last + 2]):
            last += 2
        yield number, last
        number = last + 1


def _find_keyword(tokens: Sequence[Token], first: int) -> str | None:
    """Return "TABLE" after TABLE, "FROM" after FROM, JOIN or a comma of FROM, or None if no table can be named here."""
    if not first:
        return None
    before = tokens[first - 1]
    word = before.text.upper() if before.token_type is not TokenType.IDENTIFIER else ""
    if word == "TABLE" or (word == "(" and first > 1 and tokens[first - 2].text.upper() == "TABLE"):
        return "TABLE"
    if word == "JOIN" or (word == "USING" and tokens[0].text.upper() == "MERGE"):
        return "FROM"
    if word == "FROM":
        return None if _find_enclosing_function(tokens, first - 1) in _FUNCTIONS_WITH_FROM else "FROM"
    return "FROM" if word == "," and _is_in_from(tokens, first - 1) else None


def _find_enclosing_function(tokens: Sequence[Token], at: int) -> str | None:
    """Return the word before the innermost open parenthesis."""
    depth = 0
    for number in range(at - 1, -1, -1):
        kind = tokens[number].token_type
        depth += (kind is TokenType.R_PAREN) - (kind is TokenType.L_PAREN)
        if depth < 0:
            return tokens[number - 1].text.upper() if number else None
    return None


def _is_in_from(tokens: Sequence[Token], at: int) -> bool:
    depth = 0
    for number in range(at - 1, -1, -1):
        token = tokens[number]
        depth += (token.token_type is TokenType.R_PAREN) - (token.token_type is TokenType.L_PAREN)
        if depth < 0:
            return False
        if depth == 0 and token.token_type is not TokenType.IDENTIFIER:
            word = token.text.upper()
            if word == "FROM":
                return True
            if word in _CLAUSES - {"AS", "JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "ON", "USING"}:
                return False
    return False


def _find_cte_names(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the names before `AS (` or `(columns) AS (`."""
    for number in range(1, len(tokens) - 1):
        if tokens[number].text.upper() != "AS" or tokens[number + 1].token_type is not TokenType.L_PAREN:
            continue
        before = number - 1
        if tokens[before].token_type is TokenType.R_PAREN:
            while before and tokens[before].token_type is not TokenType.L_PAREN:
                before -= 1
            before -= 1
        if before >= 0 and is_word(tokens[before]):
            yield fold_name(tokens[before].text)
