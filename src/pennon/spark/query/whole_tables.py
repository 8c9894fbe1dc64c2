"""Plan a query that is not analysed: Spark reads whole tables under their own names.

A WITH clause in front of the query defines the tables, so nothing needs to be known about the query's syntax. In the
text, only names of several parts and versions are replaced: a common table expression has neither.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from sqlglot import TokenType

from pennon.spark.query.references import find_name_chains, parse_travel
from pennon.spark.quoting import find_name, fold_name, quote_name
from pennon.spark.tokens import TokenCursor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sqlglot import Token

    from pennon.spark.query.references import QueryTable, TableFinder, TimeTravel

_BEFORE_TABLE = {"FROM", "JOIN", "TABLE", "USING"}
_ENDS_OF_FROM = {
    *("SELECT", "WHERE", "GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "HAVING", "LIMIT", "WINDOW", "QUALIFY"),
    *("SET", "VALUES", "|>"),
}
_QUERY_WORDS = {"SELECT", "WITH", "FROM", "VALUES", "(", "TABLE"}
_MODES_OF_EXPLAIN = {"EXTENDED", "CODEGEN", "COST", "FORMATTED"}


@dataclass(frozen=True)
class NamedTable:
    """A table, and the name of the common table expression that stands for it."""

    name: str
    table: QueryTable
    travel: TimeTravel | None


@dataclass(frozen=True)
class _Mention:
    """A name in the text that is a table of the catalog, with its version clause."""

    parts: tuple[str, ...]
    table: QueryTable
    travel: TimeTravel | None
    start: int
    end: int

    @property
    def key(self) -> tuple[object, ...]:
        """What mentions of one table have in common."""
        return self.table.identifier, self.travel, fold_name(self.parts[-1])

    @property
    def is_plain(self) -> bool:
        """Whether the text has just one name here."""
        return len(self.parts) == 1 and self.travel is None


@dataclass(frozen=True)
class WholeTables:
    """The tables of a query, and the replacements in its text. `start` is where a WITH clause can stand."""

    text: str
    tables: tuple[NamedTable, ...]
    start: int
    continues: bool
    """Whether the query has a WITH clause already, which ends before `start`."""
    replacements: tuple[tuple[int, int, str], ...]

    def write(self, views: Sequence[str]) -> str:
        """Return the query with a line that defines each table by the text of its view."""
        clauses = ", ".join(
            f"{quote_name(one.name)} AS (SELECT * FROM {view})"  # noqa: S608 - names of tables
            for one, view in zip(self.tables, views, strict=True)
        )
        clause = f" {clauses}," if self.continues else f"WITH {clauses}"
        return f"{_double_braces(self.text[: self.start])}{clause}\n{_double_braces(self._replaced()[0])}"

    def original_position(self, line: int, column: int) -> tuple[int, int]:
        """Return the line (from 1) and column (from 0) in the query for those in the text that Spark gets."""
        first = self.text.count("\n", 0, self.start) + 1
        if line <= first:
            return line, column
        replaced, origins = self._replaced()
        lines = replaced.split("\n")[: line - first - 1]
        offset = sum(len(one) + 1 for one in lines) + column
        before, origin = max(pair for pair in origins if pair[0] <= offset)
        place = origin + offset - before
        return self.text.count("\n", 0, place) + 1, place - (self.text.rfind("\n", 0, place) + 1)

    def _replaced(self) -> tuple[str, list[tuple[int, int]]]:
        """Return the query from `start` with its replacements, and pairs of positions in it and in the query."""
        pieces, origins, length, position = [""], [(0, self.start)], 0, self.start
        for start, end, name in self.replacements:
            pieces += [self.text[position:start], name]
            origins.append((length + start - position, start))
            length += start - position + len(name)
            origins.append((length, end))
            position = end
        return "".join([*pieces, self.text[position:]]), origins


def find_whole_tables(text: str, tokens: Sequence[Token], find: TableFinder) -> WholeTables | None:
    """Return the tables that a statement may read, or None if it reads none."""
    mentions = list(_find_mentions(text, tokens, find))
    if not mentions:
        return None
    tables: dict[tuple[object, ...], NamedTable] = {}
    # A table whose name is written without a namespace or version keeps this name.
    for one in sorted(mentions, key=lambda one: not one.is_plain):
        taken = any(fold_name(other.name) == fold_name(one.parts[-1]) for other in tables.values())
        name = f"__pennon_{len(tables)}" if taken else one.parts[-1]
        tables.setdefault(one.key, NamedTable(name, one.table, one.travel))
    replacements = [
        (one.start, one.end, quote_name(tables[one.key].name))
        for one in mentions
        if not one.is_plain or tables[one.key].name != one.parts[-1]
    ]
    replacements += _find_qualified_columns(tokens, mentions, tables)
    start, continues = _find_start(tokens)
    return WholeTables(text, tuple(tables.values()), start, continues, tuple(sorted(replacements)))


def find_query_start(tokens: Sequence[Token]) -> int:
    """Return the number of the token at which the query of a statement begins; 0 if the statement is the query.

    EXPLAIN, INSERT and CREATE may precede a query.
    """
    first = tokens[0].text.upper()
    if first == "EXPLAIN":
        return 2 if len(tokens) > 2 and tokens[1].text.upper() in _MODES_OF_EXPLAIN else 1  # noqa: PLR2004 - a word
    if first in _QUERY_WORDS or first == "MERGE":
        return 0
    wanted = {"AS"} if first == "CREATE" else {"SELECT", "WITH"}
    depth = 0
    for number, token in enumerate(tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0 and token.token_type is not TokenType.IDENTIFIER and token.text.upper() in wanted:
            return min(number + (first == "CREATE"), len(tokens) - 1)
    return 0


def _find_start(tokens: Sequence[Token]) -> tuple[int, bool]:
    """Return where a table can be defined, and whether there is a WITH clause already."""
    number = find_query_start(tokens)
    if tokens[number].text.upper() != "WITH":
        return tokens[number].start, False
    recursive = len(tokens) > number + 1 and tokens[number + 1].text.upper() == "RECURSIVE"
    return tokens[number + recursive].end + 1, True


def _find_mentions(text: str, tokens: Sequence[Token], find: TableFinder) -> Iterator[_Mention]:
    """Yield the names that may be tables of the catalog."""
    defined = set(_find_cte_names(tokens))
    for first, last in find_name_chains(tokens):
        parts = tuple(token.text for token in tokens[first : last + 1 : 2])
        called = last + 1 < len(tokens) and tokens[last + 1].token_type is TokenType.L_PAREN
        if called or not _can_name_table(tokens, first) or (len(parts) == 1 and fold_name(parts[0]) in defined):
            continue
        cursor = TokenCursor(text, list(tokens), last + 1)
        travel = parse_travel(cursor, None)
        table = find(parts, travel)
        if table is not None:
            yield _Mention(parts, table, travel, tokens[first].start, tokens[cursor.position - 1].end + 1)


def _can_name_table(tokens: Sequence[Token], at: int) -> bool:
    """Return True if a table can be named here: after FROM, JOIN, TABLE, USING, or a comma of FROM."""
    before = at - 1
    while before >= 0 and tokens[before].token_type is TokenType.L_PAREN:
        before -= 1
    if before < 0 or tokens[before].token_type is TokenType.IDENTIFIER:
        return False
    return tokens[before].text.upper() in _BEFORE_TABLE or (tokens[before].text == "," and _is_in_from(tokens, before))


def _is_in_from(tokens: Sequence[Token], at: int) -> bool:
    depth = 0
    for token in reversed(tokens[:at]):
        depth += (token.token_type is TokenType.R_PAREN) - (token.token_type is TokenType.L_PAREN)
        word = token.text.upper() if token.token_type is not TokenType.IDENTIFIER else ""
        if depth < 0 or (depth == 0 and word in _ENDS_OF_FROM):
            return False
        if depth == 0 and word == "FROM":
            return True
    return False


def _find_cte_names(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the names that the query's own WITH clause defines, by `name AS (` or `name (columns) AS (`."""
    depth = 0
    name = ""
    for token, following in pairwise(tokens):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth == 0 and token.text.upper() == "AS" and following.token_type is TokenType.L_PAREN:
            yield name
        if depth == 0 and token.token_type is not TokenType.R_PAREN:
            name = fold_name(token.text)


def _find_qualified_columns(
    tokens: Sequence[Token], mentions: Sequence[_Mention], tables: Mapping[tuple[object, ...], NamedTable]
) -> Iterator[tuple[int, int, str]]:
    """Yield the replacements of names before columns that have more parts than the name of the table."""
    named: dict[tuple[str, ...], NamedTable] = {}
    for one in mentions:
        lake = () if one.table.lake is None else ((one.table.lake, *one.table.identifier),)
        for names in (one.parts, one.table.identifier, *lake):
            named.setdefault(tuple(map(fold_name, names)), tables[one.key])
    starts = {one.start for one in mentions}
    for first, last in find_name_chains(tokens):
        chain = tokens[first : last + 1 : 2]
        starred = last + 1 < len(tokens) and tokens[last + 1].token_type is TokenType.DOT
        for length in range(len(chain) - (not starred), 1, -1):
            table = named.get(tuple(fold_name(token.text) for token in chain[:length]))
            if table is None or chain[0].start in starts:
                continue
            if length == len(chain) or find_name(chain[length].text, table.table.schema.names) is not None:
                yield chain[0].start, chain[length - 1].end + 1, quote_name(table.name)
                break


def _double_braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
