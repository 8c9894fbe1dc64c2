"""Which tables of the catalog a query names, where in its text, and at which version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sqlglot import Token, TokenType, exp

from pennon.spark.sql.cursor import TokenCursor, is_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from pennon.identifiers import Identifier

_TRAVEL = {"VERSION": "version", "SYSTEM_VERSION": "version", "TIMESTAMP": "timestamp", "SYSTEM_TIME": "timestamp"}
# What can follow a relation in FROM, and so is not its alias.
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
    """A version that a query asks for: `kind` is "version" or "timestamp", `text` the expression as it is written."""

    kind: str
    text: str


@dataclass(frozen=True)
class QueryTable:
    """A table of the catalog and its columns; `settled` if its rows are what they are before any condition.

    `lake` is the name of the lake, with which the table's own name may begin.
    """

    identifier: Identifier
    schema: pa.Schema
    fixed_rows: bool = False
    lake: str | None = None


class TableFinder(Protocol):
    """Tells which table of the catalog a name means, None if it means none."""

    def __call__(self, parts: tuple[str, ...], travel: TimeTravel | None) -> QueryTable | None:
        """Look the name up."""


@dataclass(frozen=True, eq=False)
class TableReference:
    """One mention of a table in FROM; the text from `start` to `end` is its name and the version it asks for."""

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
        """What columns may be qualified with."""
        return self.parts[-1] if self.alias is None else self.alias


def fold_name(name: str) -> str:
    """Bring a name to the form in which Spark compares it; more names are equal here than there, never fewer."""
    return name.upper().casefold().replace("i\u0307", "i")


def find_references(text: str, tokens: Sequence[Token], tree: exp.Expr, find: TableFinder) -> list[TableReference]:
    """Find the references of a query that is understood."""
    starts = {token.start: number for number, token in enumerate(tokens)}
    found: list[TableReference] = []
    for table in tree.find_all(exp.Table):
        names = get_name_parts(table)
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
        place = _Place(text, tokens, first, last, stop)
        reference = _reference(place, parts, find, len(found), table)
        if reference is not None:
            found.append(reference)
    return found


def scan_references(text: str, tokens: Sequence[Token], find: TableFinder) -> list[TableReference]:
    """Find the references of a query that is not understood, by what stands before and after names."""
    shadowed = set(_cte_names(tokens))
    found: list[TableReference] = []
    for first, last in _chains(tokens):
        parts = tuple(token.text for token in tokens[first : last + 1 : 2])
        if len(parts) == 1 and fold_name(parts[0]) in shadowed:
            continue
        form = _form(tokens, first)
        if form is None or (last + 1 < len(tokens) and tokens[last + 1].token_type is TokenType.L_PAREN):
            continue
        place = _Place(text, tokens, first, last, bare=form == "TABLE")
        reference = _reference(place, parts, find, len(found), None)
        if reference is not None:
            found.append(reference)
    return found


def get_name_parts(table: exp.Table) -> list[exp.Identifier]:
    """Give the parts of a table's name; none if it is a function or something else."""
    parts = table.parts
    return [part for part in parts if isinstance(part, exp.Identifier)] if _are_names(parts) else []


def find_cte(table: exp.Table) -> exp.CTE | None:
    """Find the common table expression that a name in FROM means, as Spark does: the innermost one that is in scope."""
    if table.args.get("db") is not None or not isinstance(table.this, exp.Identifier):
        return None
    wanted = fold_name(table.name)
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
            position = next(number for number, one in enumerate(visible) if one is inside)
            visible = visible[: position + 1] if clause.args.get("recursive") else visible[:position]
        for one in reversed(visible):
            if fold_name(one.alias) == wanted:
                return one  # type: ignore[no-any-return]  # the expressions of WITH are CTEs
    return None


def _are_names(parts: Sequence[exp.Expr]) -> bool:
    return bool(parts) and all(isinstance(part, exp.Identifier) and part.this for part in parts)


@dataclass(frozen=True)
class _Place:
    """Where a table's name stands; `stop` is the token of its alias. A `bare` one can have no alias."""

    text: str
    tokens: Sequence[Token]
    first: int
    last: int
    stop: int | None = None
    bare: bool = False


def _reference(
    place: _Place, parts: tuple[str, ...], find: TableFinder, number: int, node: exp.Table | None
) -> TableReference | None:
    tokens, bare = place.tokens, place.bare
    cursor = TokenCursor(place.text, list(tokens), place.last + 1)
    travel = _travel(cursor, place.stop)
    found = find(parts, travel)
    if found is None:
        return None
    end = tokens[cursor.position - 1].end + 1
    if cursor.accept("TABLESAMPLE"):
        cursor.take_until(*_CLAUSES - {"TABLESAMPLE"})
    alias_at = tokens[cursor.position - 1].end + 1
    alias: str | None = None
    if node is not None:
        given = node.args.get("alias")
        alias = given.name if given is not None and given.this is not None else None
    elif not bare:
        cursor.accept("AS")
        following = cursor.token
        if following is not None and is_word(following) and _can_be_alias(following):
            alias = following.text
    needs_alias = alias is None and not bare
    return TableReference(
        number, parts, found, travel, tokens[place.first].start, end, alias, alias_at if needs_alias else None, node
    )


def _travel(cursor: TokenCursor, stop: int | None) -> TimeTravel | None:
    begun = cursor.position
    cursor.accept("FOR")
    kind = cursor.accept_one(*_TRAVEL)
    if kind is None or not cursor.accept("AS", "OF"):
        cursor.position = begun
        return None
    first = cursor.position
    if _TRAVEL[kind] == "version":
        cursor.position += 1
    elif stop is not None:
        cursor.position = stop - 1 if cursor.tokens[stop - 1].token_type is TokenType.ALIAS else stop
    else:
        cursor.take_until(*_CLAUSES - {"TIMESTAMP", "LEFT", "RIGHT", "VALUES"}, ",")
    last = cursor.tokens[min(cursor.position, len(cursor.tokens)) - 1]
    return TimeTravel(_TRAVEL[kind], cursor.text[cursor.tokens[first].start : last.end + 1])


def _can_be_alias(token: Token) -> bool:
    return token.token_type is TokenType.IDENTIFIER or token.text.upper() not in _CLAUSES


def _chains(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Find names with their parts: each pair is the first and the last token of one."""
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


def _form(tokens: Sequence[Token], first: int) -> str | None:
    """Tell whether a table can be named here: after FROM, JOIN or a comma of FROM, or after TABLE."""
    if not first:
        return None
    before = tokens[first - 1]
    word = before.text.upper() if before.token_type is not TokenType.IDENTIFIER else ""
    if word == "TABLE" or (word == "(" and first > 1 and tokens[first - 2].text.upper() == "TABLE"):
        return "TABLE"
    if word == "JOIN" or (word == "USING" and tokens[0].text.upper() == "MERGE"):
        return "FROM"
    if word == "FROM":
        return None if _caller(tokens, first - 1) in _FUNCTIONS_WITH_FROM else "FROM"
    return "FROM" if word == "," and _in_from(tokens, first - 1) else None


def _caller(tokens: Sequence[Token], at: int) -> str | None:
    """Give the word before the parenthesis that is open here."""
    depth = 0
    for number in range(at - 1, -1, -1):
        kind = tokens[number].token_type
        depth += (kind is TokenType.R_PAREN) - (kind is TokenType.L_PAREN)
        if depth < 0:
            return tokens[number - 1].text.upper() if number else None
    return None


def _in_from(tokens: Sequence[Token], at: int) -> bool:
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


def _cte_names(tokens: Sequence[Token]) -> Iterator[str]:
    """Find names before `AS (` or `(columns) AS (`."""
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
