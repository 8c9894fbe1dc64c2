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
from pennon.spark.quoting import fold_name, quote_name
from pennon.spark.tokens import TokenCursor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
    found = list(_find_tables(text, tokens, find))
    if not found:
        return None
    tables: dict[tuple[object, ...], NamedTable] = {}
    # A table whose name is written without a namespace or version keeps this name.
    for parts, table, travel, _, _ in sorted(found, key=lambda one: (len(one[0]) > 1, one[2] is not None)):
        same = {one.name for one in tables.values() if fold_name(one.name) == fold_name(parts[-1])}
        key = (table.identifier, travel, fold_name(parts[-1]))
        tables.setdefault(key, NamedTable(f"__pennon_{len(tables)}" if same else parts[-1], table, travel))
    replacements = []
    for parts, table, travel, start, end in found:
        name = tables[table.identifier, travel, fold_name(parts[-1])].name
        if len(parts) > 1 or travel is not None or name != parts[-1]:
            replacements.append((start, end, quote_name(name)))
    replacements += _find_qualified_columns(tokens, found, tables)
    start, continues = _find_start(tokens)
    return WholeTables(text, tuple(tables.values()), start, continues, tuple(sorted(set(replacements))))


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


def _find_tables(
    text: str, tokens: Sequence[Token], find: TableFinder
) -> Iterator[tuple[tuple[str, ...], QueryTable, TimeTravel | None, int, int]]:
    """Yield the parts, the table, the version, the start and the end of each name that may be a table's."""
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
            yield parts, table, travel, tokens[first].start, tokens[cursor.position - 1].end + 1


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
    tokens: Sequence[Token],
    found: Sequence[tuple[tuple[str, ...], QueryTable, TimeTravel | None, int, int]],
    tables: dict[tuple[object, ...], NamedTable],
) -> Iterator[tuple[int, int, str]]:
    """Yield the replacements of names before columns that have more parts than the name of the table."""
    named: dict[tuple[str, ...], NamedTable] = {}
    for parts, table, travel, _, _ in found:
        lake = () if table.lake is None else ((table.lake, *table.identifier),)
        for names in (parts, table.identifier, *lake):
            meant = tables[table.identifier, travel, fold_name(parts[-1])]
            named.setdefault(tuple(map(fold_name, names)), meant)
    starts = {start for _, _, _, start, _ in found}
    for first, last in find_name_chains(tokens):
        chain = tokens[first : last + 1 : 2]
        starred = last + 1 < len(tokens) and tokens[last + 1].token_type is TokenType.DOT
        for length in range(len(chain) - (not starred), 1, -1):
            one = named.get(tuple(fold_name(token.text) for token in chain[:length]))
            if one is None or chain[0].start in starts:
                continue
            columns = {fold_name(name) for name in one.table.schema.names}
            if length == len(chain) or fold_name(chain[length].text) in columns:
                yield chain[0].start, chain[length - 1].end + 1, quote_name(one.name)
                break


def _double_braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
