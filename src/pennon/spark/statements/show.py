"""Execute SHOW and DESCRIBE."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from pennon.catalog_pages import iterate_dropped_tables, iterate_namespaces, iterate_tables
from pennon.errors import InvalidInputError
from pennon.identifiers import Identifier, format_identifier, quote_identifier
from pennon.spark import lake_listing, types
from pennon.spark.lake_listing import ResultRows
from pennon.spark.quoting import fold_name
from pennon.spark.reading.pinned import pin
from pennon.spark.statements import ddl
from pennon.spark.tables.destination import locate_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance import LanceDataset

    from pennon.spark.address import Address
    from pennon.spark.lake import Lake
    from pennon.spark.query.references import TimeTravel
    from pennon.spark.query.runner import QueryRunner

_LISTINGS = {
    "INDEXES": lake_listing.list_indexes,
    "INDICES": lake_listing.list_indexes,
    "TAGS": lake_listing.list_tags,
    "BRANCHES": lake_listing.list_branches,
}


def show_namespaces(address: Address, parent: Identifier, pattern: str | None) -> ResultRows:
    """List the namespaces in a namespace."""
    found = iterate_namespaces(address.connect(), parent, recursive=False)
    return ResultRows([(quote_identifier(one),) for one in found if _matches(pattern, one[-1])], "namespace string")


def show_tables(address: Address, namespace: Identifier, pattern: str | None) -> ResultRows:
    """List the tables of a namespace."""
    found = iterate_tables(address.connect(), namespace)
    rows = [(quote_identifier(one[:-1]), one[-1], False) for one in found if _matches(pattern, one[-1])]
    return ResultRows(rows, "namespace string, tableName string, isTemporary boolean")


def show_dropped_tables(address: Address, namespace: Identifier, pattern: str | None) -> ResultRows:
    """List the dropped tables of a namespace."""
    rows = [
        (quote_identifier(tuple(one.id[:-1])), one.id[-1], one.deletion_id, one.dropped_at, one.purgeable_at)
        for one in iterate_dropped_tables(address.connect(), namespace)
        if _matches(pattern, one.id[-1])
    ]
    schema = "namespace string, tableName string, deletionId string, droppedAt timestamp, purgeableAt timestamp"
    return ResultRows(rows, schema)


def show_table_listing(address: Address, subject: str, table: Identifier) -> ResultRows:
    """List the indexes, tags or branches of a table; `subject` is that keyword."""
    return _LISTINGS[subject](pin(address, table)[1])


def show_columns(address: Address, table: Identifier) -> ResultRows:
    """List the columns of a table."""
    return ResultRows([(name,) for name in pin(address, table)[1].schema.names], "col_name string")


def show_create_table(address: Address, table: Identifier) -> ResultRows:
    """Show the statement that creates a table with the same columns and properties."""
    _, dataset = pin(address, table)
    text = ddl.format_create_table(table, dataset.schema, ddl.get_properties(dataset))
    return ResultRows([(text,)], "createtab_stmt string")


def show_properties(address: Address, table: Identifier, key: str | None) -> ResultRows:
    """List the properties of a table, or one of them."""
    properties = ddl.get_properties(pin(address, table)[1])
    if key is not None:
        missing = f"Table {format_identifier(table)} does not have property: {key}"
        properties = {key: properties.get(key, missing)}
    return ResultRows(sorted(properties.items()), "key string, value string")


def describe_table(
    lake: Lake,
    runner: QueryRunner,
    table: Identifier,
    column: Sequence[str] | None,
    travel: TimeTravel | None,
    *,
    extended: bool,
) -> ResultRows:
    """Describe all columns of a table, one column, or (EXTENDED) the table as well."""
    _, dataset = pin(lake.address, table, runner.resolve_travel(table, travel))
    if column is not None:
        return _describe_column(table, dataset.schema, column)
    rows: list[tuple[str, str, str | None]] = [
        (field.name, _format_spark_type(field), ddl.get_comment(field)) for field in dataset.schema
    ]
    if extended:
        rows += [("", "", ""), ("# Detailed Table Information", "", ""), *_describe_details(lake, table, dataset)]
    return ResultRows(rows, "col_name string, data_type string, comment string")


def describe_history(address: Address, table: Identifier, limit: int | None) -> ResultRows:
    """List the versions of a table and their operations, newest first."""
    rows, schema = lake_listing.list_history(pin(address, table)[1])
    return ResultRows(rows[:limit], schema)


def _describe_column(table: Identifier, schema: pa.Schema, parts: Sequence[str]) -> ResultRows:
    if len(parts) != 1:
        raise InvalidInputError(
            f"Only whole columns of table {format_identifier(table)} can be described, not the field {'.'.join(parts)}"
        )
    fields = [field for field in schema if fold_name(field.name) == fold_name(parts[0])]
    if len(fields) != 1:
        raise ddl.column_not_found(table, schema, parts)
    field = fields[0]
    rows = [
        ("col_name", field.name),
        ("data_type", _format_spark_type(field)),
        ("arrow_type", str(field.type)),
        ("nullable", str(field.nullable).lower()),
        ("comment", ddl.get_comment(field)),
    ]
    return ResultRows(rows, "info_name string, info_value string")


def _describe_details(lake: Lake, table: Identifier, dataset: LanceDataset) -> list[tuple[str, str, str]]:
    location = locate_table(lake.address, table)
    facts = {
        "Catalog": lake.name,
        "Namespace": quote_identifier(table[:-1]),
        "Table": table[-1],
        "Location": location.uri,
        "Provider": "lance",
        "Version": dataset.version,
        "Rows": dataset.count_rows(),
        "Fragments": len(dataset.get_fragments()),
        "Storage Version": dataset.data_storage_version,
        "Versions Managed By Catalog": str(location.managed).lower(),
        "Table Properties": ", ".join(f"{key}={value}" for key, value in sorted(ddl.get_properties(dataset).items())),
    }
    return [(name, str(value), "") for name, value in facts.items()]


def _format_spark_type(field: pa.Field) -> str:
    return types.spark_schema(pa.schema([field])).fields[0].dataType.simpleString()


def _matches(pattern: str | None, name: str) -> bool:
    """Return True if a name matches a pattern of SHOW: `*` is any text, `|` separates patterns, case is ignored."""
    if pattern is None:
        return True
    return any(
        re.fullmatch(".*".join(map(re.escape, one.strip().split("*"))), name, re.IGNORECASE) is not None
        for one in pattern.split("|")
    )
