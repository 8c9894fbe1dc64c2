"""Parse the statements that the catalog executes itself.

The first words of a statement select its parser. Each parser resolves the name of its table or namespace before it
reads the rest. If the name belongs to Spark, Spark executes the whole statement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.spark.query.references import TimeTravel
from pennon.spark.sql import data_grammar, statements, table_grammar
from pennon.spark.tokens import TokenCursor

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlglot import Token

    from pennon.identifiers import Identifier
    from pennon.spark.query.names import NameResolver

_NAMESPACE = ("NAMESPACE", "DATABASE", "SCHEMA")
_NAMESPACES = ("NAMESPACES", "DATABASES", "SCHEMAS")


def parse_statement(text: str, tokens: list[Token], resolver: NameResolver) -> statements.Statement | None:
    """Return the parsed statement, or None for queries and other statements that only Spark executes.

    Raises ForeignNameError if the statement names an object of Spark. Raises InvalidInputError, with the position, if
    the statement cannot be parsed.
    """
    cursor = TokenCursor(text, tokens)
    parse = next((parse for words, parse in _STATEMENTS if cursor.accept(*words)), data_grammar.parse_with)
    statement = parse(cursor, resolver)
    if statement is not None:
        cursor.expect_end()
    return statement


def _parse_show(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement | None:
    if cursor.accept_one(*_NAMESPACES):
        return statements.ShowNamespaces(_parse_in_namespace(cursor, resolver), _parse_pattern(cursor))
    if cursor.accept("TABLES", "DROPPED"):
        return statements.ShowTables(_parse_in_namespace(cursor, resolver), _parse_pattern(cursor), dropped=True)
    if cursor.accept("TABLES"):
        return statements.ShowTables(_parse_in_namespace(cursor, resolver), _parse_pattern(cursor))
    if cursor.accept("CREATE", "TABLE"):
        return statements.ShowTableDetail("CREATE TABLE", resolver.resolve_table(cursor.parse_name().parts))
    if cursor.accept("TBLPROPERTIES"):
        table = resolver.resolve_table(cursor.parse_name().parts)
        key = None
        if cursor.accept("("):
            key = cursor.parse_property_key()
            cursor.expect(")")
        return statements.ShowTableDetail("TBLPROPERTIES", table, key)
    if cursor.accept("COLUMNS"):
        return _parse_show_columns(cursor, resolver)
    what = cursor.accept_one("INDEXES", "INDICES", "TAGS", "BRANCHES")
    if what is not None and cursor.accept_one("ON", "IN", "FROM"):
        cursor.accept("TABLE")
        table = resolver.resolve_table(cursor.parse_name().parts)
        return statements.ShowTableDetail("INDEXES" if what == "INDICES" else what, table)
    return None


def _parse_show_columns(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement:
    cursor.expect_one("IN", "FROM")
    parts = cursor.parse_name().parts
    if cursor.accept_one("IN", "FROM"):
        parts = (*cursor.parse_name().parts, parts[-1])
    return statements.ShowTableDetail("COLUMNS", resolver.resolve_table(parts))


def _parse_describe(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement | None:
    if cursor.accept("HISTORY"):
        table = resolver.resolve_table(cursor.parse_name().parts)
        limit = cursor.parse_integer() if cursor.accept("LIMIT") else None
        return statements.DescribeHistory(table, limit)
    if cursor.accept_one(*_NAMESPACE):
        cursor.accept("EXTENDED")
        return statements.DescribeNamespace(resolver.resolve_namespace(cursor.parse_name().parts))
    if any(cursor.peek(word) for word in ("FUNCTION", "QUERY", "SELECT", "WITH", "FROM", "VALUES", "(", "CATALOG")):
        return None
    cursor.accept("TABLE")
    extended = cursor.accept_one("EXTENDED", "FORMATTED") is not None
    table = resolver.resolve_table(cursor.parse_name().parts)
    travel = _parse_travel(cursor)
    column = None if cursor.at_end else cursor.parse_name().parts
    return statements.DescribeTable(table, extended, column, travel)


def _parse_create(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement | None:
    if cursor.accept_one(*_NAMESPACE):
        return _parse_create_namespace(cursor, resolver)
    if cursor.accept("OR", "REPLACE"):
        if cursor.accept("TABLE"):
            return table_grammar.parse_create_table(cursor, resolver, replace=True)
        if cursor.accept("INDEX"):
            return table_grammar.parse_create_index(cursor, resolver, replace=True)
        return data_grammar.parse_create_view(cursor, replace=True)
    if cursor.accept("TABLE"):
        return table_grammar.parse_create_table(cursor, resolver)
    if cursor.accept("INDEX"):
        return table_grammar.parse_create_index(cursor, resolver)
    return data_grammar.parse_create_view(cursor, replace=False)


def _parse_replace(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement:
    return table_grammar.parse_create_table(cursor, resolver, replace=True, must_exist=True)


def _parse_create_namespace(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    namespace = resolver.resolve_new_namespace(cursor.parse_name().parts)
    properties: dict[str, str] = {}
    while not cursor.at_end:
        if cursor.accept("COMMENT"):
            properties["comment"] = cursor.parse_string()
        else:
            cursor.expect("WITH")
            cursor.expect_one("DBPROPERTIES", "PROPERTIES")
            properties |= cursor.parse_properties()
    return statements.CreateNamespace(namespace, if_not_exists, properties)


def _parse_alter_namespace(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement:
    namespace = resolver.resolve_namespace(cursor.parse_name().parts)
    word = cursor.expect_one("SET", "UNSET")
    if cursor.accept("PROTECTION"):
        return statements.SetProtection(namespace, word == "SET", is_table=False)
    cursor.expect_one("DBPROPERTIES", "PROPERTIES")
    changes: dict[str, str | None] = {}
    if word == "SET":
        changes.update(cursor.parse_properties())
    else:
        cursor.accept("IF", "EXISTS")
        changes.update(dict.fromkeys(cursor.parse_list(cursor.parse_property_key)))
    return statements.AlterNamespace(namespace, changes)


def _parse_drop_namespace(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement:
    if_exists = cursor.accept("IF", "EXISTS")
    namespace = resolver.resolve_namespace(cursor.parse_name().parts)
    cascade = cursor.accept_one("CASCADE", "RESTRICT") == "CASCADE"
    return statements.DropNamespace(namespace, if_exists, cascade)


def _parse_drop_table(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement:
    if_exists = cursor.accept("IF", "EXISTS")
    table = resolver.resolve_table(cursor.parse_name().parts)
    return statements.DropTable(table, if_exists, cursor.accept("PURGE"))


def _parse_drop_index(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement:
    if_exists = cursor.accept("IF", "EXISTS")
    name = cursor.parse_part()
    cursor.expect("ON")
    cursor.accept("TABLE")
    return statements.DropIndex(resolver.resolve_table(cursor.parse_name().parts), name, if_exists)


def _parse_undrop(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement:
    if cursor.accept_one(*_NAMESPACE):
        namespace = resolver.catalog_namespace(cursor.parse_name().parts)
        return statements.UndropNamespace(namespace, _parse_deletion_id(cursor))
    cursor.accept("TABLE")
    table = resolver.catalog_table(cursor.parse_name().parts)
    deletion_id = _parse_deletion_id(cursor)
    new_name = None
    if cursor.accept("AS") or cursor.accept("RENAME", "TO"):
        new_name = resolver.resolve_new_table(cursor.parse_name().parts)
    return statements.UndropTable(table, deletion_id, new_name)


def _parse_purge(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement:
    if cursor.accept("TABLES"):
        before = None
        if cursor.accept("DROPPED", "BEFORE"):
            before = cursor.take_until("FORCE", "DRY")
        force = cursor.accept("FORCE")
        return statements.PurgeTables(before, force, cursor.accept("DRY", "RUN"))
    cursor.accept("TABLE")
    table = resolver.catalog_table(cursor.parse_name().parts)
    return statements.PurgeTable(table, _parse_deletion_id(cursor), cursor.accept("FORCE"))


def _parse_optimize(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement:
    cursor.accept("TABLE")
    return statements.Optimize(resolver.resolve_table(cursor.parse_name().parts))


def _parse_vacuum(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement:
    cursor.accept("TABLE")
    table = resolver.resolve_table(cursor.parse_name().parts)
    hours = None
    if cursor.accept("RETAIN"):
        number = cursor.parse_value()
        try:
            hours = float(number)
        except ValueError:
            raise cursor.syntax_error(f"{number!r} is not a number of hours") from None
        cursor.expect_one("HOURS", "HOUR")
    return statements.Vacuum(table, hours, cursor.accept("DRY", "RUN"))


def _parse_restore(cursor: TokenCursor, resolver: NameResolver) -> statements.Statement:
    cursor.accept("TABLE")
    table = resolver.resolve_table(cursor.parse_name().parts)
    cursor.expect("TO")
    travel = _parse_travel(cursor)
    if travel is None:
        raise cursor.syntax_error("expected VERSION AS OF or TIMESTAMP AS OF")
    return statements.RestoreTable(table, travel)


def _parse_in_namespace(cursor: TokenCursor, resolver: NameResolver) -> Identifier:
    """Return the namespace in `IN namespace`, or the root namespace if there is no IN."""
    return resolver.resolve_namespace(cursor.parse_name().parts) if cursor.accept_one("IN", "FROM") else ()


def _parse_pattern(cursor: TokenCursor) -> str | None:
    return cursor.parse_string() if cursor.accept("LIKE") else cursor.parse_optional_string()


def _parse_deletion_id(cursor: TokenCursor) -> str | None:
    return cursor.parse_string() if cursor.accept("WITH", "ID") else None


def _parse_travel(cursor: TokenCursor) -> TimeTravel | None:
    kind = cursor.accept_one("VERSION", "TIMESTAMP") if cursor.position + 1 < len(cursor.tokens) else None
    if kind is None:
        return None
    cursor.expect("AS", "OF")
    return TimeTravel(kind.lower(), cursor.take_until())


_STATEMENTS: list[tuple[tuple[str, ...], Callable[[TokenCursor, NameResolver], statements.Statement | None]]] = [
    (("SHOW",), _parse_show),
    (("DESCRIBE",), _parse_describe),
    (("DESC",), _parse_describe),
    (("CREATE",), _parse_create),
    (("REPLACE", "TABLE"), _parse_replace),
    *(((("ALTER", word), _parse_alter_namespace)) for word in _NAMESPACE),
    (("ALTER", "TABLE"), table_grammar.parse_alter_table),
    *((("DROP", word), _parse_drop_namespace) for word in _NAMESPACE),
    (("DROP", "TABLE"), _parse_drop_table),
    (("DROP", "INDEX"), _parse_drop_index),
    (("UNDROP",), _parse_undrop),
    (("PURGE",), _parse_purge),
    (("OPTIMIZE",), _parse_optimize),
    (("VACUUM",), _parse_vacuum),
    (("RESTORE",), _parse_restore),
    (("CACHE",), data_grammar.parse_cache_table),
    (("TRUNCATE", "TABLE"), data_grammar.parse_truncate),
    (("INSERT",), data_grammar.parse_insert),
    (("MERGE",), data_grammar.parse_merge),
    (("UPDATE",), data_grammar.parse_update),
    (("DELETE",), data_grammar.parse_delete),
]
