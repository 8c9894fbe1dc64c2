"""Parse the statements that change data: INSERT, MERGE, UPDATE, DELETE, TRUNCATE, and temporary views of queries.

Queries and expressions stay text: Spark parses them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import TokenType

from pennon.errors import UnsupportedOperationError
from pennon.spark.query.names import ForeignNameError
from pennon.spark.sql import statements
from pennon.spark.tokens import TokenCursor, is_word

if TYPE_CHECKING:
    from pennon.spark.query.names import NameResolver


def parse_insert(cursor: TokenCursor, resolver: NameResolver, *, with_clause: str = "") -> statements.Statement:
    """Parse the rest of INSERT. `with_clause` is the WITH clause before INSERT; it becomes part of the query."""
    evolve = cursor.accept("WITH", "SCHEMA", "EVOLUTION")
    overwrite = cursor.expect_one("INTO", "OVERWRITE") == "OVERWRITE"
    if overwrite and (cursor.peek("LOCAL", "DIRECTORY") or cursor.peek("DIRECTORY")):
        raise ForeignNameError
    cursor.accept("TABLE")
    table = resolver.resolve_table(cursor.parse_name().parts)
    if cursor.peek("PARTITION"):
        raise cursor.syntax_error("tables of the catalog have no partitions; remove PARTITION")
    if cursor.peek("REPLACE") or cursor.peek("IF"):
        raise cursor.syntax_error("INSERT with REPLACE or IF is not supported for tables of the catalog")
    columns = None
    by_name = cursor.accept("BY", "NAME")
    if not by_name and cursor.peek("(") and not _begins_query(cursor, cursor.position + 1):
        columns = tuple(cursor.parse_list(cursor.parse_part))
    by_name = by_name or cursor.accept("BY", "NAME")
    if not _begins_query(cursor, cursor.position):
        raise cursor.syntax_error("expected a query or VALUES")
    return statements.InsertInto(table, with_clause + cursor.take_rest(), overwrite, columns, by_name, evolve)


def parse_with(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement | None:
    """Parse a WITH clause that INSERT follows, or return None if a query follows."""
    if not cursor.peek("WITH"):
        return None
    clause = cursor.take_until("INSERT", "SELECT", "FROM", "VALUES", "MERGE", "UPDATE", "DELETE")
    if cursor.accept("INSERT"):
        return parse_insert(cursor, resolver, with_clause=clause + " ")
    return None


def parse_truncate(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement:
    """Parse the rest of TRUNCATE TABLE."""
    name = cursor.parse_name().parts
    return statements.DeleteFrom(resolver.resolve_table(name), name)


def parse_delete(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement:
    """Parse the rest of DELETE."""
    cursor.expect("FROM")
    name = cursor.parse_name().parts
    table = resolver.resolve_table(name)
    alias = _parse_alias(cursor, "WHERE")
    where = cursor.take_rest() if cursor.accept("WHERE") else None
    return statements.DeleteFrom(table, name, alias, where)


def parse_update(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement:
    """Parse the rest of UPDATE."""
    name = cursor.parse_name().parts
    table = resolver.resolve_table(name)
    alias = _parse_alias(cursor, "SET")
    cursor.expect("SET")
    assignments = _parse_assignments(cursor, "WHERE")
    where = cursor.take_rest() if cursor.accept("WHERE") else None
    return statements.UpdateTable(table, name, alias, assignments, where)


def parse_merge(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement:
    """Parse the rest of MERGE."""
    evolve = cursor.accept("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    name = cursor.parse_name().parts
    table = resolver.resolve_table(name)
    alias = _parse_alias(cursor, "USING")
    cursor.expect("USING")
    source, source_name = _parse_merge_source(cursor)
    cursor.expect("ON")
    on = cursor.take_until("WHEN")
    clauses = []
    while not cursor.at_end:
        clauses.append(_parse_merge_clause(cursor))
    if not clauses:
        raise cursor.syntax_error("expected WHEN")
    return statements.MergeInto(table, name, alias, source, source_name, on, tuple(clauses), evolve)


def parse_create_view(cursor: TokenCursor, *, replace: bool) -> statements.Statement | None:
    """Parse the rest of CREATE TEMPORARY VIEW, or return None if Spark creates the view."""
    is_global = cursor.accept("GLOBAL")
    if not cursor.accept_one("TEMPORARY", "TEMP") or not cursor.accept("VIEW"):
        return None
    if cursor.accept("IF", "NOT", "EXISTS"):
        return None
    parts = cursor.parse_name().parts
    columns = None
    if cursor.peek("("):
        if any(token.text.upper() == "COMMENT" for token in cursor.tokens[cursor.position :]):
            return None
        columns = tuple(cursor.parse_list(cursor.parse_part))
    if len(parts) != 1 or not cursor.accept("AS"):
        return None
    return statements.CreateTempView(parts[0], cursor.take_rest(), replace, is_global, columns)


def parse_cache_table(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement | None:
    """Parse the rest of CACHE TABLE name AS query, or return None if no query follows the name."""
    del resolver
    if cursor.accept("LAZY") or not cursor.accept("TABLE"):
        return None
    parts = cursor.parse_name().parts
    if len(parts) != 1 or cursor.at_end or cursor.peek("OPTIONS"):
        return None
    cursor.accept("AS")
    if not _begins_query(cursor, cursor.position):
        return None
    return statements.CreateTempView(parts[0], cursor.take_rest(), cache=True)


def _parse_merge_source(cursor: TokenCursor) -> tuple[str, str | None]:
    """Return the source of a merge as a query, and the name of the source in conditions."""
    first = cursor.position
    if cursor.accept("("):
        cursor.take_until()
        cursor.expect(")")
        text = cursor.text[cursor.tokens[first].start : cursor.tokens[cursor.position - 1].end + 1]
        return _select_all(text), _parse_alias(cursor, "ON")
    name = cursor.parse_name()
    travel = cursor.take_until("ON", "AS") if cursor.peek("VERSION") or cursor.peek("TIMESTAMP") else ""
    if cursor.accept("("):
        raise UnsupportedOperationError("The source of MERGE must be a table or a query in parentheses, not a function")
    alias = _parse_alias(cursor, "ON")
    text = f"{cursor.text[name.start : name.end]} {travel}".rstrip()
    return _select_all(text), name.parts[-1] if alias is None else alias


def _select_all(relation: str) -> str:
    return f"SELECT * FROM {relation}"  # noqa: S608 - the user wrote the text


def _parse_merge_clause(cursor: TokenCursor) -> statements.MergeClause:
    cursor.expect("WHEN")
    match = "matched"
    if cursor.accept("NOT", "MATCHED"):
        match = "missing"
        if cursor.accept("BY"):
            match = "extra" if cursor.expect_one("SOURCE", "TARGET") == "SOURCE" else "missing"
    else:
        cursor.expect("MATCHED")
    condition = cursor.take_until("THEN") if cursor.accept("AND") else None
    cursor.expect("THEN")
    if match == "missing":
        cursor.expect("INSERT")
        return statements.MergeClause(match, "insert", condition, _parse_inserted_values(cursor))
    if cursor.accept("DELETE"):
        return statements.MergeClause(match, "delete", condition)
    cursor.expect("UPDATE", "SET")
    if cursor.accept("*"):
        if match == "extra":
            raise cursor.syntax_error("UPDATE SET * needs a row of the source, and NOT MATCHED BY SOURCE has none")
        return statements.MergeClause(match, "update", condition, None)
    return statements.MergeClause(match, "update", condition, _parse_assignments(cursor, "WHEN"))


def _parse_inserted_values(cursor: TokenCursor) -> tuple[statements.Assignment, ...] | None:
    if cursor.accept("*"):
        return None
    columns = cursor.parse_list(cursor.parse_part)
    cursor.expect("VALUES")
    values = cursor.parse_list(lambda: cursor.take_until(","))
    if len(columns) != len(values):
        raise cursor.syntax_error(f"INSERT has {len(columns)} columns but {len(values)} values")
    return tuple(statements.Assignment((column,), value) for column, value in zip(columns, values, strict=True))


def _parse_assignments(cursor: TokenCursor, stop: str) -> tuple[statements.Assignment, ...]:
    assignments = [_parse_assignment(cursor, stop)]
    while cursor.accept(","):
        assignments.append(_parse_assignment(cursor, stop))
    return tuple(assignments)


def _parse_assignment(cursor: TokenCursor, stop: str) -> statements.Assignment:
    column = cursor.parse_name().parts
    cursor.expect("=")
    return statements.Assignment(column, cursor.take_until(",", stop))


def _parse_alias(cursor: TokenCursor, stop: str) -> str | None:
    if cursor.accept("AS"):
        return cursor.parse_part()
    token = cursor.token
    if token is None or cursor.peek(stop) or not is_word(token):
        return None
    if token.token_type is not TokenType.IDENTIFIER and token.text.upper() in {"WHERE", "SET", "USING", "ON", "WHEN"}:
        return None
    return cursor.parse_part()


def _begins_query(cursor: TokenCursor, at: int) -> bool:
    token = cursor.tokens[at] if at < len(cursor.tokens) else None
    return token is not None and token.text.upper() in {"SELECT", "WITH", "FROM", "VALUES", "TABLE", "(", "MAP"}
