"""Execute the statements that create, drop, restore, rename and alter tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon.errors import (
    InvalidInputError,
    NamespaceNotFoundError,
    TableNotFoundError,
    translate_errors,
)
from pennon.identifiers import Identifier, format_identifier, quote_identifier
from pennon.spark import tables, types
from pennon.spark.lake_listing import ResultRows
from pennon.spark.quoting import fold_name
from pennon.spark.reading.pinned import pin
from pennon.spark.statements import ddl
from pennon.spark.tables.destination import locate_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lance import LanceDataset

    from pennon.results import PurgeReport
    from pennon.spark.address import Address
    from pennon.spark.lake import Lake
    from pennon.spark.query.references import TimeTravel
    from pennon.spark.query.runner import QueryRunner
    from pennon.spark.statements.ddl import ColumnDefinition


def create_table(
    lake: Lake,
    runner: QueryRunner,
    table: Identifier,
    content: str | Sequence[ColumnDefinition],
    properties: Mapping[str, str],
    *,
    mode: str,
    must_exist: bool,
) -> ResultRows:
    """Create or replace a table from its `content`: a query, or the columns of an empty table.

    `mode` is that of a write. Rows and columns appear in one commit; properties follow in a commit of their own.
    """
    if must_exist:
        locate_table(lake.address, table)
    if isinstance(content, str):
        frame = runner.run_query(content)
    else:
        frame = lake.spark.createDataFrame([], ddl.build_spark_schema(lake.spark, table, content))
    done = tables.write(lake.address, frame, table, mode)
    version = done.version
    if properties and not done.skipped:
        version = _change_table(lake.address, table, lambda dataset: ddl.change_properties(dataset, properties))
    row = (quote_identifier(table), version, done.rows, done.created)
    return ResultRows([row], "table string, version bigint, inserted bigint, created boolean")


def drop_table(address: Address, table: Identifier, *, if_exists: bool, purge: bool) -> ResultRows:
    """Drop a table. Its data stays until it is purged; PURGE deletes it immediately."""
    from lance_namespace import DropTableRequest

    context = {"purge": "true"} if purge else None
    dropped = True
    try:
        address.connect().drop_table(DropTableRequest(id=list(table), context=context))
    except (TableNotFoundError, NamespaceNotFoundError):
        if not if_exists:
            raise
        dropped = False
    return ResultRows([(quote_identifier(table), dropped)], "table string, dropped boolean")


def undrop_table(
    address: Address, table: Identifier, deletion_id: str | None, new_name: Identifier | None
) -> ResultRows:
    """Restore a dropped table."""
    location = address.connect().undrop_table(table, new_name, deletion_id)
    return ResultRows([(quote_identifier(new_name or table), location)], "table string, location string")


def purge_table(address: Address, table: Identifier, deletion_id: str | None, *, force: bool) -> ResultRows:
    """Delete the data of a dropped table permanently."""
    return _report_purge(address.connect().purge_table(table, deletion_id, force=force))


def purge_tables(
    address: Address, runner: QueryRunner, before: str | None, *, force: bool, dry_run: bool
) -> ResultRows:
    """Delete the data of all dropped tables whose retention is over, or that were dropped before a time."""
    time = None if before is None else runner.evaluate_timestamp(before)
    return _report_purge(address.connect().purge_tables(deleted_before=time, dry_run=dry_run, force=force))


def _report_purge(report: PurgeReport) -> ResultRows:
    rows = [
        (quote_identifier(tuple(one.id)), one.deletion_id, one.files, one.bytes, one.error) for one in report.tables
    ]
    return ResultRows(rows, "table string, deletionId string, files bigint, bytes bigint, error string")


def protect_table(address: Address, table: Identifier, *, protected: bool) -> ResultRows:
    """Protect a table from being dropped, or remove the protection."""
    address.lifecycle_client().set_table_protection(table, protected)
    return ResultRows([(quote_identifier(table), protected)], "table string, protected boolean")


def restore_table(address: Address, runner: QueryRunner, table: Identifier, travel: TimeTravel) -> ResultRows:
    """Commit a new version of a table with the rows and columns of an old version."""
    old, _ = pin(address, table, runner.resolve_travel(table, travel))
    if old.branch is not None:
        raise InvalidInputError(
            f"Table {format_identifier(table)} cannot be restored to a version of branch {old.branch!r}; "
            "name a version of the main branch"
        )
    with translate_errors(f"Restoring table {format_identifier(table)}"):
        restored = locate_table(address, table).latest().checkout_version(old.version)
        restored.restore()
    row = (quote_identifier(table), old.version, int(restored.version))
    return ResultRows([row], "table string, restored_version bigint, version bigint")


def rename_table(address: Address, table: Identifier, new_name: Identifier) -> ResultRows:
    """Rename a table, possibly into another namespace."""
    from lance_namespace import RenameTableRequest

    *namespace, name = new_name
    address.connect().rename_table(RenameTableRequest(id=list(table), new_namespace_id=namespace, new_table_name=name))
    return ResultRows([(quote_identifier(new_name),)], "table string")


def add_columns(lake: Lake, table: Identifier, columns: Sequence[ColumnDefinition]) -> ResultRows:
    """Add columns that are null in all existing rows."""
    fields = list(types.table_schema(ddl.build_spark_schema(lake.spark, table, columns)))

    def change(dataset: LanceDataset) -> None:
        names = {fold_name(name) for name in dataset.schema.names}
        for field in fields:
            if fold_name(field.name) in names:
                raise InvalidInputError(f"Table {format_identifier(table)} already has a column {field.name!r}")
            if not field.nullable:
                raise InvalidInputError(
                    f"Column {field.name!r} of table {format_identifier(table)} cannot be NOT NULL: "
                    "it is null in all existing rows"
                )
            names.add(fold_name(field.name))
        dataset.add_columns(fields)

    return _alter_table(lake.address, table, change)


def drop_columns(
    address: Address, table: Identifier, columns: Sequence[tuple[str, ...]], *, if_exists: bool
) -> ResultRows:
    """Drop columns. Their data stays in the files until the files are rewritten."""

    def change(dataset: LanceDataset) -> None:
        paths = [ddl.find_path(dataset.schema, column) for column in columns]
        if None in paths and not if_exists:
            raise ddl.column_not_found(table, dataset.schema, columns[paths.index(None)])
        dropped = [".".join(path) for path in paths if path is not None]
        if dropped:
            dataset.drop_columns(dropped)

    return _alter_table(address, table, change)


def rename_column(address: Address, table: Identifier, column: Sequence[str], new_name: str) -> ResultRows:
    """Rename a column."""
    return _alter_column(address, table, column, name=new_name)


def change_column_type(
    lake: Lake, table: Identifier, column: Sequence[str], definition: ColumnDefinition
) -> ResultRows:
    """Change the type of a column, which rewrites its values."""
    schema = types.table_schema(ddl.build_spark_schema(lake.spark, table, [definition]))
    return _alter_column(lake.address, table, column, data_type=schema.field(0).type)


def change_nullability(address: Address, table: Identifier, column: Sequence[str], *, nullable: bool) -> ResultRows:
    """Change whether a column may be null."""
    return _alter_column(address, table, column, nullable=nullable)


def _alter_column(address: Address, table: Identifier, column: Sequence[str], **changes: Any) -> ResultRows:
    def change(dataset: LanceDataset) -> None:
        path = ddl.find_path(dataset.schema, column)
        if path is None:
            raise ddl.column_not_found(table, dataset.schema, column)
        name = ".".join(path)
        alteration: dict[str, Any] = {"path": name, **changes}
        try:
            dataset.alter_columns(alteration)  # type: ignore[arg-type]  # Lance's AlterColumn is such a dict
        except (ValueError, OSError, NotImplementedError) as error:
            raise InvalidInputError(
                f"Column {name!r} of table {format_identifier(table)} cannot be altered: {error}"
            ) from error

    return _alter_table(address, table, change)


def change_properties(
    address: Address, table: Identifier, changes: Mapping[str, str | None], *, if_exists: bool
) -> ResultRows:
    """Set properties of a table, and remove those with the value None."""

    def change(dataset: LanceDataset) -> None:
        missing = [key for key, value in changes.items() if value is None and key not in ddl.get_properties(dataset)]
        if missing and not if_exists:
            raise InvalidInputError(f"Table {format_identifier(table)} has no property {missing[0]!r} to remove")
        ddl.change_properties(dataset, changes)

    return _alter_table(address, table, change)


def _alter_table(address: Address, table: Identifier, change: Callable[[LanceDataset], None]) -> ResultRows:
    version = _change_table(address, table, change)
    return ResultRows([(quote_identifier(table), version)], "table string, version bigint")


def _change_table(address: Address, table: Identifier, change: Callable[[LanceDataset], None]) -> int:
    """Apply a change to the latest version of a table, and return the version afterwards.

    The catalog commits the change if it manages the versions of the table. Raises TableNotFoundError if the table is
    declared but has no data.
    """
    location = locate_table(address, table)
    if location.declared:
        raise TableNotFoundError(
            f"Table {format_identifier(table)} is declared, but nothing has been written to it yet"
        )
    with translate_errors(f"Altering table {format_identifier(table)}"):
        dataset = location.latest()
        change(dataset)
        return int(dataset.version)
