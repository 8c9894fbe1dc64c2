"""Parse the statements that the catalog executes itself into calls of the functions that execute them.

The first words of a statement select its parser. Each parser resolves the name of its table or namespace before it
reads the rest. If the name belongs to Spark, Spark executes the whole statement. Queries, expressions and types stay
text: Spark parses them.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from sqlglot import Token, TokenType

from pennon.errors import InvalidInputError, UnsupportedOperationError
from pennon.spark.query.names import ForeignNameError
from pennon.spark.query.references import TimeTravel
from pennon.spark.statements import data, indexes, namespaces, show, tables
from pennon.spark.statements.assignments import Assignment, Target
from pennon.spark.statements.data import MergeClause
from pennon.spark.statements.ddl import ColumnDefinition
from pennon.spark.tokens import TokenCursor, is_word
from pennon.spark.types.column_text import TYPE_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from pennon.identifiers import Identifier
    from pennon.spark.lake import Lake
    from pennon.spark.lake_listing import ResultRows
    from pennon.spark.query.runner import QueryRunner

    StatementCall = partial[ResultRows]

_NAMESPACE = ("NAMESPACE", "DATABASE", "SCHEMA")
_NAMESPACES = ("NAMESPACES", "DATABASES", "SCHEMAS")
_PROVIDERS = {"LANCE", "PENNON"}
_NO_ALIAS = {"WHERE", "SET", "USING", "ON", "WHEN"}
_Column = TypeVar("_Column")


def parse_statement(text: str, tokens: list[Token], lake: Lake, runner: QueryRunner) -> StatementCall | None:
    """Return the call that executes a statement, or None for queries and others that only Spark executes.

    Raises ForeignNameError if the statement names an object of Spark. Raises InvalidInputError, with the position, if
    the statement cannot be parsed.
    """
    parser = _StatementParser(text, tokens, lake, runner)
    call = parser.parse()
    if call is not None:
        parser.expect_end()
    return call


class _StatementParser(TokenCursor):
    """Parses one statement."""

    def __init__(self, text: str, tokens: list[Token], lake: Lake, runner: QueryRunner) -> None:
        super().__init__(text, tokens)
        self._lake = lake
        self._address = lake.address
        self._runner = runner
        self._names = runner.names

    def parse(self) -> StatementCall | None:
        """Return the call that executes the statement, or None if only Spark executes it."""
        parsers: dict[str, Callable[[], StatementCall | None]] = {
            "SHOW": self._parse_show,
            "DESCRIBE": self._parse_describe,
            "DESC": self._parse_describe,
            "CREATE": self._parse_create,
            "REPLACE TABLE": lambda: self._parse_create_table(replace=True, must_exist=True),
            **{f"ALTER {word}": self._parse_alter_namespace for word in _NAMESPACE},
            "ALTER TABLE": self._parse_alter_table,
            **{f"DROP {word}": self._parse_drop_namespace for word in _NAMESPACE},
            "DROP TABLE": self._parse_drop_table,
            "DROP INDEX": self._parse_drop_index,
            "UNDROP": self._parse_undrop,
            "PURGE": self._parse_purge,
            "OPTIMIZE": lambda: partial(indexes.optimize, self._lake, self._parse_table("TABLE")),
            "VACUUM": self._parse_vacuum,
            "RESTORE": self._parse_restore,
            "CACHE": self._parse_cache_table,
            "TRUNCATE TABLE": self._parse_truncate,
            "INSERT": self._parse_insert,
            "MERGE": self._parse_merge,
            "UPDATE": self._parse_update,
            "DELETE": self._parse_delete,
        }
        return next((parse for words, parse in parsers.items() if self.accept(*words.split())), self._parse_with)()

    # Names and clauses that several statements have

    def _parse_table(self, *optional: str) -> Identifier:
        """Parse the name of an existing table, which the `optional` word may precede."""
        self.accept(*optional)
        return self._names.resolve_table(self.parse_name())

    def _parse_namespace(self) -> Identifier:
        return self._names.resolve_namespace(self.parse_name())

    def _parse_target(self) -> Target:
        """Parse the name of the table to change, and its alias."""
        parts = self.parse_name()
        return Target(self._names.resolve_table(parts), parts, self._parse_alias())

    def _parse_alias(self) -> str | None:
        if self.accept("AS"):
            return self.parse_part()
        token = self.token
        if token is None or not is_word(token) or any(self.peek(word) for word in _NO_ALIAS):
            return None
        return self.parse_part()

    def _parse_in_namespace(self) -> Identifier:
        """Parse `IN namespace`. The root namespace is the default."""
        return self._parse_namespace() if self.accept_one("IN", "FROM") else ()

    def _parse_pattern(self) -> str | None:
        return self.parse_string() if self.accept("LIKE") else self.parse_optional_string()

    def _parse_deletion_id(self) -> str | None:
        return self.parse_string() if self.accept("WITH", "ID") else None

    def _parse_travel(self) -> TimeTravel | None:
        kind = self.accept_one("VERSION", "TIMESTAMP") if self.position + 1 < len(self.tokens) else None
        if kind is None:
            return None
        self.expect("AS", "OF")
        return TimeTravel(kind.lower(), self.take_until())

    def _parse_property_changes(self, word: str) -> tuple[dict[str, str | None], bool]:
        """Parse what follows SET or UNSET PROPERTIES: the changes, and whether properties may be missing."""
        if word == "SET":
            return {**self.parse_properties()}, True
        if_exists = self.accept("IF", "EXISTS")
        return dict.fromkeys(self.parse_list(self.parse_property_key)), if_exists

    def _begins_query(self, offset: int = 0) -> bool:
        position = self.position + offset
        if position >= len(self.tokens) or self.tokens[position].token_type is TokenType.IDENTIFIER:
            return False
        word = self.tokens[position].text.upper()
        # After a parenthesis, MAP is a column.
        return word in {"SELECT", "WITH", "FROM", "VALUES", "TABLE", "("} or (word == "MAP" and offset == 0)

    def _has_column_list(self) -> bool:
        """Return True if names with commas between them come next, in parentheses."""
        first = self.position
        try:
            self.parse_list(self.parse_part)
        except InvalidInputError:
            return False
        finally:
            self.position = first
        return True

    def _has_column_definitions(self) -> bool:
        """Return True if columns with types of Spark come next, in parentheses, although the first may be a keyword."""
        first = self.position
        try:
            columns = self.parse_list(self._parse_column)
        except InvalidInputError:
            return False
        finally:
            self.position = first
        return all(re.split(r"\W", one.type, maxsplit=1)[0].lower() in TYPE_NAMES for one in columns)

    # SHOW and DESCRIBE

    def _parse_show(self) -> StatementCall | None:
        if self.accept_one(*_NAMESPACES):
            return partial(show.show_namespaces, self._address, self._parse_in_namespace(), self._parse_pattern())
        if self.accept("TABLES"):
            list_tables = show.show_dropped_tables if self.accept("DROPPED") else show.show_tables
            return partial(list_tables, self._address, self._parse_in_namespace(), self._parse_pattern())
        if self.accept("CREATE", "TABLE"):
            return partial(show.show_create_table, self._address, self._parse_table())
        if self.accept("TBLPROPERTIES"):
            table = self._parse_table()
            key = None
            if self.accept("("):
                key = self.parse_property_key()
                self.expect(")")
            return partial(show.show_properties, self._address, table, key)
        if self.accept("COLUMNS"):
            self.expect_one("IN", "FROM")
            parts = self.parse_name()
            if self.accept_one("IN", "FROM"):
                parts = (*self.parse_name(), parts[-1])
            return partial(show.show_columns, self._address, self._names.resolve_table(parts))
        subject = self.accept_one("INDEXES", "INDICES", "TAGS", "BRANCHES")
        if subject is not None and self.accept_one("ON", "IN", "FROM"):
            return partial(show.show_table_listing, self._address, subject, self._parse_table("TABLE"))
        return None

    def _parse_describe(self) -> StatementCall | None:
        if self.accept("HISTORY"):
            table = self._parse_table()
            limit = self.parse_integer() if self.accept("LIMIT") else None
            return partial(show.describe_history, self._address, table, limit)
        if self.accept_one(*_NAMESPACE):
            self.accept("EXTENDED")
            return partial(namespaces.describe_namespace, self._lake, self._parse_namespace())
        if any(self.peek(word) for word in ("FUNCTION", "QUERY", "SELECT", "WITH", "FROM", "VALUES", "(", "CATALOG")):
            return None
        self.accept("TABLE")
        extended = self.accept_one("EXTENDED", "FORMATTED") is not None
        table = self._parse_table()
        travel = self._parse_travel()
        column = None if self.at_end else self.parse_name()
        return partial(show.describe_table, self._lake, self._runner, table, column, travel, extended=extended)

    # Namespaces

    def _parse_create_namespace(self) -> StatementCall:
        if_not_exists = self.accept("IF", "NOT", "EXISTS")
        namespace = self._names.resolve_new_namespace(self.parse_name())
        properties: dict[str, str] = {}
        while not self.at_end:
            if self.accept("COMMENT"):
                properties["comment"] = self.parse_string()
            else:
                self.expect("WITH")
                self.expect_one("DBPROPERTIES", "PROPERTIES")
                properties |= self.parse_properties()
        return partial(namespaces.create_namespace, self._address, namespace, properties, if_not_exists=if_not_exists)

    def _parse_alter_namespace(self) -> StatementCall:
        namespace = self._parse_namespace()
        word = self.expect_one("SET", "UNSET")
        if self.accept("PROTECTION"):
            return partial(namespaces.protect_namespace, self._address, namespace, protected=word == "SET")
        self.expect_one("DBPROPERTIES", "PROPERTIES")
        return partial(namespaces.alter_namespace, self._address, namespace, self._parse_property_changes(word)[0])

    def _parse_drop_namespace(self) -> StatementCall:
        if_exists = self.accept("IF", "EXISTS")
        namespace = self._parse_namespace()
        cascade = self.accept_one("CASCADE", "RESTRICT") == "CASCADE"
        return partial(namespaces.drop_namespace, self._address, namespace, if_exists=if_exists, cascade=cascade)

    # Tables

    def _parse_create(self) -> StatementCall | None:
        if self.accept_one(*_NAMESPACE):
            return self._parse_create_namespace()
        replace = self.accept("OR", "REPLACE")
        if self.accept("TABLE"):
            return self._parse_create_table(replace=replace)
        if self.accept("INDEX"):
            return self._parse_create_index(replace=replace)
        return self._parse_create_view(replace=replace)

    def _parse_create_table(self, *, replace: bool, must_exist: bool = False) -> StatementCall:
        if_not_exists = self.accept("IF", "NOT", "EXISTS")
        table = self._names.resolve_new_table(self.parse_name())
        columns = None
        if self.peek("(") and (not self._begins_query(1) or self._has_column_definitions()):
            columns = self.parse_list(self._parse_column)
        properties = self._parse_table_clauses()
        query = self.take_rest() if self.accept("AS") or not self.at_end else None
        content = query or columns
        if content is None or (query and columns):
            raise self.syntax_error("a table needs either columns or a query after AS")
        if if_not_exists and replace:
            raise self.syntax_error("OR REPLACE and IF NOT EXISTS exclude each other")
        mode = "overwrite" if replace else "ignore" if if_not_exists else "create"
        return partial(
            tables.create_table, self._lake, self._runner, table, content, properties, mode=mode, must_exist=must_exist
        )

    def _parse_table_clauses(self) -> dict[str, str]:
        """Parse the clauses between the columns of a table and its query, and return the properties.

        Raises ForeignNameError if USING names a provider other than Lance: Spark creates that table.
        """
        properties: dict[str, str] = {}
        while not self.at_end:
            if self.accept("USING"):
                if self.parse_part().upper() not in _PROVIDERS:
                    raise ForeignNameError
            elif self.accept("COMMENT"):
                properties["comment"] = self.parse_string()
            elif self.accept("TBLPROPERTIES"):
                properties |= self.parse_properties()
            elif any(self.peek(word) for word in ("PARTITIONED", "CLUSTERED", "CLUSTER")):
                raise self.syntax_error("Lance tables have no partitions; create an index instead")
            elif any(self.peek(word) for word in ("OPTIONS", "LOCATION", "LIKE")):
                raise self.syntax_error("OPTIONS, LOCATION and LIKE are not supported for tables of the catalog")
            else:
                break
        return properties

    def _parse_column(self) -> ColumnDefinition:
        column = self._parse_column_type(self.parse_part())
        nullable, comment = True, None
        while True:
            if self.accept("NOT", "NULL"):
                nullable = False
            elif self.accept("COMMENT"):
                comment = self.parse_string()
            else:
                break
        if any(self.peek(word) for word in ("DEFAULT", "GENERATED", "FIRST", "AFTER")):
            raise self.syntax_error("columns cannot have DEFAULT or GENERATED, and new columns always come last")
        return ColumnDefinition(column.name, column.type, nullable, comment, column.width)

    def _parse_column_type(self, name: str) -> ColumnDefinition:
        """Parse a type of Spark, VECTOR(width) or VECTOR(type, width)."""
        if not self.accept("VECTOR"):
            return ColumnDefinition(name, self._take_type())
        self.expect("(")
        element = "FLOAT"
        if self.token is not None and self.token.token_type is not TokenType.NUMBER:
            element = self.parse_part().upper()
            self.expect(",")
        width = self.parse_integer()
        self.expect(")")
        return ColumnDefinition(name, f"ARRAY<{element}>", width=width)

    def _take_type(self) -> str:
        """Return the text of a type. Angle brackets nest like parentheses."""
        first = self.position
        depth = 0
        ends = (",", ")", "NOT", "COMMENT", "DEFAULT", "GENERATED", "FIRST", "AFTER")
        while not self.at_end and (depth > 0 or not any(self.peek(end) for end in ends)):
            text = self.tokens[self.position].text
            depth += text.count("<") + text.count("(") - text.count(">") - text.count(")")
            self.position += 1
        if self.position == first:
            raise self.syntax_error("expected a type")
        return self.text_since(first)

    def _parse_drop_table(self) -> StatementCall:
        if_exists = self.accept("IF", "EXISTS")
        table = self._parse_table()
        return partial(tables.drop_table, self._address, table, if_exists=if_exists, purge=self.accept("PURGE"))

    def _parse_undrop(self) -> StatementCall:
        if self.accept_one(*_NAMESPACE):
            namespace = self._names.catalog_namespace(self.parse_name())
            return partial(namespaces.undrop_namespace, self._address, namespace, self._parse_deletion_id())
        self.accept("TABLE")
        table = self._names.catalog_table(self.parse_name())
        deletion_id = self._parse_deletion_id()
        new_name = None
        if self.accept("AS") or self.accept("RENAME", "TO"):
            new_name = self._names.resolve_new_table(self.parse_name())
        return partial(tables.undrop_table, self._address, table, deletion_id, new_name)

    def _parse_purge(self) -> StatementCall:
        if self.accept("TABLES"):
            before = self.take_until("FORCE", "DRY") if self.accept("DROPPED", "BEFORE") else None
            force, dry_run = self.accept("FORCE"), self.accept("DRY", "RUN")
            return partial(tables.purge_tables, self._address, self._runner, before, force=force, dry_run=dry_run)
        self.accept("TABLE")
        table = self._names.catalog_table(self.parse_name())
        deletion_id = self._parse_deletion_id()
        return partial(tables.purge_table, self._address, table, deletion_id, force=self.accept("FORCE"))

    def _parse_restore(self) -> StatementCall:
        table = self._parse_table("TABLE")
        self.expect("TO")
        travel = self._parse_travel()
        if travel is None:
            raise self.syntax_error("expected VERSION AS OF or TIMESTAMP AS OF")
        return partial(tables.restore_table, self._address, self._runner, table, travel)

    def _parse_alter_table(self) -> StatementCall:
        table = self._parse_table()
        if self.accept("RENAME", "TO"):
            parts = self.parse_name()
            # As in Spark, a bare name keeps the namespace of the table.
            new_name = (*table[:-1], parts[0]) if len(parts) == 1 else self._names.resolve_new_table(parts)
            return partial(tables.rename_table, self._address, table, new_name)
        if self.accept("RENAME", "COLUMN"):
            column = self.parse_name()
            self.expect("TO")
            return partial(tables.rename_column, self._address, table, column, self.parse_part())
        if self.accept("ADD"):
            self.accept_one("COLUMNS", "COLUMN")
            return partial(tables.add_columns, self._lake, table, self._parse_columns(self._parse_column))
        if self.accept("DROP"):
            self.expect_one("COLUMNS", "COLUMN")
            if_exists = self.accept("IF", "EXISTS")
            columns = self._parse_columns(self.parse_name)
            return partial(tables.drop_columns, self._address, table, columns, if_exists=if_exists)
        if self.accept_one("ALTER", "CHANGE"):
            return self._parse_alter_column(table)
        word = self.accept_one("SET", "UNSET")
        if word is not None and self.accept("PROTECTION"):
            return partial(tables.protect_table, self._address, table, protected=word == "SET")
        if word is not None and self.accept("TBLPROPERTIES"):
            changes, if_exists = self._parse_property_changes(word)
            return partial(tables.change_properties, self._address, table, changes, if_exists=if_exists)
        raise self.syntax_error(
            "expected RENAME TO, RENAME COLUMN, ADD COLUMNS, DROP COLUMNS, ALTER COLUMN, SET or UNSET TBLPROPERTIES, "
            "SET or UNSET PROTECTION"
        )

    def _parse_columns(self, parse_column: Callable[[], _Column]) -> list[_Column]:
        """Parse columns, with or without parentheses around them."""
        return self.parse_list(parse_column) if self.peek("(") else self.parse_items(parse_column)

    def _parse_alter_column(self, table: Identifier) -> StatementCall:
        self.accept("COLUMN")
        column = self.parse_name()
        if self.accept("TYPE"):
            definition = self._parse_column_type(column[-1])
            return partial(tables.change_column_type, self._lake, table, column, definition)
        word = self.accept_one("SET", "DROP")
        if word is not None and self.accept("NOT", "NULL"):
            return partial(tables.change_nullability, self._address, table, column, nullable=word == "DROP")
        raise self.syntax_error("expected TYPE, SET NOT NULL or DROP NOT NULL")

    # Indexes and maintenance

    def _parse_create_index(self, *, replace: bool) -> StatementCall:
        if_not_exists = self.accept("IF", "NOT", "EXISTS")
        name = None if self.peek("ON") else self.parse_part()
        self.expect("ON")
        table = self._parse_table("TABLE")
        kind = self.parse_part() if self.accept("USING") else None
        columns = self.parse_list(lambda: ".".join(self.parse_name()))
        if kind is None and self.accept("USING"):
            kind = self.parse_part()
        options = self.parse_properties() if self.accept_one("OPTIONS", "WITH") else {}
        create = partial(indexes.create_index, self._lake, table, columns, name=name, kind=kind, options=options)
        return partial(create, if_not_exists=if_not_exists, replace=replace)

    def _parse_drop_index(self) -> StatementCall:
        if_exists = self.accept("IF", "EXISTS")
        name = self.parse_part()
        self.expect("ON")
        return partial(indexes.drop_index, self._address, self._parse_table("TABLE"), name, if_exists=if_exists)

    def _parse_vacuum(self) -> StatementCall:
        table = self._parse_table("TABLE")
        hours = None
        if self.accept("RETAIN"):
            number = self.parse_value()
            try:
                hours = float(number)
            except ValueError:
                raise self.syntax_error(f"{number!r} is not a number of hours") from None
            self.expect_one("HOURS", "HOUR")
        return partial(indexes.vacuum, self._lake, table, hours, dry_run=self.accept("DRY", "RUN"))

    # Data

    def _parse_with(self) -> StatementCall | None:
        """Parse a WITH clause that INSERT follows, or return None if a query follows."""
        if not self.peek("WITH"):
            return None
        clause = self.take_until("INSERT", "SELECT", "FROM", "VALUES", "MERGE", "UPDATE", "DELETE")
        return self._parse_insert(f"{clause} ") if self.accept("INSERT") else None

    def _parse_insert(self, with_clause: str = "") -> StatementCall:
        """Parse the rest of INSERT. `with_clause` is the WITH clause before INSERT; it becomes part of the query."""
        evolve = self.accept("WITH", "SCHEMA", "EVOLUTION")
        overwrite = self.expect_one("INTO", "OVERWRITE") == "OVERWRITE"
        if overwrite and (self.peek("LOCAL", "DIRECTORY") or self.peek("DIRECTORY")):
            raise ForeignNameError
        table = self._parse_table("TABLE")
        if self.peek("PARTITION"):
            raise self.syntax_error("tables of the catalog have no partitions; remove PARTITION")
        if self.peek("REPLACE") or self.peek("IF"):
            raise self.syntax_error("INSERT with REPLACE or IF is not supported for tables of the catalog")
        columns = None
        by_name = self.accept("BY", "NAME")
        if not by_name and (self._has_column_list() or (self.peek("(") and not self._begins_query(1))):
            columns = self.parse_list(self.parse_part)
        by_name = by_name or self.accept("BY", "NAME")
        if not self._begins_query():
            raise self.syntax_error("expected a query or VALUES")
        query = with_clause + self.take_rest()
        insert = partial(data.insert, self._lake, self._runner, table, query, columns)
        return partial(insert, overwrite=overwrite, by_name=by_name, evolve=evolve)

    def _parse_update(self) -> StatementCall:
        target = self._parse_target()
        self.expect("SET")
        assignments = self._parse_assignments("WHERE")
        return partial(data.update, self._lake, self._runner, target, assignments, self._parse_where())

    def _parse_delete(self) -> StatementCall:
        self.expect("FROM")
        return partial(data.delete, self._lake, self._runner, self._parse_target(), self._parse_where())

    def _parse_truncate(self) -> StatementCall:
        parts = self.parse_name()
        return partial(data.delete, self._lake, self._runner, Target(self._names.resolve_table(parts), parts), None)

    def _parse_where(self) -> str | None:
        return self.take_rest() if self.accept("WHERE") else None

    def _parse_assignments(self, stop: str) -> tuple[Assignment, ...]:
        def parse_assignment() -> Assignment:
            column = self.parse_name()
            self.expect("=")
            return Assignment(column, self.take_until(",", stop))

        return tuple(self.parse_items(parse_assignment))

    def _parse_merge(self) -> StatementCall:
        evolve = self.accept("WITH", "SCHEMA", "EVOLUTION")
        self.expect("INTO")
        target = self._parse_target()
        self.expect("USING")
        source, source_name = self._parse_merge_source()
        self.expect("ON")
        on = self.take_until("WHEN")
        if self.at_end:
            raise self.syntax_error("expected WHEN")
        when = []
        while not self.at_end:
            when.append(self._parse_merge_clause())
        merge = partial(data.merge_into, self._lake, self._runner, target, source, source_name=source_name)
        return partial(merge, on=on, when=when, evolve=evolve)

    def _parse_merge_source(self) -> tuple[str, str | None]:
        """Return the source of a merge as a query, and the name of the source in conditions."""
        first = self.position
        name = None
        if self.accept("("):
            self.take_until()
            self.expect(")")
        else:
            name = self.parse_name()[-1]
            if self.accept("VERSION", "AS", "OF"):
                self.parse_value()
            elif self.accept("TIMESTAMP", "AS", "OF"):
                self.take_until("ON", "AS")
            if self.peek("("):
                raise UnsupportedOperationError(
                    "The source of MERGE must be a table or a query in parentheses, not a function"
                )
        query = f"SELECT * FROM {self.text_since(first)}"  # noqa: S608 - the user wrote the text
        return query, self._parse_alias() or name

    def _parse_merge_clause(self) -> MergeClause:
        self.expect("WHEN")
        match = "matched"
        if self.accept("NOT", "MATCHED"):
            match = "missing"
            if self.accept("BY"):
                match = "extra" if self.expect_one("SOURCE", "TARGET") == "SOURCE" else "missing"
        else:
            self.expect("MATCHED")
        condition = self.take_until("THEN") if self.accept("AND") else None
        self.expect("THEN")
        if match == "missing":
            self.expect("INSERT")
            return MergeClause(match, "insert", condition, self._parse_inserted_values())
        if self.accept("DELETE"):
            return MergeClause(match, "delete", condition)
        self.expect("UPDATE", "SET")
        if not self.accept("*"):
            return MergeClause(match, "update", condition, self._parse_assignments("WHEN"))
        if match == "extra":
            raise self.syntax_error("UPDATE SET * needs a row of the source, and NOT MATCHED BY SOURCE has none")
        return MergeClause(match, "update", condition, None)

    def _parse_inserted_values(self) -> tuple[Assignment, ...] | None:
        if self.accept("*"):
            return None
        columns = self.parse_list(self.parse_part)
        self.expect("VALUES")
        values = self.parse_list(lambda: self.take_until(","))
        if len(columns) != len(values):
            raise self.syntax_error(f"INSERT has {len(columns)} columns but {len(values)} values")
        return tuple(Assignment((column,), value) for column, value in zip(columns, values, strict=True))

    # Temporary views

    def _parse_create_view(self, *, replace: bool) -> StatementCall | None:
        """Parse the rest of CREATE TEMPORARY VIEW, or return None if Spark creates the view."""
        is_global = self.accept("GLOBAL")
        if not self.accept_one("TEMPORARY", "TEMP") or not self.accept("VIEW") or self.accept("IF", "NOT", "EXISTS"):
            return None
        parts = self.parse_name()
        columns = None
        if self.peek("("):
            if any(token.text.upper() == "COMMENT" for token in self.tokens[self.position :]):
                return None
            columns = self.parse_list(self.parse_part)
        if len(parts) != 1 or not self.accept("AS"):
            return None
        create = partial(data.create_temp_view, self._lake, self._runner, parts[0], query=self.take_rest())
        return partial(create, columns=columns, replace=replace, is_global=is_global)

    def _parse_cache_table(self) -> StatementCall | None:
        """Parse the rest of CACHE TABLE name AS query, or return None if no query follows the name."""
        if self.accept("LAZY") or not self.accept("TABLE"):
            return None
        parts = self.parse_name()
        self.accept("AS")
        if len(parts) != 1 or not self._begins_query():
            return None
        return partial(data.create_temp_view, self._lake, self._runner, parts[0], query=self.take_rest(), cache=True)
