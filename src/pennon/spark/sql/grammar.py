"""Reading the catalog's own statements.

Each is recognised by its first words. As soon as the name that it is about is read, the owner of that name decides: a
statement about something of Spark's goes to Spark as it is, whatever else stands in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.spark.sql import data_grammar, table_grammar
from pennon.spark.sql import statements as made
from pennon.spark.sql.cursor import Cursor
from pennon.spark.sql.references import TimeTravel

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlglot import Token

    from pennon.identifiers import Identifier
    from pennon.spark.sql.ownership import Owner

_NAMESPACE = ("NAMESPACE", "DATABASE", "SCHEMA")
_NAMESPACES = ("NAMESPACES", "DATABASES", "SCHEMAS")


def parse(text: str, tokens: list[Token], owner: Owner) -> made.Statement | None:
    """Read a statement of the catalog's own; None for queries and all that only Spark knows.

    Raises ForeignNameError for a statement about something of Spark's, and InvalidInputError (13), with the position,
    for one that cannot be read.
    """
    cursor = Cursor(text, tokens)
    for words, read in _STATEMENTS:
        if cursor.takes(*words):
            return read(cursor, owner)
    return data_grammar.with_query(text, tokens, owner)


def _show(cursor: Cursor, owner: Owner) -> made.Statement | None:
    if cursor.takes_one(*_NAMESPACES):
        return made.ShowNamespaces(_in_namespace(cursor, owner), _pattern(cursor))
    if cursor.takes("TABLES", "DROPPED"):
        return made.ShowTables(_in_namespace(cursor, owner), _pattern(cursor), dropped=True)
    if cursor.takes("TABLES"):
        return made.ShowTables(_in_namespace(cursor, owner), _pattern(cursor))
    if cursor.takes("CREATE", "TABLE"):
        return _ended(cursor, made.ShowTable("CREATE TABLE", owner.table(cursor.name().parts)))
    if cursor.takes("TBLPROPERTIES"):
        table = owner.table(cursor.name().parts)
        key = None
        if cursor.takes("("):
            key = cursor.property_key()
            cursor.expect(")")
        return _ended(cursor, made.ShowTable("TBLPROPERTIES", table, key))
    if cursor.takes("COLUMNS"):
        return _show_columns(cursor, owner)
    what = cursor.takes_one("INDEXES", "INDICES", "TAGS", "BRANCHES")
    if what is not None and cursor.takes_one("ON", "IN", "FROM"):
        cursor.takes("TABLE")
        table = owner.table(cursor.name().parts)
        return _ended(cursor, made.ShowTable("INDEXES" if what == "INDICES" else what, table))
    return None


def _show_columns(cursor: Cursor, owner: Owner) -> made.Statement:
    cursor.expect_one("IN", "FROM")
    parts = cursor.name().parts
    if cursor.takes_one("IN", "FROM"):
        parts = (*cursor.name().parts, parts[-1])
    return _ended(cursor, made.ShowTable("COLUMNS", owner.table(parts)))


def _describe(cursor: Cursor, owner: Owner) -> made.Statement | None:
    if cursor.takes("HISTORY"):
        table = owner.table(cursor.name().parts)
        limit = cursor.whole_number() if cursor.takes("LIMIT") else None
        return _ended(cursor, made.DescribeHistory(table, limit))
    if cursor.takes_one(*_NAMESPACE):
        cursor.takes("EXTENDED")
        return _ended(cursor, made.DescribeNamespace(owner.namespace(cursor.name().parts)))
    if any(cursor.sees(word) for word in ("FUNCTION", "QUERY", "SELECT", "WITH", "FROM", "VALUES", "(", "CATALOG")):
        return None
    cursor.takes("TABLE")
    extended = cursor.takes_one("EXTENDED", "FORMATTED") is not None
    table = owner.table(cursor.name().parts)
    travel = _travel(cursor)
    column = None if cursor.ended else cursor.name().parts
    return _ended(cursor, made.DescribeTable(table, extended, column, travel))


def _create(cursor: Cursor, owner: Owner) -> made.Statement | None:
    if cursor.takes_one(*_NAMESPACE):
        return _create_namespace(cursor, owner)
    if cursor.takes("OR", "REPLACE"):
        if cursor.takes("TABLE"):
            return table_grammar.create_table(cursor, owner, replace=True)
        if cursor.takes("INDEX"):
            return table_grammar.create_index(cursor, owner, replace=True)
        return data_grammar.create_view(cursor, replace=True)
    if cursor.takes("TABLE"):
        return table_grammar.create_table(cursor, owner)
    if cursor.takes("INDEX"):
        return table_grammar.create_index(cursor, owner)
    return data_grammar.create_view(cursor, replace=False)


def _replace(cursor: Cursor, owner: Owner) -> made.Statement:
    return table_grammar.create_table(cursor, owner, replace=True, must_exist=True)


def _create_namespace(cursor: Cursor, owner: Owner) -> made.Statement:
    if_not_exists = cursor.takes("IF", "NOT", "EXISTS")
    namespace = owner.new_namespace(cursor.name().parts)
    properties: dict[str, str] = {}
    while not cursor.ended:
        if cursor.takes("COMMENT"):
            properties["comment"] = cursor.string()
        else:
            cursor.expect("WITH")
            cursor.expect_one("DBPROPERTIES", "PROPERTIES")
            properties |= cursor.properties()
    return made.CreateNamespace(namespace, if_not_exists, properties)


def _alter_namespace(cursor: Cursor, owner: Owner) -> made.Statement:
    namespace = owner.namespace(cursor.name().parts)
    word = cursor.expect_one("SET", "UNSET")
    if cursor.takes("PROTECTION"):
        return _ended(cursor, made.Protect(namespace, word == "SET", is_table=False))
    cursor.expect_one("DBPROPERTIES", "PROPERTIES")
    changes: dict[str, str | None] = {}
    if word == "SET":
        changes.update(cursor.properties())
    else:
        cursor.takes("IF", "EXISTS")
        changes.update(dict.fromkeys(cursor.list_of(cursor.property_key)))
    return _ended(cursor, made.AlterNamespace(namespace, changes))


def _drop_namespace(cursor: Cursor, owner: Owner) -> made.Statement:
    if_exists = cursor.takes("IF", "EXISTS")
    namespace = owner.namespace(cursor.name().parts)
    cascade = cursor.takes_one("CASCADE", "RESTRICT") == "CASCADE"
    return _ended(cursor, made.DropNamespace(namespace, if_exists, cascade))


def _drop_table(cursor: Cursor, owner: Owner) -> made.Statement:
    if_exists = cursor.takes("IF", "EXISTS")
    table = owner.table(cursor.name().parts)
    return _ended(cursor, made.DropTable(table, if_exists, cursor.takes("PURGE")))


def _drop_index(cursor: Cursor, owner: Owner) -> made.Statement:
    if_exists = cursor.takes("IF", "EXISTS")
    name = cursor.part()
    cursor.expect("ON")
    cursor.takes("TABLE")
    return _ended(cursor, made.DropIndex(owner.table(cursor.name().parts), name, if_exists))


def _undrop(cursor: Cursor, owner: Owner) -> made.Statement:
    if cursor.takes_one(*_NAMESPACE):
        namespace = owner.own_namespace(cursor.name().parts)
        return _ended(cursor, made.UndropNamespace(namespace, _deletion(cursor)))
    cursor.takes("TABLE")
    table = owner.own(cursor.name().parts)
    deletion = _deletion(cursor)
    renamed = None
    if cursor.takes("AS") or cursor.takes("RENAME", "TO"):
        renamed = owner.new_table(cursor.name().parts)
    return _ended(cursor, made.UndropTable(table, deletion, renamed))


def _purge(cursor: Cursor, owner: Owner) -> made.Statement:
    if cursor.takes("TABLES"):
        before = None
        if cursor.takes("DROPPED", "BEFORE"):
            before = cursor.span("FORCE", "DRY")
        force = cursor.takes("FORCE")
        return _ended(cursor, made.PurgeTables(before, force, cursor.takes("DRY", "RUN")))
    cursor.takes("TABLE")
    table = owner.own(cursor.name().parts)
    return _ended(cursor, made.PurgeTable(table, _deletion(cursor), cursor.takes("FORCE")))


def _optimize(cursor: Cursor, owner: Owner) -> made.Statement:
    cursor.takes("TABLE")
    return _ended(cursor, made.Optimize(owner.table(cursor.name().parts)))


def _vacuum(cursor: Cursor, owner: Owner) -> made.Statement:
    cursor.takes("TABLE")
    table = owner.table(cursor.name().parts)
    hours = None
    if cursor.takes("RETAIN"):
        number = cursor.value()
        try:
            hours = float(number)
        except ValueError:
            raise cursor.fault(f"{number!r} is no number of hours") from None
        cursor.expect_one("HOURS", "HOUR")
    return _ended(cursor, made.Vacuum(table, hours, cursor.takes("DRY", "RUN")))


def _restore(cursor: Cursor, owner: Owner) -> made.Statement:
    cursor.takes("TABLE")
    table = owner.table(cursor.name().parts)
    cursor.expect("TO")
    travel = _travel(cursor)
    if travel is None:
        raise cursor.fault("expected VERSION AS OF or TIMESTAMP AS OF")
    return _ended(cursor, made.Restore(table, travel))


def _in_namespace(cursor: Cursor, owner: Owner) -> Identifier:
    """Read `IN namespace`; without it, the root of the catalog is meant."""
    return owner.namespace(cursor.name().parts) if cursor.takes_one("IN", "FROM") else ()


def _pattern(cursor: Cursor) -> str | None:
    pattern = cursor.string() if cursor.takes("LIKE") else cursor.optional_string()
    cursor.expect_end()
    return pattern


def _deletion(cursor: Cursor) -> str | None:
    return cursor.string() if cursor.takes("WITH", "ID") else None


def _travel(cursor: Cursor) -> TimeTravel | None:
    kind = cursor.takes_one("VERSION", "TIMESTAMP") if cursor.at + 1 < len(cursor.tokens) else None
    if kind is None:
        return None
    cursor.expect("AS", "OF")
    return TimeTravel(kind.lower(), cursor.span())


def _ended(cursor: Cursor, statement: made.Statement) -> made.Statement:
    cursor.expect_end()
    return statement


_STATEMENTS: list[tuple[tuple[str, ...], Callable[[Cursor, Owner], made.Statement | None]]] = [
    (("SHOW",), _show),
    (("DESCRIBE",), _describe),
    (("DESC",), _describe),
    (("CREATE",), _create),
    (("REPLACE", "TABLE"), _replace),
    *(((("ALTER", word), _alter_namespace)) for word in _NAMESPACE),
    (("ALTER", "TABLE"), table_grammar.alter_table),
    *((("DROP", word), _drop_namespace) for word in _NAMESPACE),
    (("DROP", "TABLE"), _drop_table),
    (("DROP", "INDEX"), _drop_index),
    (("UNDROP",), _undrop),
    (("PURGE",), _purge),
    (("OPTIMIZE",), _optimize),
    (("VACUUM",), _vacuum),
    (("RESTORE",), _restore),
    (("CACHE",), data_grammar.cache),
    (("TRUNCATE", "TABLE"), data_grammar.truncate),
    (("INSERT",), data_grammar.insert),
    (("MERGE",), data_grammar.merge),
    (("UPDATE",), data_grammar.update),
    (("DELETE",), data_grammar.delete),
]
