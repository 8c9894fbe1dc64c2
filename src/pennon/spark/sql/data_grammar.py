"""Reading the statements that change data: INSERT, MERGE, UPDATE, DELETE, TRUNCATE, and temporary views of queries.

Queries and expressions are kept as the text that was written; Spark reads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import TokenType

from pennon.errors import UnsupportedOperationError
from pennon.spark.sql import statements as made
from pennon.spark.sql.cursor import Cursor, is_word
from pennon.spark.sql.ownership import ForeignNameError

if TYPE_CHECKING:
    from sqlglot import Token

    from pennon.spark.sql.ownership import Owner


def insert(cursor: Cursor, owner: Owner, *, with_clause: str = "") -> made.Statement:
    """Read what follows INSERT; the query may have a WITH that stands before it."""
    evolve = cursor.takes("WITH", "SCHEMA", "EVOLUTION")
    overwrite = cursor.expect_one("INTO", "OVERWRITE") == "OVERWRITE"
    if overwrite and (cursor.sees("LOCAL", "DIRECTORY") or cursor.sees("DIRECTORY")):
        raise ForeignNameError
    cursor.takes("TABLE")
    table = owner.table(cursor.name().parts)
    if cursor.sees("PARTITION"):
        raise cursor.fault("tables of the catalog have no partitions")
    if cursor.sees("REPLACE") or cursor.sees("IF"):
        raise cursor.fault("this form of INSERT is not supported for tables of the catalog")
    columns = None
    by_name = cursor.takes("BY", "NAME")
    if not by_name and cursor.sees("(") and not _begins_query(cursor, cursor.at + 1):
        columns = tuple(cursor.list_of(cursor.part))
    by_name = by_name or cursor.takes("BY", "NAME")
    if not _begins_query(cursor, cursor.at):
        raise cursor.fault("expected a query or VALUES")
    return made.Insert(table, with_clause + cursor.rest(), overwrite, columns, by_name, evolve)


def with_query(text: str, tokens: list[Token], owner: Owner) -> made.Statement | None:
    """Read a statement that begins with common table expressions and goes on with INSERT; None if it is a query."""
    cursor = Cursor(text, tokens)
    if not cursor.sees("WITH"):
        return None
    clause = cursor.span("INSERT", "SELECT", "FROM", "VALUES", "MERGE", "UPDATE", "DELETE")
    if cursor.takes("INSERT"):
        return insert(cursor, owner, with_clause=clause + " ")
    return None


def truncate(cursor: Cursor, owner: Owner) -> made.Statement:
    """Read what follows TRUNCATE TABLE."""
    name = cursor.name().parts
    statement = made.Delete(owner.table(name), name)
    cursor.expect_end()
    return statement


def delete(cursor: Cursor, owner: Owner) -> made.Statement:
    """Read what follows DELETE."""
    cursor.expect("FROM")
    name = cursor.name().parts
    table = owner.table(name)
    alias = _alias(cursor, "WHERE")
    where = cursor.rest() if cursor.takes("WHERE") else None
    cursor.expect_end()
    return made.Delete(table, name, alias, where)


def update(cursor: Cursor, owner: Owner) -> made.Statement:
    """Read what follows UPDATE."""
    name = cursor.name().parts
    table = owner.table(name)
    alias = _alias(cursor, "SET")
    cursor.expect("SET")
    assignments = _assignments(cursor, "WHERE")
    where = cursor.rest() if cursor.takes("WHERE") else None
    cursor.expect_end()
    return made.Update(table, name, alias, assignments, where)


def merge(cursor: Cursor, owner: Owner) -> made.Statement:
    """Read what follows MERGE."""
    evolve = cursor.takes("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    name = cursor.name().parts
    table = owner.table(name)
    alias = _alias(cursor, "USING")
    cursor.expect("USING")
    source, source_name = _source(cursor)
    cursor.expect("ON")
    on = cursor.span("WHEN")
    clauses = []
    while not cursor.ended:
        clauses.append(_clause(cursor))
    if not clauses:
        raise cursor.fault("expected WHEN")
    return made.Merge(table, name, alias, source, source_name, on, tuple(clauses), evolve)


def create_view(cursor: Cursor, *, replace: bool) -> made.Statement | None:
    """Read a temporary view of a query; None for what is not one."""
    is_global = cursor.takes("GLOBAL")
    if not cursor.takes_one("TEMPORARY", "TEMP") or not cursor.takes("VIEW"):
        return None
    if cursor.takes("IF", "NOT", "EXISTS"):
        return None
    parts = cursor.name().parts
    columns = None
    if cursor.sees("("):
        if any(token.text.upper() == "COMMENT" for token in cursor.tokens[cursor.at :]):
            return None
        columns = tuple(cursor.list_of(cursor.part))
    if len(parts) != 1 or not cursor.takes("AS"):
        return None
    return made.CreateTempView(parts[0], cursor.rest(), replace, is_global, columns)


def cache(cursor: Cursor, owner: Owner) -> made.Statement | None:
    """Read CACHE TABLE name AS query; None for the caching of something that is there."""
    del owner
    if cursor.takes("LAZY") or not cursor.takes("TABLE"):
        return None
    parts = cursor.name().parts
    if len(parts) != 1 or cursor.ended or cursor.sees("OPTIONS"):
        return None
    cursor.takes("AS")
    return made.CreateTempView(parts[0], cursor.rest(), cache=True) if _begins_query(cursor, cursor.at) else None


def _source(cursor: Cursor) -> tuple[str, str | None]:
    """Read the source of a merge as a query, and the name by which it goes."""
    first = cursor.at
    if cursor.takes("("):
        cursor.span()
        cursor.expect(")")
        text = cursor.text[cursor.tokens[first].start : cursor.tokens[cursor.at - 1].end + 1]
        return _everything(text), _alias(cursor, "ON")
    name = cursor.name()
    travelled = cursor.span("ON", "AS") if cursor.sees("VERSION") or cursor.sees("TIMESTAMP") else ""
    if cursor.takes("("):
        raise UnsupportedOperationError("The source of MERGE is a table or a query in parentheses, not a function")
    alias = _alias(cursor, "ON")
    text = f"{cursor.text[name.start : name.end]} {travelled}".rstrip()
    return _everything(text), name.parts[-1] if alias is None else alias


def _everything(relation: str) -> str:
    return f"SELECT * FROM {relation}"  # noqa: S608 - the relation is the caller's own text


def _clause(cursor: Cursor) -> made.MergeClause:
    cursor.expect("WHEN")
    match = "matched"
    if cursor.takes("NOT", "MATCHED"):
        match = "missing"
        if cursor.takes("BY"):
            match = "extra" if cursor.expect_one("SOURCE", "TARGET") == "SOURCE" else "missing"
    else:
        cursor.expect("MATCHED")
    condition = cursor.span("THEN") if cursor.takes("AND") else None
    cursor.expect("THEN")
    if match == "missing":
        cursor.expect("INSERT")
        return made.MergeClause(match, "insert", condition, _inserted(cursor))
    if cursor.takes("DELETE"):
        return made.MergeClause(match, "delete", condition)
    cursor.expect("UPDATE", "SET")
    if cursor.takes("*"):
        if match == "extra":
            raise cursor.fault("a row that the source does not have cannot be set to the source's values")
        return made.MergeClause(match, "update", condition, None)
    return made.MergeClause(match, "update", condition, _assignments(cursor, "WHEN"))


def _inserted(cursor: Cursor) -> tuple[made.Assignment, ...] | None:
    if cursor.takes("*"):
        return None
    columns = cursor.list_of(cursor.part)
    cursor.expect("VALUES")
    values = cursor.list_of(lambda: cursor.span(","))
    if len(columns) != len(values):
        raise cursor.fault(f"{len(columns)} columns, but {len(values)} values")
    return tuple(made.Assignment((column,), value) for column, value in zip(columns, values, strict=True))


def _assignments(cursor: Cursor, stop: str) -> tuple[made.Assignment, ...]:
    found = [_assignment(cursor, stop)]
    while cursor.takes(","):
        found.append(_assignment(cursor, stop))
    return tuple(found)


def _assignment(cursor: Cursor, stop: str) -> made.Assignment:
    column = cursor.name().parts
    cursor.expect("=")
    return made.Assignment(column, cursor.span(",", stop))


def _alias(cursor: Cursor, stop: str) -> str | None:
    if cursor.takes("AS"):
        return cursor.part()
    token = cursor.token
    if token is None or cursor.sees(stop) or not is_word(token):
        return None
    if token.token_type is not TokenType.IDENTIFIER and token.text.upper() in {"WHERE", "SET", "USING", "ON", "WHEN"}:
        return None
    return cursor.part()


def _begins_query(cursor: Cursor, at: int) -> bool:
    token = cursor.tokens[at] if at < len(cursor.tokens) else None
    return token is not None and token.text.upper() in {"SELECT", "WITH", "FROM", "VALUES", "TABLE", "(", "MAP"}
