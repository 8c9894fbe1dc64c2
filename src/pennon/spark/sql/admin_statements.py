"""Execute the statements about namespaces, dropped tables, protection, maintenance and indexes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.errors import (
    InvalidInputError,
    NamespaceNotFoundError,
    TableIndexAlreadyExistsError,
    TableIndexNotFoundError,
    TableNotFoundError,
    from_error_code,
    translate_errors,
)
from pennon.identifiers import Identifier, format_identifier, quote_identifier
from pennon.spark.commits.destination import locate_table
from pennon.spark.quoting import quote_name
from pennon.spark.reading.pinned import pin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pennon.spark.jobs.table_selection import TablePattern
    from pennon.spark.lake import Lake
    from pennon.spark.query.runner import QueryRunner
    from pennon.spark.sql import statements

_VECTOR_INDEX = "IVF_PQ"
_INDEX_TYPES = {
    "FULLTEXT": "INVERTED",
    "FULL_TEXT": "INVERTED",
    "FTS": "INVERTED",
    "VECTOR": _VECTOR_INDEX,
    "SCALAR": "BTREE",
}
_NUMERIC_OPTIONS = ("num_partitions", "num_sub_vectors", "num_bits", "rows_per_task")


def create_namespace(lake: Lake, statement: statements.CreateNamespace, _runner: QueryRunner) -> DataFrame:
    """Create a namespace."""
    from lance_namespace import CreateNamespaceRequest

    mode = "exist_ok" if statement.if_not_exists else "create"
    request = CreateNamespaceRequest(id=list(statement.namespace), mode=mode, properties=statement.properties or None)
    lake.catalog.create_namespace(request)
    return lake.spark.createDataFrame([(quote_identifier(statement.namespace),)], "namespace string")


def alter_namespace(lake: Lake, statement: statements.AlterNamespace, _runner: QueryRunner) -> DataFrame:
    """Set and remove properties of a namespace. Return all of its properties."""
    properties = lake.catalog.alter_namespace_properties(statement.namespace, statement.changes)
    return lake.spark.createDataFrame(sorted(properties.items()), "key string, value string")


def drop_namespace(lake: Lake, statement: statements.DropNamespace, _runner: QueryRunner) -> DataFrame:
    """Drop a namespace. CASCADE also drops its tables and namespaces."""
    from lance_namespace import DropNamespaceRequest

    behavior = "Cascade" if statement.cascade else "Restrict"
    dropped = True
    try:
        lake.catalog.drop_namespace(DropNamespaceRequest(id=list(statement.namespace), behavior=behavior))
    except NamespaceNotFoundError:
        if not statement.if_exists:
            raise
        dropped = False
    return lake.spark.createDataFrame(
        [(quote_identifier(statement.namespace), dropped)], "namespace string, dropped boolean"
    )


def drop_table(lake: Lake, statement: statements.DropTable, _runner: QueryRunner) -> DataFrame:
    """Drop a table. Its data stays until it is purged; PURGE deletes it immediately."""
    from lance_namespace import DropTableRequest

    context = {"purge": "true"} if statement.purge else None
    dropped = True
    try:
        lake.catalog.drop_table(DropTableRequest(id=list(statement.table), context=context))
    except (TableNotFoundError, NamespaceNotFoundError):
        if not statement.if_exists:
            raise
        dropped = False
    return lake.spark.createDataFrame([(quote_identifier(statement.table), dropped)], "table string, dropped boolean")


def undrop_table(lake: Lake, statement: statements.UndropTable, _runner: QueryRunner) -> DataFrame:
    """Restore a dropped table."""
    location = lake.catalog.undrop_table(statement.table, statement.new_name, statement.deletion_id)
    name = quote_identifier(statement.table if statement.new_name is None else statement.new_name)
    return lake.spark.createDataFrame([(name, location)], "table string, location string")


def undrop_namespace(lake: Lake, statement: statements.UndropNamespace, _runner: QueryRunner) -> DataFrame:
    """Restore a dropped namespace and list the tables that were restored with it."""
    tables = lake.directory.undrop_namespace(statement.namespace, statement.deletion_id)
    return lake.spark.createDataFrame([(quote_identifier(tuple(table)),) for table in tables], "table string")


def purge_table(lake: Lake, statement: statements.PurgeTable, _runner: QueryRunner) -> DataFrame:
    """Delete the data of a dropped table permanently."""
    return _purge_frame(lake, lake.directory.purge_table(statement.table, statement.deletion_id, force=statement.force))


def purge_tables(lake: Lake, statement: statements.PurgeTables, runner: QueryRunner) -> DataFrame:
    """Delete the data of all dropped tables whose retention is over, or that were dropped before a time."""
    before = None if statement.before is None else runner.evaluate_timestamp(statement.before)
    report = lake.directory.purge_tables(deleted_before=before, dry_run=statement.dry_run, force=statement.force)
    return _purge_frame(lake, report)


def protect(lake: Lake, statement: statements.SetProtection, _runner: QueryRunner) -> DataFrame:
    """Protect a table or a namespace from being dropped, or remove the protection."""
    if statement.is_table:
        lake.directory.set_table_protection(statement.identifier, statement.protected)
    else:
        lake.directory.set_namespace_protection(statement.identifier, statement.protected)
    kind = "table" if statement.is_table else "namespace"
    row = (quote_identifier(statement.identifier), statement.protected)
    return lake.spark.createDataFrame([row], f"{kind} string, protected boolean")


def restore(lake: Lake, statement: statements.RestoreTable, runner: QueryRunner) -> DataFrame:
    """Commit a new version of a table with the rows and columns of an old version."""
    selector = runner.resolve_travel(statement.table, statement.travel)
    old, _ = pin(lake.address, statement.table, selector)
    if old.branch is not None:
        raise InvalidInputError(
            f"Table {format_identifier(statement.table)} cannot be restored to a version of branch {old.branch!r}; "
            "name a version of the main branch"
        )
    with translate_errors(f"Restoring table {format_identifier(statement.table)}"):
        latest = locate_table(lake.address, statement.table).latest()
        restored = latest.checkout_version(old.version)
        restored.restore()
    row = (quote_identifier(statement.table), old.version, int(restored.version))
    return lake.spark.createDataFrame([row], "table string, restored_version bigint, version bigint")


def optimize(lake: Lake, statement: statements.Optimize, _runner: QueryRunner) -> DataFrame:
    """Compact small fragments of a table and add new rows to its indexes."""
    from pennon.spark import jobs

    pattern = _match_only(statement.table)
    compacted = _first_row(jobs.compact(lake, pattern, progress=False))
    indexed = _first_row(jobs.optimize_indexes(lake, pattern, progress=False))
    version = indexed["version_after"] or compacted["version_after"] or compacted["version_before"]
    names = ("fragments_before", "fragments_after", "files_removed", "files_added", "bytes_rewritten")
    schema = "table string, version bigint, " + ", ".join(f"{name} bigint" for name in names)
    row = (quote_identifier(statement.table), version, *(compacted[name] for name in names))
    return lake.spark.createDataFrame([row], schema)


def vacuum(lake: Lake, statement: statements.Vacuum, _runner: QueryRunner) -> DataFrame:
    """Delete old versions of a table and the files that only they use."""
    from pennon.spark import jobs

    age = None if statement.hours is None else timedelta(hours=statement.hours)
    done = _first_row(
        jobs.cleanup(lake, _match_only(statement.table), older_than=age, dry_run=statement.dry_run, progress=False)
    )
    names = ("versions_removed", "versions_left", "bytes_removed", "data_files_removed")
    row = (quote_identifier(statement.table), *(done[name] for name in names), statement.dry_run)
    schema = "table string, " + ", ".join(f"{name} bigint" for name in names) + ", dry_run boolean"
    return lake.spark.createDataFrame([row], schema)


def create_index(lake: Lake, statement: statements.CreateIndex, _runner: QueryRunner) -> DataFrame:
    """Create an index on a column."""
    from pennon.spark import jobs

    if len(statement.columns) != 1:
        raise InvalidInputError(
            f"An index of table {format_identifier(statement.table)} needs exactly one column, "
            f"got {len(statement.columns)}"
        )
    column = statement.columns[0]
    name = statement.name or f"{column}_idx"
    _, dataset = pin(lake.address, statement.table)
    existing = [index.name for index in dataset.describe_indices()]
    if name in existing and not statement.replace and not statement.if_not_exists:
        raise TableIndexAlreadyExistsError(f"Table {format_identifier(statement.table)} already has an index {name!r}")
    kind = _find_index_type(dataset.schema, column, statement.kind)
    done = _first_row(
        jobs.index(
            lake,
            _match_only(statement.table),
            column,
            kind,
            name=name,
            replace=statement.replace,
            progress=False,
            **_parse_index_options(statement.options),
        )
    )
    version = done["version_after"] or done["version_before"]
    row = (quote_identifier(statement.table), name, kind, column, done["rows"], version)
    schema = "table string, index string, type string, column string, rows bigint, version bigint"
    return lake.spark.createDataFrame([row], schema)


def drop_index(lake: Lake, statement: statements.DropIndex, _runner: QueryRunner) -> DataFrame:
    """Drop an index."""
    with translate_errors(f"Dropping an index of table {format_identifier(statement.table)}"):
        dataset = locate_table(lake.address, statement.table).latest()
        dropped = statement.name in [one.name for one in dataset.describe_indices()]
        if not dropped and not statement.if_exists:
            raise TableIndexNotFoundError(f"Table {format_identifier(statement.table)} has no index {statement.name!r}")
        if dropped:
            dataset.drop_index(statement.name)
    row = (quote_identifier(statement.table), statement.name, dropped)
    return lake.spark.createDataFrame([row], "table string, index string, dropped boolean")


def _purge_frame(lake: Lake, report: Any) -> DataFrame:
    rows = [
        (quote_identifier(tuple(one.id)), one.deletion_id, one.files, one.bytes, one.error) for one in report.tables
    ]
    schema = "table string, deletionId string, files bigint, bytes bigint, error string"
    return lake.spark.createDataFrame(rows, schema)


def _match_only(table: Identifier) -> TablePattern:
    """Return a pattern for one table, and not for a namespace of the same name."""
    from pennon.spark.jobs.table_selection import TablePattern

    return TablePattern.parse(quote_name(*table))


def _first_row(frame: DataFrame) -> Any:
    """Return the only row of a job's result, or raise the error that the job reports."""
    row = frame.first()
    if row is None:
        raise TableNotFoundError("The table was dropped while the statement ran")
    if row["status"] == "failed":
        raise from_error_code(row["code"], row["message"])
    return row


def _find_index_type(schema: pa.Schema, column: str, requested: str | None) -> str:
    if requested is not None:
        index_type = requested.upper().replace("-", "_")
        return _INDEX_TYPES.get(index_type, index_type)
    field = schema.field(column) if column in schema.names else None
    return _VECTOR_INDEX if field is not None and pa.types.is_fixed_size_list(field.type) else "BTREE"


def _parse_index_options(properties: dict[str, str]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    params: dict[str, Any] = {}
    for key, value in properties.items():
        if key == "metric":
            options[key] = value
        elif key in _NUMERIC_OPTIONS:
            if not value.isdigit():
                raise InvalidInputError(f"The index option {key!r} must be a whole number, got {value!r}")
            options[key] = int(value)
        else:
            params[key] = _parse_parameter(value)
    return {**options, "params": params} if params else options


def _parse_parameter(value: str) -> Any:
    if value.lower() in {"true", "false"}:
        return value.lower() == "true"
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value
