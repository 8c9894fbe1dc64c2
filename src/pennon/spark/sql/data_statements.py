"""Answering INSERT, UPDATE, DELETE and MERGE, each in one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.identifiers import format_identifier
from pennon.spark import types, writing
from pennon.spark.merging import clauses, merge, mutation
from pennon.spark.quoting import quote_name
from pennon.spark.reading.pinned import pin
from pennon.spark.sql.assignments import align_columns, build_assignments
from pennon.spark.sql.expressions import ExpressionRewriter
from pennon.spark.sql.references import fold_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql import types as spark_types

    from pennon.identifiers import Identifier
    from pennon.spark.lake import Lake
    from pennon.spark.sql import statements
    from pennon.spark.sql.query_runner import QueryRunner

_SOURCE = "__pennon_source"


def insert(lake: Lake, statement: statements.InsertInto, runner: QueryRunner) -> DataFrame:
    """Append the rows of a query, or put them in the place of those that are there.

    Columns are matched by position, unless BY NAME or a list of columns says otherwise; columns that get no value are
    null.
    """
    frame = runner.run_query(statement.query)
    schema = _spark_schema(lake, statement.table)
    if not statement.by_name:
        frame = _by_position(frame, statement, schema)
    mode = "overwrite" if statement.overwrite else "append"
    ready = align_columns(lake, statement.table, frame, schema, keep_others=statement.evolve)
    done = writing.write(lake, ready, statement.table, mode, merge_schema=statement.evolve and not statement.overwrite)
    return lake.spark.createDataFrame([(done.version, done.rows)], "version bigint, inserted bigint")


def update(lake: Lake, statement: statements.UpdateTable, runner: QueryRunner) -> DataFrame:
    """Set columns of the rows that meet a condition."""
    name = statement.name_parts[-1] if statement.alias is None else statement.alias
    schema = _spark_schema(lake, statement.table)
    with ExpressionRewriter(lake, runner, _relation(statement.name_parts, statement.alias)) as expressions:
        values = build_assignments(statement.table, statement.assignments, name, schema, expressions.rewrite)
        where = expressions.rewrite_optional(statement.where)
        done = mutation.update(lake, statement.table, values, where=where, alias=name)
    return lake.spark.createDataFrame([(done.version, done.rows)], "version bigint, updated bigint")


def delete(lake: Lake, statement: statements.DeleteFrom, runner: QueryRunner) -> DataFrame:
    """Delete the rows that meet a condition, or all."""
    name = statement.name_parts[-1] if statement.alias is None else statement.alias
    with ExpressionRewriter(lake, runner, _relation(statement.name_parts, statement.alias)) as expressions:
        where = expressions.rewrite_optional(statement.where) or "true"
        done = mutation.delete(lake, statement.table, where, alias=name)
    return lake.spark.createDataFrame([(done.version, done.rows)], "version bigint, deleted bigint")


def merge_into(lake: Lake, statement: statements.MergeInto, runner: QueryRunner) -> DataFrame:
    """Update, delete and insert rows by whether they match rows of a source."""
    target = statement.name_parts[-1] if statement.alias is None else statement.alias
    source = statement.source_name or _SOURCE
    frame = runner.run_query(statement.source)
    schema = _spark_schema(lake, statement.table)
    relations = f"{_relation(statement.name_parts, statement.alias)}, {quote_name(source)}"
    with ExpressionRewriter(lake, runner, relations) as expressions:
        read = _Clauses(statement, target, schema, expressions)
        done = merge.merge(
            lake,
            frame,
            statement.table,
            on_condition=expressions.rewrite(statement.on),
            when_matched=read.of("matched"),
            when_not_matched=read.of("missing"),
            when_not_matched_by_source=read.of("extra"),
            target_alias=target,
            source_alias=source,
            merge_schema=statement.evolve,
        )
    row = (done.version, done.inserted, done.updated, done.deleted)
    schema_text = "version bigint, inserted bigint, updated bigint, deleted bigint"
    return lake.spark.createDataFrame([row], schema_text)


def create_temp_view(lake: Lake, statement: statements.CreateTempView, runner: QueryRunner) -> DataFrame:
    """Give a name to a query; it goes on showing the versions of tables that it was made with."""
    frame = runner.run_query(statement.query)
    if statement.columns is not None:
        if len(statement.columns) != len(frame.columns):
            raise InvalidInputError(
                f"View {statement.name!r} names {len(statement.columns)} columns, but its query returns "
                f"{len(frame.columns)}"
            )
        frame = frame.toDF(*statement.columns)
    name = statement.name if statement.name.isidentifier() else quote_name(statement.name)
    if statement.is_global and statement.replace:
        frame.createOrReplaceGlobalTempView(name)
    elif statement.is_global:
        frame.createGlobalTempView(name)
    elif statement.replace:
        frame.createOrReplaceTempView(name)
    else:
        frame.createTempView(name)
    if statement.cache:
        lake.spark.catalog.cacheTable(name)
    return lake.spark.createDataFrame([(statement.name,)], "view string")


class _Clauses:
    """The clauses of a merge as `merge.merge` takes them."""

    def __init__(
        self,
        statement: statements.MergeInto,
        target: str,
        schema: spark_types.StructType,
        expressions: ExpressionRewriter,
    ) -> None:
        self._statement = statement
        self._target = target
        self._schema = schema
        self._expressions = expressions

    def of(self, match: str) -> Sequence[clauses.Clause] | None:
        """Give the clauses for one kind of row."""
        found = [self._clause(one) for one in self._statement.clauses if one.match == match]
        return found or None

    def _clause(self, given: statements.MergeClause) -> clauses.Clause:
        condition = self._expressions.rewrite_optional(given.condition)
        if given.action == "delete":
            return clauses.Delete(condition)
        values = None
        if given.assignments is not None:
            values = build_assignments(
                self._statement.table, given.assignments, self._target, self._schema, self._expressions.rewrite
            )
        return clauses.Insert(values, condition) if given.action == "insert" else clauses.Update(values, condition)


def _relation(parts: Sequence[str], alias: str | None) -> str:
    """Write the table as the statement names it."""
    name = ".".join(map(quote_name, parts))
    return name if alias is None else f"{name} AS {quote_name(alias)}"


def _spark_schema(lake: Lake, table: Identifier) -> spark_types.StructType:
    _, dataset = pin(lake.address, table)
    return types.spark_schema(dataset.schema)


def _by_position(frame: DataFrame, statement: statements.InsertInto, schema: spark_types.StructType) -> DataFrame:
    """Name the columns of a query after those of the table that they go to."""
    names = (
        schema.names if statement.columns is None else [_named(statement, name, schema) for name in statement.columns]
    )
    if len(frame.columns) != len(names) and not (statement.evolve and len(frame.columns) > len(names)):
        listed = ", ".join(names)
        raise InvalidInputError(
            f"INSERT into table {format_identifier(statement.table)} needs {len(names)} columns ({listed}), and "
            "the query has "
            f"{len(frame.columns)}"
        )
    return frame.toDF(*names, *frame.columns[len(names) :])


def _named(statement: statements.InsertInto, name: str, schema: spark_types.StructType) -> str:
    found = [one for one in schema.names if one == name] or [
        one for one in schema.names if fold_name(one) == fold_name(name)
    ]
    if (
        len(found) != 1
        or statement.columns is None
        or list(map(fold_name, statement.columns)).count(fold_name(name)) > 1
    ):
        raise InvalidInputError(
            f"INSERT into table {format_identifier(statement.table)} names column {name!r}, which is not there, "
            "or named twice; "
            f"the table has {', '.join(schema.names)}"
        )
    return found[0]
