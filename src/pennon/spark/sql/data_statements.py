"""Execute INSERT, UPDATE, DELETE and MERGE, each in one commit, and create temporary views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.identifiers import format_identifier
from pennon.spark import types, writing
from pennon.spark.merging import clauses, merge, mutation
from pennon.spark.query.expressions import ExpressionRewriter
from pennon.spark.quoting import find_name, fold_name, quote_name
from pennon.spark.reading.pinned import pin
from pennon.spark.sql.assignments import align_columns, build_assignments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql import types as spark_types

    from pennon.identifiers import Identifier
    from pennon.spark.lake import Lake
    from pennon.spark.query.runner import QueryRunner
    from pennon.spark.sql import statements

_SOURCE = "__pennon_source"


def insert(lake: Lake, statement: statements.InsertInto, runner: QueryRunner) -> DataFrame:
    """Append the rows of a query, or replace the rows of the table with them.

    Columns are matched by position with the listed columns, or with all columns of the table. BY NAME matches them by
    name. Columns without a value are null.
    """
    frame = runner.run_query(statement.query)
    schema = _read_spark_schema(lake, statement.table)
    if not statement.by_name:
        frame = _rename_by_position(frame, statement, schema)
    mode = "overwrite" if statement.overwrite else "append"
    ready = align_columns(statement.table, frame, schema, keep_others=statement.evolve)
    done = writing.write(lake, ready, statement.table, mode, merge_schema=statement.evolve and not statement.overwrite)
    return lake.spark.createDataFrame([(done.version, done.rows)], "version bigint, inserted bigint")


def update(lake: Lake, statement: statements.UpdateTable, runner: QueryRunner) -> DataFrame:
    """Set columns of the rows that meet a condition."""
    name = statement.name_parts[-1] if statement.alias is None else statement.alias
    schema = _read_spark_schema(lake, statement.table)
    with ExpressionRewriter(lake, runner, _format_relation(statement.name_parts, statement.alias)) as expressions:
        values = build_assignments(statement.table, statement.assignments, name, schema, expressions.rewrite)
        where = expressions.rewrite_optional(statement.where)
        done = mutation.update(lake, statement.table, values, where=where, alias=name)
    return lake.spark.createDataFrame([(done.version, done.rows)], "version bigint, updated bigint")


def delete(lake: Lake, statement: statements.DeleteFrom, runner: QueryRunner) -> DataFrame:
    """Delete the rows that meet a condition, or all rows."""
    name = statement.name_parts[-1] if statement.alias is None else statement.alias
    with ExpressionRewriter(lake, runner, _format_relation(statement.name_parts, statement.alias)) as expressions:
        where = expressions.rewrite_optional(statement.where) or "true"
        done = mutation.delete(lake, statement.table, where, alias=name)
    return lake.spark.createDataFrame([(done.version, done.rows)], "version bigint, deleted bigint")


def merge_into(lake: Lake, statement: statements.MergeInto, runner: QueryRunner) -> DataFrame:
    """Update, delete and insert rows, depending on whether they match rows of a source."""
    target = statement.name_parts[-1] if statement.alias is None else statement.alias
    source = statement.source_name or _SOURCE
    frame = runner.run_query(statement.source)
    schema = _read_spark_schema(lake, statement.table)
    relations = f"{_format_relation(statement.name_parts, statement.alias)}, {quote_name(source)}"
    with ExpressionRewriter(lake, runner, relations) as expressions:
        merge_clauses = _MergeClauses(statement, target, schema, expressions)
        done = merge.merge(
            lake,
            frame,
            statement.table,
            on_condition=expressions.rewrite(statement.on),
            when_matched=merge_clauses.convert("matched"),
            when_not_matched=merge_clauses.convert("missing"),
            when_not_matched_by_source=merge_clauses.convert("extra"),
            target_alias=target,
            source_alias=source,
            merge_schema=statement.evolve,
        )
    row = (done.version, done.inserted, done.updated, done.deleted)
    schema_text = "version bigint, inserted bigint, updated bigint, deleted bigint"
    return lake.spark.createDataFrame([row], schema_text)


def create_temp_view(lake: Lake, statement: statements.CreateTempView, runner: QueryRunner) -> DataFrame:
    """Create a temporary view. It keeps showing the table versions that were current when it was created."""
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


class _MergeClauses:
    """Converts the clauses of a MERGE statement to those of `merging.merge`."""

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

    def convert(self, match: str) -> Sequence[clauses.Clause] | None:
        """Return the clauses for one kind of match, or None if there are none."""
        converted = [self._convert_one(one) for one in self._statement.clauses if one.match == match]
        return converted or None

    def _convert_one(self, clause: statements.MergeClause) -> clauses.Clause:
        condition = self._expressions.rewrite_optional(clause.condition)
        if clause.action == "delete":
            return clauses.Delete(condition)
        values = None
        if clause.assignments is not None:
            values = build_assignments(
                self._statement.table, clause.assignments, self._target, self._schema, self._expressions.rewrite
            )
        return clauses.Insert(values, condition) if clause.action == "insert" else clauses.Update(values, condition)


def _format_relation(parts: Sequence[str], alias: str | None) -> str:
    """Return the table, with its alias, as the statement names it."""
    name = ".".join(map(quote_name, parts))
    return name if alias is None else f"{name} AS {quote_name(alias)}"


def _read_spark_schema(lake: Lake, table: Identifier) -> spark_types.StructType:
    _, dataset = pin(lake.address, table)
    return types.spark_schema(dataset.schema)


def _rename_by_position(
    frame: DataFrame, statement: statements.InsertInto, schema: spark_types.StructType
) -> DataFrame:
    """Rename the columns of a query to the table's columns at the same positions."""
    names = (
        schema.names
        if statement.columns is None
        else [_match_column(statement, name, schema) for name in statement.columns]
    )
    if len(frame.columns) != len(names) and not (statement.evolve and len(frame.columns) > len(names)):
        listed = ", ".join(names)
        raise InvalidInputError(
            f"INSERT into table {format_identifier(statement.table)} needs {len(names)} columns ({listed}), "
            f"but the query returns {len(frame.columns)}"
        )
    return frame.toDF(*names, *frame.columns[len(names) :])


def _match_column(statement: statements.InsertInto, name: str, schema: spark_types.StructType) -> str:
    match = find_name(name, schema.names)
    if match is None or statement.columns is None or list(map(fold_name, statement.columns)).count(fold_name(name)) > 1:
        raise InvalidInputError(
            f"INSERT into table {format_identifier(statement.table)}: column {name!r} does not exist or is "
            f"named twice; the table has {', '.join(schema.names)}"
        )
    return match
