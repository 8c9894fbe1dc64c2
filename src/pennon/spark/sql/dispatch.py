"""Run one statement: the catalog executes its own statements, and Spark executes queries and everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError, UnsupportedOperationError
from pennon.spark.query.names import ForeignNameError, NameResolver
from pennon.spark.query.runner import QueryRunner
from pennon.spark.sql import (
    admin_statements,
    data_statements,
    grammar,
    show_statements,
    statements,
    table_statements,
)
from pennon.spark.tokens import tokenize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame
    from sqlglot import Token

    from pennon.spark.lake import Lake

_EXECUTORS: dict[type[statements.Statement], Callable[[Lake, Any, QueryRunner], DataFrame]] = {
    statements.ShowNamespaces: show_statements.show_namespaces,
    statements.ShowTables: show_statements.show_tables,
    statements.ShowTableDetail: show_statements.show_table,
    statements.DescribeTable: show_statements.describe_table,
    statements.DescribeHistory: show_statements.describe_history,
    statements.DescribeNamespace: show_statements.describe_namespace,
    statements.CreateNamespace: admin_statements.create_namespace,
    statements.AlterNamespace: admin_statements.alter_namespace,
    statements.DropNamespace: admin_statements.drop_namespace,
    statements.CreateTable: table_statements.create_table,
    statements.DropTable: admin_statements.drop_table,
    statements.UndropTable: admin_statements.undrop_table,
    statements.UndropNamespace: admin_statements.undrop_namespace,
    statements.PurgeTable: admin_statements.purge_table,
    statements.PurgeTables: admin_statements.purge_tables,
    statements.SetProtection: admin_statements.protect,
    statements.RestoreTable: admin_statements.restore,
    statements.RenameTable: table_statements.rename_table,
    statements.AddColumns: table_statements.add_columns,
    statements.DropColumns: table_statements.drop_columns,
    statements.AlterColumn: table_statements.alter_column,
    statements.SetProperties: table_statements.set_properties,
    statements.CreateIndex: admin_statements.create_index,
    statements.DropIndex: admin_statements.drop_index,
    statements.Optimize: admin_statements.optimize,
    statements.Vacuum: admin_statements.vacuum,
    statements.InsertInto: data_statements.insert,
    statements.UpdateTable: data_statements.update,
    statements.DeleteFrom: data_statements.delete,
    statements.MergeInto: data_statements.merge_into,
    statements.CreateTempView: data_statements.create_temp_view,
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
    if isinstance(statement, statements.CreateTempView) and not runner.reads_lake(statement.query):
        statement = None
    if statement is not None:
        return _EXECUTORS[type(statement)](lake, statement, runner)
    if _creates_permanent_view(tokens) and runner.reads_lake(text):
        raise UnsupportedOperationError("A permanent view cannot read tables of the lake; use CREATE TEMPORARY VIEW")
    return runner.run_query(text)


def _creates_permanent_view(tokens: Sequence[Token]) -> bool:
    words = [token.text.upper() for token in tokens[:4]]
    return words[0] == "CREATE" and "VIEW" in words
