"""Running a statement: the catalog's own here, queries as planned, everything else by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError, UnsupportedOperationError
from pennon.spark.sql import administration, altering, grammar, mutations, showing, views
from pennon.spark.sql import statements as made
from pennon.spark.sql.cursor import tokens_of
from pennon.spark.sql.names import LakeNames
from pennon.spark.sql.ownership import ForeignNameError
from pennon.spark.sql.query import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame
    from sqlglot import Token

    from pennon.spark.lake import Lake

_ANSWERS: dict[type[made.Statement], Callable[[Lake, Any, Reader], DataFrame]] = {
    made.ShowNamespaces: showing.show_namespaces,
    made.ShowTables: showing.show_tables,
    made.ShowTable: showing.show_table,
    made.DescribeTable: showing.describe_table,
    made.DescribeHistory: showing.describe_history,
    made.DescribeNamespace: showing.describe_namespace,
    made.CreateNamespace: administration.create_namespace,
    made.AlterNamespace: administration.alter_namespace,
    made.DropNamespace: administration.drop_namespace,
    made.CreateTable: altering.create_table,
    made.DropTable: administration.drop_table,
    made.UndropTable: administration.undrop_table,
    made.UndropNamespace: administration.undrop_namespace,
    made.PurgeTable: administration.purge_table,
    made.PurgeTables: administration.purge_tables,
    made.Protect: administration.protect,
    made.Restore: administration.restore,
    made.RenameTable: altering.rename_table,
    made.AddColumns: altering.add_columns,
    made.DropColumns: altering.drop_columns,
    made.AlterColumn: altering.alter_column,
    made.SetProperties: altering.set_properties,
    made.CreateIndex: administration.create_index,
    made.DropIndex: administration.drop_index,
    made.Optimize: administration.optimize,
    made.Vacuum: administration.vacuum,
    made.Insert: mutations.insert,
    made.Update: mutations.update,
    made.Delete: mutations.delete,
    made.Merge: mutations.merge_into,
    made.CreateTempView: views.create_temp_view,
}


def run(lake: Lake, text: str) -> DataFrame:
    """Run one statement and give its result: rows of a query, or what the statement did.

    A query is lazy, as Spark's are; every other statement is done when this returns. Errors are the SDK's where the
    catalog finds them, bad syntax (13) with its position; Spark's own for what only Spark can see.
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidInputError(f"lake.sql takes the text of a statement, got {text!r}")
    reader = Reader(lake, LakeNames(lake))
    tokens = tokens_of(text)
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
