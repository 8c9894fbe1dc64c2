"""Execute CREATE TABLE and ALTER TABLE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.errors import InvalidInputError, TableColumnNotFoundError, TableNotFoundError, translate_errors
from pennon.identifiers import Identifier, format_identifier, quote_identifier
from pennon.spark import writing
from pennon.spark.commits.destination import locate_table
from pennon.spark.quoting import find_name, fold_name
from pennon.spark.sql import ddl, statements
from pennon.spark.sql.properties import change_properties

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance import LanceDataset
    from pyspark.sql import DataFrame

    from pennon.spark.lake import Lake
    from pennon.spark.query.runner import QueryRunner


def create_table(lake: Lake, statement: statements.CreateTable, runner: QueryRunner) -> DataFrame:
    """Create or replace a table, empty or from a query.

    Rows and columns appear in one commit; properties follow in a commit of their own.
    """
    mode = "overwrite" if statement.replace else "ignore" if statement.if_not_exists else "create"
    if statement.must_exist:
        locate_table(lake.address, statement.table)
    if statement.query is not None:
        frame = runner.run_query(statement.query)
    else:
        frame = lake.spark.createDataFrame([], ddl.build_spark_schema(lake, statement.table, statement.columns or ()))
    done = writing.write(lake, frame, statement.table, mode)
    version = done.version
    if statement.properties and not done.skipped:
        version = _apply_change(
            lake,
            statement.table,
            lambda dataset: change_properties(dataset, statement.table, dict(statement.properties)),
        )
    row = (quote_identifier(statement.table), version, done.rows, done.created)
    return lake.spark.createDataFrame([row], "table string, version bigint, inserted bigint, created boolean")


def rename_table(lake: Lake, statement: statements.RenameTable, _runner: QueryRunner) -> DataFrame:
    """Rename a table, possibly into another namespace."""
    from lance_namespace import RenameTableRequest

    lake.catalog.rename_table(
        RenameTableRequest(
            id=list(statement.table),
            new_namespace_id=list(statement.new_name[:-1]),
            new_table_name=statement.new_name[-1],
        )
    )
    return lake.spark.createDataFrame([(quote_identifier(statement.new_name),)], "table string")


def add_columns(lake: Lake, statement: statements.AddColumns, _runner: QueryRunner) -> DataFrame:
    """Add columns that are null in all existing rows."""
    fields = [ddl.build_arrow_field(lake, statement.table, column) for column in statement.columns]

    def change(dataset: LanceDataset) -> None:
        names = {fold_name(name) for name in dataset.schema.names}
        for field in fields:
            if fold_name(field.name) in names:
                raise InvalidInputError(
                    f"Table {format_identifier(statement.table)} already has a column {field.name!r}"
                )
            if not field.nullable:
                raise InvalidInputError(
                    f"Column {field.name!r} of table {format_identifier(statement.table)} cannot be NOT NULL: "
                    "it is null in all existing rows"
                )
            names.add(fold_name(field.name))
        dataset.add_columns(fields)

    return _version_frame(lake, statement.table, _apply_change(lake, statement.table, change))


def drop_columns(lake: Lake, statement: statements.DropColumns, _runner: QueryRunner) -> DataFrame:
    """Drop columns. Their data stays in the files until the files are rewritten."""

    def change(dataset: LanceDataset) -> None:
        paths = []
        for column in statement.columns:
            path = _find_path(dataset.schema, column)
            if path is not None:
                paths.append(path)
            elif not statement.if_exists:
                raise _column_not_found(statement.table, dataset.schema, column)
        if paths:
            dataset.drop_columns(paths)

    return _version_frame(lake, statement.table, _apply_change(lake, statement.table, change))


def alter_column(lake: Lake, statement: statements.AlterColumn, _runner: QueryRunner) -> DataFrame:
    """Rename a column, change its type (which rewrites its values), or change whether it may be null."""
    kind = None if statement.type is None else ddl.build_arrow_field(lake, statement.table, statement.type).type

    def change(dataset: LanceDataset) -> None:
        path = _find_path(dataset.schema, statement.column)
        if path is None:
            raise _column_not_found(statement.table, dataset.schema, statement.column)
        alteration: dict[str, Any] = {"path": path}
        if statement.new_name is not None:
            alteration["name"] = statement.new_name
        if kind is not None:
            alteration["data_type"] = kind
        if statement.nullable is not None:
            alteration["nullable"] = statement.nullable
        try:
            dataset.alter_columns(alteration)  # type: ignore[arg-type]  # Lance's AlterColumn is such a dict
        except (ValueError, OSError, NotImplementedError) as error:
            raise InvalidInputError(
                f"Column {path!r} of table {format_identifier(statement.table)} cannot be altered: {error}"
            ) from error

    return _version_frame(lake, statement.table, _apply_change(lake, statement.table, change))


def set_properties(lake: Lake, statement: statements.SetProperties, _runner: QueryRunner) -> DataFrame:
    """Set and remove properties of a table."""
    version = _apply_change(
        lake,
        statement.table,
        lambda dataset: change_properties(dataset, statement.table, statement.changes, missing_ok=statement.if_exists),
    )
    return _version_frame(lake, statement.table, version)


def _apply_change(lake: Lake, table: Identifier, change: Any) -> int:
    """Apply a change to the latest version of a table, and return the version afterwards.

    The catalog commits the change if it manages the versions of the table. Raises TableNotFoundError if the table is
    declared but has no data.
    """
    location = locate_table(lake.address, table)
    if location.declared:
        raise TableNotFoundError(
            f"Table {format_identifier(table)} is declared, but nothing has been written to it yet"
        )
    with translate_errors(f"Altering table {format_identifier(table)}"):
        dataset = location.latest()
        change(dataset)
        return int(dataset.version)


def _version_frame(lake: Lake, table: Identifier, version: int) -> DataFrame:
    return lake.spark.createDataFrame([(quote_identifier(table), version)], "table string, version bigint")


def _find_path(schema: pa.Schema, column: Sequence[str]) -> str | None:
    """Return the path of a column or struct field, ignoring case, or None if there is not exactly one."""
    fields: list[pa.Field] = list(schema)
    path: list[str] = []
    for name in column:
        match = find_name(name, [field.name for field in fields])
        if match is None:
            return None
        path.append(match)
        kind = next(field.type for field in fields if field.name == match)
        fields = [kind.field(number) for number in range(kind.num_fields)] if pa.types.is_struct(kind) else []
    return ".".join(path)


def _column_not_found(table: Identifier, schema: pa.Schema, column: Sequence[str]) -> TableColumnNotFoundError:
    return TableColumnNotFoundError(
        f"Table {format_identifier(table)} has no column {'.'.join(column)!r}; it has {', '.join(schema.names)}"
    )
