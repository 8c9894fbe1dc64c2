"""Reading CREATE TABLE, ALTER TABLE and CREATE INDEX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import TokenType

from pennon.spark.sql import statements as made
from pennon.spark.sql.ownership import ForeignNameError

if TYPE_CHECKING:
    from pennon.identifiers import Identifier
    from pennon.spark.sql.cursor import Cursor
    from pennon.spark.sql.ownership import Owner

_PROVIDERS = {"LANCE", "PENNON"}


def create_table(cursor: Cursor, owner: Owner, *, replace: bool = False, must_exist: bool = False) -> made.Statement:
    """Read what follows CREATE TABLE; another provider than Lance makes it Spark's."""
    if_not_exists = cursor.takes("IF", "NOT", "EXISTS")
    table = owner.new_table(cursor.name().parts)
    columns = None
    if cursor.sees("(") and not _is_query(cursor, cursor.at + 1):
        columns = _columns(cursor)
    properties = _table_options(cursor)
    query = None
    if not cursor.ended:
        cursor.takes("AS")
        query = cursor.rest()
    if (columns is None) == (query is None):
        raise cursor.fault("a table is made of columns, or of AS and a query")
    if if_not_exists and replace:
        raise cursor.fault("OR REPLACE and IF NOT EXISTS contradict each other")
    return made.CreateTable(table, columns, query, if_not_exists, replace, must_exist, properties)


def _table_options(cursor: Cursor) -> dict[str, str]:
    """Read what may stand between the columns of a table and its query."""
    properties: dict[str, str] = {}
    while not cursor.ended:
        if cursor.takes("USING"):
            if cursor.part().upper() not in _PROVIDERS:
                raise ForeignNameError
        elif cursor.takes("COMMENT"):
            properties["comment"] = cursor.string()
        elif cursor.takes("TBLPROPERTIES"):
            properties |= cursor.properties()
        elif any(cursor.sees(word) for word in ("PARTITIONED", "CLUSTERED", "CLUSTER")):
            raise cursor.fault("Lance tables have no partitions; an index finds rows")
        elif any(cursor.sees(word) for word in ("OPTIONS", "LOCATION", "LIKE")):
            raise cursor.fault("this is not supported for tables of the catalog")
        else:
            break
    return properties


def alter_table(cursor: Cursor, owner: Owner) -> made.Statement:
    """Read what follows ALTER TABLE."""
    table = owner.table(cursor.name().parts)
    if cursor.takes("RENAME", "TO"):
        return _ended(cursor, made.RenameTable(table, _renamed(cursor, owner, table)))
    if cursor.takes("RENAME", "COLUMN"):
        column = cursor.name().parts
        cursor.expect("TO")
        return _ended(cursor, made.AlterColumn(table, column, renamed=cursor.part()))
    if cursor.takes_one("ADD"):
        cursor.takes_one("COLUMNS", "COLUMN")
        columns = _columns(cursor) if cursor.sees("(") else _column_list(cursor)
        return _ended(cursor, made.AddColumns(table, columns))
    if cursor.takes("DROP"):
        return _drop_columns(cursor, table)
    if cursor.takes_one("ALTER", "CHANGE"):
        return _alter_column(cursor, table)
    word = cursor.takes_one("SET", "UNSET")
    if word is not None and cursor.takes("PROTECTION"):
        return _ended(cursor, made.Protect(table, word == "SET"))
    if word is not None and cursor.takes("TBLPROPERTIES"):
        return _properties(cursor, table, word)
    raise cursor.fault(
        "expected RENAME TO, RENAME COLUMN, ADD COLUMNS, DROP COLUMNS, ALTER COLUMN, SET or UNSET TBLPROPERTIES, "
        "SET or UNSET PROTECTION"
    )


def create_index(cursor: Cursor, owner: Owner, *, replace: bool = False) -> made.Statement:
    """Read what follows CREATE INDEX."""
    if_not_exists = cursor.takes("IF", "NOT", "EXISTS")
    name = None if cursor.sees("ON") else cursor.part()
    cursor.expect("ON")
    cursor.takes("TABLE")
    table = owner.table(cursor.name().parts)
    kind = cursor.part() if cursor.takes("USING") else None
    columns = cursor.list_of(lambda: ".".join(cursor.name().parts))
    if kind is None and cursor.takes("USING"):
        kind = cursor.part()
    options = cursor.properties() if cursor.takes_one("OPTIONS", "WITH") else {}
    statement = made.CreateIndex(table, tuple(columns), name, kind, if_not_exists, replace, options)
    return _ended(cursor, statement)


def _renamed(cursor: Cursor, owner: Owner, table: Identifier) -> Identifier:
    parts = cursor.name().parts
    # As in Spark, a bare name stays in the namespace of the table.
    return (*table[:-1], parts[0]) if len(parts) == 1 else owner.new_table(parts)


def _properties(cursor: Cursor, table: Identifier, word: str) -> made.Statement:
    changes: dict[str, str | None] = {}
    if word == "SET":
        changes.update(cursor.properties())
        return _ended(cursor, made.SetProperties(table, changes))
    if_exists = cursor.takes("IF", "EXISTS")
    changes.update(dict.fromkeys(cursor.list_of(cursor.property_key)))
    return _ended(cursor, made.SetProperties(table, changes, if_exists))


def _drop_columns(cursor: Cursor, table: Identifier) -> made.Statement:
    cursor.expect_one("COLUMNS", "COLUMN")
    if_exists = cursor.takes("IF", "EXISTS")
    closing = cursor.takes("(")
    names = [cursor.name().parts]
    while cursor.takes(","):
        names.append(cursor.name().parts)
    if closing:
        cursor.expect(")")
    return _ended(cursor, made.DropColumns(table, tuple(names), if_exists))


def _alter_column(cursor: Cursor, table: Identifier) -> made.Statement:
    cursor.takes("COLUMN")
    column = cursor.name().parts
    if cursor.takes("TYPE"):
        return _ended(cursor, made.AlterColumn(table, column, type=_typed(cursor, column[-1])))
    if cursor.takes("SET", "NOT", "NULL"):
        return _ended(cursor, made.AlterColumn(table, column, nullable=False))
    if cursor.takes("DROP", "NOT", "NULL"):
        return _ended(cursor, made.AlterColumn(table, column, nullable=True))
    raise cursor.fault("expected TYPE, SET NOT NULL or DROP NOT NULL")


def _columns(cursor: Cursor) -> tuple[made.Column, ...]:
    cursor.expect("(")
    found = _column_list(cursor)
    cursor.expect(")")
    return found


def _column_list(cursor: Cursor) -> tuple[made.Column, ...]:
    found = [_column(cursor)]
    while cursor.takes(","):
        found.append(_column(cursor))
    return tuple(found)


def _column(cursor: Cursor) -> made.Column:
    name = cursor.part()
    column = _typed(cursor, name)
    nullable, comment = True, None
    while True:
        if cursor.takes("NOT", "NULL"):
            nullable = False
        elif cursor.takes("COMMENT"):
            comment = cursor.string()
        else:
            break
    if cursor.sees("DEFAULT") or cursor.sees("GENERATED") or cursor.sees("FIRST") or cursor.sees("AFTER"):
        raise cursor.fault("columns of the catalog's tables have no defaults, and new ones come last")
    return made.Column(name, column.type, nullable, comment, column.width)


def _typed(cursor: Cursor, name: str) -> made.Column:
    """Read a type: one of Spark's, or VECTOR(width) or VECTOR(type, width)."""
    if cursor.takes("VECTOR"):
        cursor.expect("(")
        kind = "FLOAT"
        if cursor.token is not None and cursor.token.token_type is not TokenType.NUMBER:
            kind = cursor.part().upper()
            cursor.expect(",")
        width = cursor.whole_number()
        cursor.expect(")")
        return made.Column(name, f"ARRAY<{kind}>", width=width)
    return made.Column(name, _type_text(cursor))


def _type_text(cursor: Cursor) -> str:
    """Read the text of a type, whose angle brackets count as parentheses."""
    first = cursor.at
    depth = 0
    while not cursor.ended:
        token = cursor.tokens[cursor.at]
        if depth == 0 and (
            token.text in {",", ")"} or any(cursor.sees(word) for word in ("NOT", "COMMENT", "DEFAULT", "GENERATED"))
        ):
            break
        if depth == 0 and (cursor.sees("FIRST") or cursor.sees("AFTER")):
            break
        depth += token.text.count("<") + token.text.count("(") - token.text.count(">") - token.text.count(")")
        cursor.at += 1
    if cursor.at == first:
        raise cursor.fault("expected a type")
    return cursor.text[cursor.tokens[first].start : cursor.tokens[cursor.at - 1].end + 1]


def _is_query(cursor: Cursor, at: int) -> bool:
    token = cursor.tokens[at] if at < len(cursor.tokens) else None
    return token is not None and token.text.upper() in {"SELECT", "WITH", "FROM", "VALUES", "TABLE", "("}


def _ended(cursor: Cursor, statement: made.Statement) -> made.Statement:
    cursor.expect_end()
    return statement
