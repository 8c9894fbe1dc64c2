"""Answering INSERT, UPDATE, DELETE and MERGE, each in one commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.identifiers import format_identifier
from pennon.spark import types, writing
from pennon.spark.merging import clauses, merge, mutation
from pennon.spark.quoting import quoted
from pennon.spark.reading.pinned import pin
from pennon.spark.sql.assignments import assigned, fitted
from pennon.spark.sql.expressions import Expressions
from pennon.spark.sql.references import folded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql import types as spark_types

    from pennon.identifiers import Identifier
    from pennon.spark.lake import Lake
    from pennon.spark.sql import statements as made
    from pennon.spark.sql.query_runner import QueryRunner

_SOURCE = "__pennon_source"


def insert(lake: Lake, asked: made.Insert, reader: QueryRunner) -> DataFrame:
    """Append the rows of a query, or put them in the place of those that are there.

    Columns are matched by position, unless BY NAME or a list of columns says otherwise; columns that get no value are
    null.
    """
    frame = reader.frame(asked.query)
    schema = _spark_schema(lake, asked.table)
    if not asked.by_name:
        frame = _by_position(frame, asked, schema)
    mode = "overwrite" if asked.overwrite else "append"
    ready = fitted(lake, asked.table, frame, schema, keep_others=asked.evolve)
    done = writing.write(lake, ready, asked.table, mode, merge_schema=asked.evolve and not asked.overwrite)
    return lake.spark.createDataFrame([(done.version, done.rows)], "version bigint, inserted bigint")


def update(lake: Lake, asked: made.Update, reader: QueryRunner) -> DataFrame:
    """Set columns of the rows that meet a condition."""
    name = asked.written[-1] if asked.alias is None else asked.alias
    schema = _spark_schema(lake, asked.table)
    with Expressions(lake, reader, _relation(asked.written, asked.alias)) as expressions:
        values = assigned(asked.table, asked.assignments, name, schema, expressions.made)
        where = expressions.optional(asked.where)
        done = mutation.update(lake, asked.table, values, where=where, alias=name)
    return lake.spark.createDataFrame([(done.version, done.rows)], "version bigint, updated bigint")


def delete(lake: Lake, asked: made.Delete, reader: QueryRunner) -> DataFrame:
    """Delete the rows that meet a condition, or all."""
    name = asked.written[-1] if asked.alias is None else asked.alias
    with Expressions(lake, reader, _relation(asked.written, asked.alias)) as expressions:
        where = expressions.optional(asked.where) or "true"
        done = mutation.delete(lake, asked.table, where, alias=name)
    return lake.spark.createDataFrame([(done.version, done.rows)], "version bigint, deleted bigint")


def merge_into(lake: Lake, asked: made.Merge, reader: QueryRunner) -> DataFrame:
    """Update, delete and insert rows by whether they match rows of a source."""
    target = asked.written[-1] if asked.alias is None else asked.alias
    source = asked.source_name or _SOURCE
    frame = reader.frame(asked.source)
    schema = _spark_schema(lake, asked.table)
    relations = f"{_relation(asked.written, asked.alias)}, {quoted(source)}"
    with Expressions(lake, reader, relations) as expressions:
        read = _Clauses(asked, target, schema, expressions)
        done = merge.merge(
            lake,
            frame,
            asked.table,
            on_condition=expressions.made(asked.on),
            when_matched=read.of("matched"),
            when_not_matched=read.of("missing"),
            when_not_matched_by_source=read.of("extra"),
            target_alias=target,
            source_alias=source,
            merge_schema=asked.evolve,
        )
    row = (done.version, done.inserted, done.updated, done.deleted)
    schema_text = "version bigint, inserted bigint, updated bigint, deleted bigint"
    return lake.spark.createDataFrame([row], schema_text)


class _Clauses:
    """The clauses of a merge as `merge.merge` takes them."""

    def __init__(
        self, asked: made.Merge, target: str, schema: spark_types.StructType, expressions: Expressions
    ) -> None:
        self._asked = asked
        self._target = target
        self._schema = schema
        self._expressions = expressions

    def of(self, match: str) -> Sequence[clauses.Clause] | None:
        """Give the clauses for one kind of row."""
        found = [self._clause(one) for one in self._asked.clauses if one.match == match]
        return found or None

    def _clause(self, given: made.MergeClause) -> clauses.Clause:
        condition = self._expressions.optional(given.condition)
        if given.action == "delete":
            return clauses.Delete(condition)
        values = None
        if given.assignments is not None:
            values = assigned(self._asked.table, given.assignments, self._target, self._schema, self._expressions.made)
        return clauses.Insert(values, condition) if given.action == "insert" else clauses.Update(values, condition)


def _relation(parts: Sequence[str], alias: str | None) -> str:
    """Write the table as the statement names it."""
    name = ".".join(map(quoted, parts))
    return name if alias is None else f"{name} AS {quoted(alias)}"


def _spark_schema(lake: Lake, table: Identifier) -> spark_types.StructType:
    _, dataset = pin(lake.address, table)
    return types.spark_schema(dataset.schema)


def _by_position(frame: DataFrame, asked: made.Insert, schema: spark_types.StructType) -> DataFrame:
    """Name the columns of a query after those of the table that they go to."""
    names = schema.names if asked.columns is None else [_named(asked, name, schema) for name in asked.columns]
    if len(frame.columns) != len(names) and not (asked.evolve and len(frame.columns) > len(names)):
        listed = ", ".join(names)
        raise InvalidInputError(
            f"INSERT into table {format_identifier(asked.table)} needs {len(names)} columns ({listed}), and "
            "the query has "
            f"{len(frame.columns)}"
        )
    return frame.toDF(*names, *frame.columns[len(names) :])


def _named(asked: made.Insert, name: str, schema: spark_types.StructType) -> str:
    found = [one for one in schema.names if one == name] or [one for one in schema.names if folded(one) == folded(name)]
    if len(found) != 1 or asked.columns is None or list(map(folded, asked.columns)).count(folded(name)) > 1:
        raise InvalidInputError(
            f"INSERT into table {format_identifier(asked.table)} names column {name!r}, which is not there, "
            "or named twice; "
            f"the table has {', '.join(schema.names)}"
        )
    return found[0]
