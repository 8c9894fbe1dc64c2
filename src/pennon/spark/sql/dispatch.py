"""Running a statement: the catalog's own here, queries as planned, everything else by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError, UnsupportedOperationError
from pennon.spark.sql import admin_statements, data_statements, grammar, show_statements, table_statements, views
from pennon.spark.sql import statements as made
from pennon.spark.sql.cursor import tokenize
from pennon.spark.sql.name_resolution import NameResolver
from pennon.spark.sql.ownership import ForeignNameError
from pennon.spark.sql.query_runner import QueryRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame
    from sqlglot import Token

    from pennon.spark.lake import Lake

_ANSWERS: dict[type[made.Statement], Callable[[Lake, Any, QueryRunner], DataFrame]] = {
    made.ShowNamespaces: show_statements.show_namespaces,
    made.ShowTables: show_statements.show_tables,
    made.ShowTable: show_statements.show_table,
    made.DescribeTable: show_statements.describe_table,
    made.DescribeHistory: show_statements.describe_history,
    made.DescribeNamespace: show_statements.describe_namespace,
    made.CreateNamespace: admin_statements.create_namespace,
    made.AlterNamespace: admin_statements.alter_namespace,
    made.DropNamespace: admin_statements.drop_namespace,
    made.CreateTable: table_statements.create_table,
    made.DropTable: admin_statements.drop_table,
    made.UndropTable: admin_statements.undrop_table,
    made.UndropNamespace: admin_statements.undrop_namespace,
    made.PurgeTable: admin_statements.purge_table,
    made.PurgeTables: admin_statements.purge_tables,
    made.Protect: admin_statements.protect,
    made.Restore: admin_statements.restore,
    made.RenameTable: table_statements.rename_table,
    made.AddColumns: table_statements.add_columns,
    made.DropColumns: table_statements.drop_columns,
    made.AlterColumn: table_statements.alter_column,
    made.SetProperties: table_statements.set_properties,
    made.CreateIndex: admin_statements.create_index,
    made.DropIndex: admin_statements.drop_index,
    made.Optimize: admin_statements.optimize,
    made.Vacuum: admin_statements.vacuum,
    made.Insert: data_statements.insert,
    made.Update: data_statements.update,
    made.Delete: data_statements.delete,
    made.Merge: data_statements.merge_into,
    made.CreateTempView: views.create_temp_view,
}


def run(lake: Lake, text: str) -> DataFrame:
    """Run one statement and give its result: rows of a query, or what the statement did.

    A query is lazy, as Spark's are; every other statement is done when this returns. Errors are the SDK's where the
    catalog finds them, bad syntax (13) with its position; Spark's own for what only Spark can see.
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidInputError(f"lake.sql takes the text of a statement, got {text!r}")
    reader = QueryRunner(lake, NameResolver(lake))
    tokens = tokenize(text)
    if not tokens:
        return reader.frame(text)
    try:
        statement = grammar.parse(text, tokens, reader.names)
    except ForeignNameError:
        statement = None
    if isinstance(statement, made.CreateTempView) and not reader.uses_lake(statement.query):
        statement = None
    if statement is not None:
        return _ANSWERS[type(statement)](lake, statement, reader)
    if _is_kept_view(tokens) and reader.uses_lake(text):
        raise UnsupportedOperationError(
            "A view that Spark keeps cannot read tables of the lake; CREATE TEMPORARY VIEW can"
        )
    return reader.frame(text)


def _is_kept_view(tokens: Sequence[Token]) -> bool:
    words = [token.text.upper() for token in tokens[:4]]
    return words[0] == "CREATE" and "VIEW" in words
