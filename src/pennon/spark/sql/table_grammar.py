"""Parse CREATE TABLE, ALTER TABLE and CREATE INDEX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import TokenType

from pennon.spark.query.names import ForeignNameError
from pennon.spark.sql import statements

if TYPE_CHECKING:
    from pennon.identifiers import Identifier
    from pennon.spark.query.names import NameResolver
    from pennon.spark.tokens import TokenCursor

_PROVIDERS = {"LANCE", "PENNON"}


def parse_create_table(
    cursor: TokenCursor, resolver: NameResolver, *, replace: bool = False, must_exist: bool = False
) -> statements.Statement:
    """Parse the rest of CREATE TABLE.

    Raises ForeignNameError if USING names a provider other than Lance: Spark creates that table.
    """
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    table = resolver.resolve_new_table(cursor.parse_name().parts)
    columns = None
    if cursor.peek("(") and not _begins_query(cursor, cursor.position + 1):
        columns = _parse_columns(cursor)
    properties = _parse_table_options(cursor)
    query = None
    if not cursor.at_end:
        cursor.accept("AS")
        query = cursor.take_rest()
    if (columns is None) == (query is None):
        raise cursor.syntax_error("a table needs either columns or a query after AS")
    if if_not_exists and replace:
        raise cursor.syntax_error("OR REPLACE and IF NOT EXISTS exclude each other")
    return statements.CreateTable(table, columns, query, if_not_exists, replace, must_exist, properties)


def _parse_table_options(cursor: TokenCursor) -> dict[str, str]:
    """Parse the clauses between the columns of a table and its query."""
    properties: dict[str, str] = {}
    while not cursor.at_end:
        if cursor.accept("USING"):
            if cursor.parse_part().upper() not in _PROVIDERS:
                raise ForeignNameError
        elif cursor.accept("COMMENT"):
            properties["comment"] = cursor.parse_string()
        elif cursor.accept("TBLPROPERTIES"):
            properties |= cursor.parse_properties()
        elif any(cursor.peek(word) for word in ("PARTITIONED", "CLUSTERED", "CLUSTER")):
            raise cursor.syntax_error("Lance tables have no partitions; create an index instead")
        elif any(cursor.peek(word) for word in ("OPTIONS", "LOCATION", "LIKE")):
            raise cursor.syntax_error("OPTIONS, LOCATION and LIKE are not supported for tables of the catalog")
        else:
            break
    return properties


def parse_alter_table(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement:
    """Parse the rest of ALTER TABLE."""
    table = resolver.resolve_table(cursor.parse_name().parts)
    if cursor.accept("RENAME", "TO"):
        return statements.RenameTable(table, _parse_new_table_name(cursor, resolver, table))
    if cursor.accept("RENAME", "COLUMN"):
        column = cursor.parse_name().parts
        cursor.expect("TO")
        return statements.AlterColumn(table, column, new_name=cursor.parse_part())
    if cursor.accept_one("ADD"):
        cursor.accept_one("COLUMNS", "COLUMN")
        columns = _parse_columns(cursor) if cursor.peek("(") else _parse_column_list(cursor)
        return statements.AddColumns(table, columns)
    if cursor.accept("DROP"):
        return _parse_drop_columns(cursor, table)
    if cursor.accept_one("ALTER", "CHANGE"):
        return _parse_alter_column(cursor, table)
    word = cursor.accept_one("SET", "UNSET")
    if word is not None and cursor.accept("PROTECTION"):
        return statements.SetProtection(table, word == "SET")
    if word is not None and cursor.accept("TBLPROPERTIES"):
        return _parse_property_changes(cursor, table, word)
    raise cursor.syntax_error(
        "expected RENAME TO, RENAME COLUMN, ADD COLUMNS, DROP COLUMNS, ALTER COLUMN, SET or UNSET TBLPROPERTIES, "
        "SET or UNSET PROTECTION"
    )


def parse_create_index(cursor: TokenCursor, resolver: NameResolver, *, replace: bool = False) -> statements.Statement:
    """Parse the rest of CREATE INDEX."""
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = None if cursor.peek("ON") else cursor.parse_part()
    cursor.expect("ON")
    cursor.accept("TABLE")
    table = resolver.resolve_table(cursor.parse_name().parts)
    kind = cursor.parse_part() if cursor.accept("USING") else None
    columns = cursor.parse_list(lambda: ".".join(cursor.parse_name().parts))
    if kind is None and cursor.accept("USING"):
        kind = cursor.parse_part()
    options = cursor.parse_properties() if cursor.accept_one("OPTIONS", "WITH") else {}
    return statements.CreateIndex(table, tuple(columns), name, kind, if_not_exists, replace, options)


def _parse_new_table_name(cursor: TokenCursor, resolver: NameResolver, table: Identifier) -> Identifier:
    parts = cursor.parse_name().parts
    # As in Spark, a bare name keeps the namespace of the table.
    return (*table[:-1], parts[0]) if len(parts) == 1 else resolver.resolve_new_table(parts)


def _parse_property_changes(cursor: TokenCursor, table: Identifier, word: str) -> statements.Statement:
    changes: dict[str, str | None] = {}
    if word == "SET":
        changes.update(cursor.parse_properties())
        return statements.SetProperties(table, changes)
    if_exists = cursor.accept("IF", "EXISTS")
    changes.update(dict.fromkeys(cursor.parse_list(cursor.parse_property_key)))
    return statements.SetProperties(table, changes, if_exists)


def _parse_drop_columns(cursor: TokenCursor, table: Identifier) -> statements.Statement:
    cursor.expect_one("COLUMNS", "COLUMN")
    if_exists = cursor.accept("IF", "EXISTS")
    closing = cursor.accept("(")
    names = [cursor.parse_name().parts]
    while cursor.accept(","):
        names.append(cursor.parse_name().parts)
    if closing:
        cursor.expect(")")
    return statements.DropColumns(table, tuple(names), if_exists)


def _parse_alter_column(cursor: TokenCursor, table: Identifier) -> statements.Statement:
    cursor.accept("COLUMN")
    column = cursor.parse_name().parts
    if cursor.accept("TYPE"):
        return statements.AlterColumn(table, column, type=_parse_column_type(cursor, column[-1]))
    if cursor.accept("SET", "NOT", "NULL"):
        return statements.AlterColumn(table, column, nullable=False)
    if cursor.accept("DROP", "NOT", "NULL"):
        return statements.AlterColumn(table, column, nullable=True)
    raise cursor.syntax_error("expected TYPE, SET NOT NULL or DROP NOT NULL")


def _parse_columns(cursor: TokenCursor) -> tuple[statements.ColumnDefinition, ...]:
    cursor.expect("(")
    columns = _parse_column_list(cursor)
    cursor.expect(")")
    return columns


def _parse_column_list(cursor: TokenCursor) -> tuple[statements.ColumnDefinition, ...]:
    columns = [_parse_column(cursor)]
    while cursor.accept(","):
        columns.append(_parse_column(cursor))
    return tuple(columns)


def _parse_column(cursor: TokenCursor) -> statements.ColumnDefinition:
    name = cursor.parse_part()
    column = _parse_column_type(cursor, name)
    nullable, comment = True, None
    while True:
        if cursor.accept("NOT", "NULL"):
            nullable = False
        elif cursor.accept("COMMENT"):
            comment = cursor.parse_string()
        else:
            break
    if cursor.peek("DEFAULT") or cursor.peek("GENERATED") or cursor.peek("FIRST") or cursor.peek("AFTER"):
        raise cursor.syntax_error("columns cannot have DEFAULT or GENERATED, and new columns always come last")
    return statements.ColumnDefinition(name, column.type, nullable, comment, column.width)


def _parse_column_type(cursor: TokenCursor, name: str) -> statements.ColumnDefinition:
    """Parse a type of Spark, VECTOR(width) or VECTOR(type, width)."""
    if cursor.accept("VECTOR"):
        cursor.expect("(")
        kind = "FLOAT"
        if cursor.token is not None and cursor.token.token_type is not TokenType.NUMBER:
            kind = cursor.parse_part().upper()
            cursor.expect(",")
        width = cursor.parse_integer()
        cursor.expect(")")
        return statements.ColumnDefinition(name, f"ARRAY<{kind}>", width=width)
    return statements.ColumnDefinition(name, _take_type(cursor))


def _take_type(cursor: TokenCursor) -> str:
    """Return the text of a type. Angle brackets nest like parentheses."""
    first = cursor.position
    depth = 0
    while not cursor.at_end:
        token = cursor.tokens[cursor.position]
        if depth == 0 and (
            token.text in {",", ")"} or any(cursor.peek(word) for word in ("NOT", "COMMENT", "DEFAULT", "GENERATED"))
        ):
            break
        if depth == 0 and (cursor.peek("FIRST") or cursor.peek("AFTER")):
            break
        depth += token.text.count("<") + token.text.count("(") - token.text.count(">") - token.text.count(")")
        cursor.position += 1
    if cursor.position == first:
        raise cursor.syntax_error("expected a type")
    return cursor.text[cursor.tokens[first].start : cursor.tokens[cursor.position - 1].end + 1]


def _begins_query(cursor: TokenCursor, at: int) -> bool:
    token = cursor.tokens[at] if at < len(cursor.tokens) else None
    return token is not None and token.text.upper() in {"SELECT", "WITH", "FROM", "VALUES", "TABLE", "("}
