"""Execute SHOW and DESCRIBE."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.errors import InvalidInputError, TableColumnNotFoundError
from pennon.identifiers import Identifier, format_identifier, quote_identifier
from pennon.spark import lake_listing, types
from pennon.spark.commits.destination import locate_table
from pennon.spark.quoting import fold_name
from pennon.spark.reading.pinned import pin
from pennon.spark.sql.ddl import format_create_table
from pennon.spark.sql.properties import get_table_properties

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from pennon.spark.lake import Lake
    from pennon.spark.query.runner import QueryRunner
    from pennon.spark.sql import statements

_COLUMNS = "col_name string, data_type string, comment string"
_PAGE_SIZE = 1000


def show_namespaces(lake: Lake, statement: statements.ShowNamespaces, _runner: QueryRunner) -> DataFrame:
    """List the namespaces in a namespace."""
    rows = lake_listing.list_namespaces(lake, statement.parent, recursive=False).collect()
    names = [row["name"] for row in rows if _matches(statement.pattern, row["name"])]
    return lake.spark.createDataFrame(
        [(quote_identifier((*statement.parent, name)),) for name in names], "namespace string"
    )


def show_tables(lake: Lake, statement: statements.ShowTables, _runner: QueryRunner) -> DataFrame:
    """List the tables of a namespace, or its dropped tables."""
    if statement.dropped:
        return _show_dropped(lake, statement)
    identifiers = lake_listing.iterate_tables(lake, statement.namespace, recursive=False)
    rows = [(quote_identifier(one[:-1]), one[-1], False) for one in identifiers if _matches(statement.pattern, one[-1])]
    return lake.spark.createDataFrame(rows, "namespace string, tableName string, isTemporary boolean")


def _show_dropped(lake: Lake, statement: statements.ShowTables) -> DataFrame:
    rows: list[tuple[Any, ...]] = []
    token = None
    while True:
        page, token = lake.catalog.list_dropped_tables(statement.namespace, token, _PAGE_SIZE)
        rows += [
            (quote_identifier(tuple(one.id[:-1])), one.id[-1], one.deletion_id, one.dropped_at, one.purgeable_at)
            for one in page
            if _matches(statement.pattern, one.id[-1])
        ]
        if not token:
            break
    schema = "namespace string, tableName string, deletionId string, droppedAt timestamp, purgeableAt timestamp"
    return lake.spark.createDataFrame(rows, schema)


def show_table(lake: Lake, statement: statements.ShowTableDetail, _runner: QueryRunner) -> DataFrame:
    """Show one detail of a table: its columns, properties, indexes, tags, branches or CREATE TABLE statement."""
    if statement.subject == "INDEXES":
        return lake_listing.list_indexes(lake, statement.table)
    if statement.subject == "TAGS":
        return lake_listing.list_tags(lake, statement.table)
    if statement.subject == "BRANCHES":
        return lake_listing.list_branches(lake, statement.table)
    _, dataset = pin(lake.address, statement.table)
    if statement.subject == "COLUMNS":
        return lake.spark.createDataFrame([(name,) for name in dataset.schema.names], "col_name string")
    properties = get_table_properties(dataset)
    if statement.subject == "CREATE TABLE":
        text = format_create_table(statement.table, dataset.schema, properties)
        return lake.spark.createDataFrame([(text,)], "createtab_stmt string")
    if statement.key is not None:
        missing = f"Table {format_identifier(statement.table)} does not have property: {statement.key}"
        rows = [(statement.key, properties.get(statement.key, missing))]
    else:
        rows = sorted(properties.items())
    return lake.spark.createDataFrame(rows, "key string, value string")


def describe_table(lake: Lake, statement: statements.DescribeTable, runner: QueryRunner) -> DataFrame:
    """Describe all columns of a table, one column, or (EXTENDED) the table as well."""
    _, dataset = pin(lake.address, statement.table, runner.resolve_travel(statement.table, statement.travel))
    schema: pa.Schema = dataset.schema
    if statement.column is not None:
        return lake.spark.createDataFrame(
            _describe_one_column(statement.table, schema, statement.column), "info_name string, info_value string"
        )
    rows = [_describe_column(schema.field(name)) for name in schema.names]
    if statement.extended:
        rows += [
            ("", "", ""),
            ("# Detailed Table Information", "", ""),
            *_describe_details(lake, statement.table, dataset),
        ]
    return lake.spark.createDataFrame(rows, _COLUMNS)


def describe_history(lake: Lake, statement: statements.DescribeHistory, _runner: QueryRunner) -> DataFrame:
    """List the versions of a table and their operations, newest first."""
    frame = lake_listing.list_history(lake, statement.table)
    return frame if statement.limit is None else frame.limit(statement.limit)


def describe_namespace(lake: Lake, statement: statements.DescribeNamespace, _runner: QueryRunner) -> DataFrame:
    """Describe a namespace: its name and its properties."""
    from lance_namespace import DescribeNamespaceRequest

    described = lake.catalog.describe_namespace(DescribeNamespaceRequest(id=list(statement.namespace)))
    rows = [("Catalog Name", lake.name), ("Namespace Name", quote_identifier(statement.namespace))]
    rows += sorted((described.properties or {}).items())
    return lake.spark.createDataFrame(rows, "info_name string, info_value string")


def _describe_column(field: pa.Field) -> tuple[str, str, str | None]:
    comment = (field.metadata or {}).get(b"comment")
    return field.name, _format_spark_type(field), None if comment is None else comment.decode()


def _describe_one_column(table: Identifier, schema: pa.Schema, parts: Sequence[str]) -> list[tuple[str, str | None]]:
    if len(parts) != 1:
        raise InvalidInputError(
            f"Only whole columns of table {format_identifier(table)} can be described, not the field {'.'.join(parts)}"
        )
    fields = [field for field in schema if fold_name(field.name) == fold_name(parts[0])]
    if len(fields) != 1:
        raise TableColumnNotFoundError(
            f"Table {format_identifier(table)} has no column {parts[0]!r}; it has {', '.join(schema.names)}"
        )
    name, kind, comment = _describe_column(fields[0])
    nullable = "true" if fields[0].nullable else "false"
    return [
        ("col_name", name),
        ("data_type", kind),
        ("arrow_type", str(fields[0].type)),
        ("nullable", nullable),
        ("comment", comment),
    ]


def _describe_details(lake: Lake, table: Identifier, dataset: Any) -> list[tuple[str, str, str]]:
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
        "Table Properties": ", ".join(f"{key}={value}" for key, value in sorted(get_table_properties(dataset).items())),
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
