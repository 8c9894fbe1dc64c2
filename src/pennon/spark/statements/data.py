"""Execute INSERT, UPDATE, DELETE and MERGE, each in one commit, and create temporary views."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.spark import tables, types
from pennon.spark.lake_listing import ResultRows
from pennon.spark.merging import clauses, merge, mutation
from pennon.spark.query.expressions import ExpressionRewriter
from pennon.spark.quoting import quote_name
from pennon.spark.reading.pinned import pin
from pennon.spark.statements.assignments import (
    Assignment,
    Target,
    align_columns,
    build_assignments,
    fit_columns,
    name_columns,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pennon.identifiers import Identifier
    from pennon.spark.lake import Lake
    from pennon.spark.query.runner import QueryRunner

_SOURCE = "__pennon_source"


@dataclass(frozen=True)
class MergeClause:
    """WHEN [NOT] MATCHED [BY SOURCE] [AND condition] THEN action.

    `match` is matched, missing (NOT MATCHED) or extra (NOT MATCHED BY SOURCE). `action` is update, delete or insert.
    `assignments` is None for `*`.
    """

    match: str
    action: str
    condition: str | None = None
    assignments: tuple[Assignment, ...] | None = ()


def insert(
    lake: Lake,
    runner: QueryRunner,
    table: Identifier,
    query: str,
    columns: Sequence[str] | None,
    *,
    overwrite: bool,
    by_name: bool,
    evolve: bool,
) -> ResultRows:
    """Append the rows of a query, or replace the rows of the table with them.

    Columns are matched by position with the listed columns, or with all columns of the table. BY NAME matches them by
    name. Columns without a value are null. WITH SCHEMA EVOLUTION adds columns that the table lacks.
    """
    frame = runner.run_query(query)
    there = pin(lake.address, table)[1].schema
    schema = types.spark_schema(there)
    if not by_name:
        frame = name_columns(table, frame, schema.names, columns, keep_others=evolve)
    frame = align_columns(table, frame, schema, keep_others=evolve)
    if overwrite and not evolve:
        frame = fit_columns(table, frame, there)
    mode = "overwrite" if overwrite else "append"
    done = tables.write(lake.address, frame, table, mode, merge_schema=evolve and not overwrite)
    return ResultRows([(done.version, done.rows)], "version bigint, inserted bigint")


def update(
    lake: Lake, runner: QueryRunner, target: Target, assignments: Sequence[Assignment], where: str | None
) -> ResultRows:
    """Set columns of the rows that meet a condition."""
    _, dataset = pin(lake.address, target.table)
    with ExpressionRewriter(lake, runner, target.relation) as expressions:
        values = build_assignments(target, dataset.schema, assignments, expressions.rewrite)
        condition = expressions.rewrite_optional(where)
        done = mutation.update(lake.spark, lake.address, target.table, values, where=condition, alias=target.name)
    return ResultRows([(done.version, done.rows)], "version bigint, updated bigint")


def delete(lake: Lake, runner: QueryRunner, target: Target, where: str | None) -> ResultRows:
    """Delete the rows that meet a condition, or all rows."""
    with ExpressionRewriter(lake, runner, target.relation) as expressions:
        condition = expressions.rewrite_optional(where) or "true"
        done = mutation.delete(lake.spark, lake.address, target.table, condition, alias=target.name)
    return ResultRows([(done.version, done.rows)], "version bigint, deleted bigint")


def merge_into(
    lake: Lake,
    runner: QueryRunner,
    target: Target,
    source: str,
    *,
    source_name: str | None,
    on: str,
    when: Sequence[MergeClause],
    evolve: bool,
) -> ResultRows:
    """Update, delete and insert rows, depending on whether they match rows of the query `source`."""
    source_name = source_name or _SOURCE
    frame = runner.run_query(source)
    _, dataset = pin(lake.address, target.table)
    with ExpressionRewriter(lake, runner, f"{target.relation}, {quote_name(source_name)}") as expressions:
        converted: dict[str, list[clauses.Clause]] = {}
        for clause in when:
            condition = expressions.rewrite_optional(clause.condition)
            values = None
            if clause.assignments is not None:
                values = build_assignments(target, dataset.schema, clause.assignments, expressions.rewrite)
            converted.setdefault(clause.match, []).append(_create_clause(clause.action, condition, values))
        spec = clauses.MergeSpec(
            on_condition=expressions.rewrite(on),
            when_matched=converted.get("matched"),
            when_not_matched=converted.get("missing"),
            when_not_matched_by_source=converted.get("extra"),
            target_alias=target.name,
            source_alias=source_name,
            merge_schema=evolve,
        )
        done = merge.merge(lake.address, frame, target.table, spec)
    row = (done.version, done.inserted, done.updated, done.deleted)
    return ResultRows([row], "version bigint, inserted bigint, updated bigint, deleted bigint")


def _create_clause(action: str, condition: str | None, values: dict[str, str] | None) -> clauses.Clause:
    if action == "delete":
        return clauses.Delete(condition)
    return clauses.Insert(values, condition) if action == "insert" else clauses.Update(values, condition)


def create_temp_view(
    lake: Lake,
    runner: QueryRunner,
    name: str,
    query: str,
    columns: Sequence[str] | None = None,
    *,
    replace: bool = False,
    is_global: bool = False,
    cache: bool = False,
) -> ResultRows:
    """Create a temporary view. It keeps showing the table versions that were current when it was created."""
    frame = runner.run_query(query)
    if columns is not None:
        if len(columns) != len(frame.columns):
            raise InvalidInputError(
                f"View {name!r} names {len(columns)} columns, but its query returns {len(frame.columns)}"
            )
        frame = frame.toDF(*columns)
    if is_global:
        create = frame.createOrReplaceGlobalTempView if replace else frame.createGlobalTempView
    else:
        create = frame.createOrReplaceTempView if replace else frame.createTempView
    quoted = name if name.isidentifier() else quote_name(name)
    create(quoted)
    if cache:
        lake.spark.catalog.cacheTable(quoted)
    return ResultRows([(name,)], "view string")
