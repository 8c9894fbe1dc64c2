"""Plan a query that is not analysed: Spark reads whole tables under their own names.

A WITH clause in front of the query defines the tables, so little needs to be known about the query's syntax. In the
text, only names of several parts and versions are replaced: a common table expression has neither. If its last part is
the name of another table or of a common table expression of the query, a table gets a name of our own, and its last
part as alias.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from sqlglot import TokenType

from pennon.spark.query.references import find_name_chains, has_alias, parse_travel, skip_sample
from pennon.spark.quoting import find_name, fold_name, quote_name
from pennon.spark.tokens import TokenCursor, is_word, tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlglot import Token

    from pennon.spark.query.references import QueryTable, TableFinder, TimeTravel

_BEFORE_TABLE = {"FROM", "JOIN", "TABLE"}
_ENDS_OF_FROM = {
    *("SELECT", "WHERE", "GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "HAVING", "LIMIT", "WINDOW", "QUALIFY"),
    *("SET", "VIEW", "|>"),
}
_QUERY_WORDS = {"SELECT", "WITH", "FROM", "VALUES", "(", "TABLE"}
_SET_OPERATORS = ("UNION", "INTERSECT", "EXCEPT", "MINUS")
_MODES_OF_EXPLAIN = {"EXTENDED", "CODEGEN", "COST", "FORMATTED"}
_WITH_QUALIFIER = 2


@dataclass(frozen=True)
class NamedTable:
    """A table, and the name of the common table expression that stands for it."""

    name: str
    table: QueryTable
    travel: TimeTravel | None


@dataclass(frozen=True)
class _Mention:
    """A name in the text that is a table of the catalog, with its version clause.

    `alias` is its alias in the text. Without one, `alias_at` is where an alias can stand, and `keyword` the token TABLE
    that does not allow any.
    """

    parts: tuple[str, ...]
    table: QueryTable
    travel: TimeTravel | None
    start: int
    end: int
    alias: str | None
    alias_at: int | None
    keyword: Token | None
    is_plain: bool
    """Whether the text has just one name here."""

    @property
    def key(self) -> tuple[object, ...]:
        """What mentions of one table have in common."""
        return self.table.identifier, self.travel, fold_name(self.parts[-1])

    @property
    def shown_name(self) -> str:
        """The name that may qualify columns."""
        return self.parts[-1] if self.alias is None else self.alias


@dataclass(frozen=True)
class _CteScope:
    """The tokens between which a name is a common table expression of the query."""

    name: str
    first: int
    last: int


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
    scopes = list(_find_cte_scopes(tokens))
    mentions = list(_find_mentions(text, tokens, scopes, find))
    if not mentions:
        return None
    tables: dict[tuple[object, ...], NamedTable] = {}
    taken = {scope.name for scope in scopes}
    # A table whose name is written without a namespace or version keeps this name.
    for one in sorted(mentions, key=lambda one: not one.is_plain):
        if one.key not in tables:
            name = f"__pennon_{len(tables)}" if fold_name(one.parts[-1]) in taken else one.parts[-1]
            tables[one.key] = NamedTable(name, one.table, one.travel)
            taken.add(fold_name(name))
    qualified = list(_find_qualified_columns(tokens, mentions))
    shown = Counter(fold_name(one.shown_name) for one in mentions)
    # Only a name of our own tells such a table from another one in the same FROM.
    unaliased = {one.key for _, _, one in qualified if shown[fold_name(one.parts[-1])] > 1}
    if has_ambiguous_column(tokens, [(one.shown_name, one.start, one.table.schema.names) for one in mentions]):
        unaliased = set()
    replacements = [
        (start, end, quote_name(tables[one.key].name if one.key in unaliased else one.parts[-1]))
        for start, end, one in qualified
    ]
    for one in mentions:
        replacements += _replace_mention(one, tables[one.key].name, alias=one.key not in unaliased)
    start, continues = _find_start(tokens)
    return WholeTables(text, tuple(tables.values()), start, continues, tuple(sorted(replacements)))


def has_ambiguous_column(tokens: Sequence[Token], tables: Sequence[tuple[str, int, Sequence[str]]]) -> bool:
    """Return True if `t.x` may be a column of two tables in one FROM: Spark rejects it then.

    `tables` have the name that may qualify columns, the position in the text, and the names of columns. Of a query with
    several FROM clauses, such as a pipe, nothing is known.
    """
    counts = Counter(fold_name(name) for name, _, _ in tables)
    if max(counts.values(), default=0) <= 1:
        return False
    blocks, froms = _find_blocks(tokens)
    block_at = {token.start: block for token, block in zip(tokens, blocks, strict=True)}
    named = {start for _, start, _ in tables}
    for first, last in find_name_chains(tokens):
        chain, block = tokens[first : last + 1 : 2], blocks[first]
        if len(chain) < _WITH_QUALIFIER or chain[0].start in named or len(froms[block]) != 1:
            continue
        name, column = (token.text for token in chain[:_WITH_QUALIFIER])
        # A condition after ON can only refer to tables on its left.
        found = [
            columns
            for shown, start, columns in tables
            if fold_name(shown) == fold_name(name)
            and block_at[start] == block
            and (start < chain[0].start or first < froms[block][0])
        ]
        if sum(find_name(column, columns) is not None for columns in found) > 1:
            return True
    return False


def _find_blocks(tokens: Sequence[Token]) -> tuple[list[int], dict[int, list[int]]]:
    """Return the query that each token belongs to, by the number of a token, and the FROM keywords of each query."""
    blocks: list[int] = []
    froms: dict[int, list[int]] = defaultdict(list)
    outer: list[tuple[int, int]] = []
    block = depth = 0
    for number, (token, following) in enumerate(pairwise([*tokens, tokens[-1]])):
        before = tokens[number - 1].text.upper() if number else ""
        if token.token_type is TokenType.L_PAREN:
            outer.append((block, depth))
            is_query = any(_is_keyword(following, word) for word in _QUERY_WORDS - {"("})
            block, depth = (number + 1, 0) if is_query else (block, depth + 1)
        elif token.token_type is TokenType.R_PAREN and outer:
            block, depth = outer.pop()
        elif depth == 0 and before != "*" and any(_is_keyword(token, word) for word in _SET_OPERATORS):
            block = number
        elif depth == 0 and before != "DISTINCT" and _is_keyword(token, "FROM"):
            froms[block].append(number)
        blocks.append(block)
    return blocks, froms


def _replace_mention(mention: _Mention, name: str, *, alias: bool) -> Iterator[tuple[int, int, str]]:
    """Yield the replacements that give a mention the name of its table."""
    is_own = fold_name(name) == fold_name(mention.parts[-1])
    if not (mention.is_plain and is_own):
        yield mention.start, mention.end, quote_name(name)
    if alias and not is_own and mention.alias_at is not None:
        if mention.keyword is not None:
            yield mention.keyword.start, mention.keyword.end + 1, "FROM"
        yield mention.alias_at, mention.alias_at, f" AS {quote_name(mention.parts[-1])}"


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


def _find_mentions(
    text: str, tokens: Sequence[Token], scopes: Sequence[_CteScope], find: TableFinder
) -> Iterator[_Mention]:
    """Yield the names that are tables of the catalog."""
    for first, last in find_name_chains(tokens):
        parts: tuple[str, ...] | None = tuple(token.text for token in tokens[first : last + 1 : 2])
        stop = last + 1
        if stop < len(tokens) and tokens[stop].token_type is TokenType.L_PAREN:
            parts, stop = _parse_identifier_call(tokens, first), last + 4
        if parts is None or not _can_name_table(tokens, first) or _is_cte(parts, first, scopes):
            continue
        cursor = TokenCursor(text, list(tokens), stop)
        travel = parse_travel(cursor, None)
        table = find(parts, travel)
        if table is None:
            continue
        is_plain = cursor.position == first + 1
        end = tokens[cursor.position - 1].end + 1
        skip_sample(cursor)
        alias, alias_at = None, tokens[cursor.position - 1].end + 1
        if has_alias(cursor):
            cursor.accept("AS")
            alias = cursor.parse_part()
        keyword = tokens[first - 1] if _is_keyword(tokens[first - 1], "TABLE") else None
        allowed = alias is None and _allows_alias(tokens, first)
        yield _Mention(
            parts, table, travel, tokens[first].start, end, alias, alias_at if allowed else None, keyword, is_plain
        )


def _parse_identifier_call(tokens: Sequence[Token], at: int) -> tuple[str, ...] | None:
    """Return the name that `IDENTIFIER('name')` means, or None if there is anything else."""
    kinds = [token.token_type for token in tokens[at + 1 : at + 4]]
    called = [TokenType.L_PAREN, TokenType.STRING, TokenType.R_PAREN]
    if not _is_keyword(tokens[at], "IDENTIFIER") or kinds != called:
        return None
    name = tokenize(tokens[at + 2].text) or []
    chains = list(find_name_chains(name))
    return tuple(token.text for token in name[::2]) if chains == [(0, len(name) - 1)] else None


def _is_cte(parts: tuple[str, ...], at: int, scopes: Sequence[_CteScope]) -> bool:
    return len(parts) == 1 and any(
        scope.first <= at < scope.last and scope.name == fold_name(parts[0]) for scope in scopes
    )


def _is_keyword(token: Token, word: str) -> bool:
    return token.token_type is not TokenType.IDENTIFIER and token.text.upper() == word


def _allows_alias(tokens: Sequence[Token], at: int) -> bool:
    """Return True if a table may get an alias: not as `TABLE(t)`, or after TABLE as an argument of a function."""
    before = at - 1
    while before > 0 and tokens[before].token_type is TokenType.L_PAREN:
        before -= 1
    if not _is_keyword(tokens[before], "TABLE"):
        return True
    names = {TokenType.VAR, TokenType.IDENTIFIER}
    called = (
        before > 1 and tokens[before - 1].token_type is TokenType.L_PAREN and tokens[before - 2].token_type in names
    )
    return before == at - 1 and not called and not (before and tokens[before - 1].text in {",", "=>"})


def _can_name_table(tokens: Sequence[Token], at: int) -> bool:
    """Return True if a table can be named here: after FROM, JOIN, TABLE, a comma of FROM, or USING of MERGE."""
    before = at - 1
    if before > 0 and _is_keyword(tokens[before], "USING"):
        return _is_keyword(tokens[0], "MERGE")
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


def _find_cte_scopes(tokens: Sequence[Token]) -> Iterator[_CteScope]:
    """Yield the names that WITH clauses define by `name AS (` or `name (columns) AS (`, and where they apply."""
    closing = _match_parentheses(tokens)
    for number, token in enumerate(tokens):
        if not _is_keyword(token, "WITH"):
            continue
        last = min((end for start, end in closing.items() if start < number < end), default=len(tokens))
        recursive = number + 1 < len(tokens) and _is_keyword(tokens[number + 1], "RECURSIVE")
        at = number + 1 + recursive
        while at + 1 < len(tokens) and is_word(tokens[at]):
            start = closing.get(at + 1, at) + 1
            # Between the columns and AS there may be a limit of the recursion.
            while (
                start < min(last, len(tokens) - 1) and is_word(tokens[start]) and not _is_keyword(tokens[start], "AS")
            ):
                start += 1
            if start + 1 not in closing or not _is_keyword(tokens[start], "AS"):
                break
            end = closing[start + 1]
            yield _CteScope(fold_name(tokens[at].text), start if recursive else end, last)
            if end + 1 >= len(tokens) or tokens[end + 1].text != ",":
                break
            at = end + 2


def _match_parentheses(tokens: Sequence[Token]) -> dict[int, int]:
    """Return the number of the closing parenthesis for that of each opening one."""
    opened: list[int] = []
    closing: dict[int, int] = {}
    for number, token in enumerate(tokens):
        if token.token_type is TokenType.L_PAREN:
            opened.append(number)
        elif token.token_type is TokenType.R_PAREN and opened:
            closing[opened.pop()] = number
    return closing


def _find_qualified_columns(
    tokens: Sequence[Token], mentions: Sequence[_Mention]
) -> Iterator[tuple[int, int, _Mention]]:
    """Yield the names before columns that have more parts than the name of the table, with a mention of the table."""
    named: dict[tuple[str, ...], _Mention] = {}
    for one in mentions:
        lake = () if one.table.lake is None else ((one.table.lake, *one.table.identifier),)
        for names in (one.parts, one.table.identifier, *lake):
            named.setdefault(tuple(map(fold_name, names)), one)
    starts = {one.start for one in mentions}
    for first, last in find_name_chains(tokens):
        chain = tokens[first : last + 1 : 2]
        starred = last + 1 < len(tokens) and tokens[last + 1].token_type is TokenType.DOT
        for length in range(len(chain) - (not starred), 1, -1):
            mention = named.get(tuple(fold_name(token.text) for token in chain[:length]))
            if mention is None or chain[0].start in starts:
                continue
            if length == len(chain) or find_name(chain[length].text, mention.table.schema.names) is not None:
                yield chain[0].start, chain[length - 1].end + 1, mention
                break


def _double_braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
