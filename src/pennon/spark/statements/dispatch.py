"""Run one statement: the catalog executes its own statements, and Spark executes queries and everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError, UnsupportedOperationError
from pennon.spark.sql.name_resolution import ForeignNameError, NameResolver
from pennon.spark.sql.query_runner import QueryRunner
from pennon.spark.statements import administration, data, grammar, model, show, tables
from pennon.spark.tokens import tokenize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame
    from sqlglot import Token

    from pennon.spark.lake import Lake

_EXECUTORS: dict[type[model.Statement], Callable[[Lake, Any, QueryRunner], DataFrame]] = {
    model.ShowNamespaces: show.show_namespaces,
    model.ShowTables: show.show_tables,
    model.ShowTableDetail: show.show_table,
    model.DescribeTable: show.describe_table,
    model.DescribeHistory: show.describe_history,
    model.DescribeNamespace: show.describe_namespace,
    model.CreateNamespace: administration.create_namespace,
    model.AlterNamespace: administration.alter_namespace,
    model.DropNamespace: administration.drop_namespace,
    model.CreateTable: tables.create_table,
    model.DropTable: administration.drop_table,
    model.UndropTable: administration.undrop_table,
    model.UndropNamespace: administration.undrop_namespace,
    model.PurgeTable: administration.purge_table,
    model.PurgeTables: administration.purge_tables,
    model.SetProtection: administration.protect,
    model.RestoreTable: administration.restore,
    model.RenameTable: tables.rename_table,
    model.AddColumns: tables.add_columns,
    model.DropColumns: tables.drop_columns,
    model.AlterColumn: tables.alter_column,
    model.SetProperties: tables.set_properties,
    model.CreateIndex: administration.create_index,
    model.DropIndex: administration.drop_index,
    model.Optimize: administration.optimize,
    model.Vacuum: administration.vacuum,
    model.InsertInto: data.insert,
    model.UpdateTable: data.update,
    model.DeleteFrom: data.delete,
    model.MergeInto: data.merge_into,
    model.CreateTempView: data.create_temp_view,
}


def run(lake: Lake, text: str) -> DataFrame:
    """Run one statement and return its result: the rows of a query, or rows about what the statement did.

    A query is lazy, as in Spark. Every other statement is complete when this returns.

    Raises InvalidInputError for bad syntax, with the position, and the SDK's errors for what the catalog detects.
    Errors that only Spark detects stay Spark's.
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidInputError(f"lake.sql needs the text of a statement, got {text!r}")
    runner = QueryRunner(lake, NameResolver(lake))
    tokens = tokenize(text)
    if not tokens:
        return runner.run_query(text)
    try:
        statement = grammar.parse_statement(text, tokens, runner.names)
    except ForeignNameError:
        statement = None
    if isinstance(statement, model.CreateTempView) and not runner.reads_lake(statement.query):
        statement = None
    if statement is not None:
        return _EXECUTORS[type(statement)](lake, statement, runner)
    if _creates_permanent_view(tokens) and runner.reads_lake(text):
        raise UnsupportedOperationError("A permanent view cannot read tables of the lake; use CREATE TEMPORARY VIEW")
    return runner.run_query(text)


def _creates_permanent_view(tokens: Sequence[Token]) -> bool:
    words = [token.text.upper() for token in tokens[:4]]
    return words[0] == "CREATE" and "VIEW" in words
