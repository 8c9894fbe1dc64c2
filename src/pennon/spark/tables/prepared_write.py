"""Planning a write: its columns, its mode and the format of its files."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from pennon.errors import InvalidInputError, translate_errors
from pennon.identifiers import Identifier, format_identifier
from pennon.spark import types
from pennon.spark.tables.destination import new_destination
from pennon.spark.tables.fragment_writer import FileSettings, FragmentWriter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance import LanceDataset
    from pyspark.sql.types import StructType

    from pennon.spark.address import Address
    from pennon.spark.tables.destination import Destination


def prepare_write(
    address: Address,
    identifier: Identifier,
    destination: Destination | None,
    schema: StructType,
    *,
    overwrite: bool = False,
    merge_schema: bool = False,
    settings: FileSettings | None = None,
    properties: Mapping[str, str] | None = None,
    run: str | None = None,
    case_sensitive: bool = False,
) -> FragmentWriter:
    """Plan a write of rows with this schema to a table, or to a new table if `destination` is None.

    Raises NamespaceNotFoundError, TableAlreadyExistsError, and InvalidInputError if columns do not fit, before anything
    is written. `run` is the name of the notes about the files (see `run_files`). `case_sensitive` is Spark's setting:
    without it, names of columns also match if they differ only in case.
    """
    if not schema.fields:
        raise InvalidInputError(
            f"A table needs at least one column: nothing can be written to {format_identifier(identifier)}"
        )
    base = None
    if destination is not None:
        with translate_errors(f"Opening table {format_identifier(identifier)}"):
            base = destination.latest()
    try:
        if base is None:
            plan = types.plan_write(schema, types.table_schema(schema))
        elif overwrite:
            plan = types.plan_write(schema, _overwritten_schema(schema, base.schema))
        else:
            plan = types.plan_write(schema, base.schema, merge_schema=merge_schema, case_sensitive=case_sensitive)
    except InvalidInputError as error:
        raise InvalidInputError(f"Table {format_identifier(identifier)} cannot be written: {error}") from error
    run = run or uuid.uuid4().hex
    settings = settings or FileSettings()
    if destination is None or base is None:
        location = new_destination(address, identifier)
        return FragmentWriter(location, plan, run, "create", None, settings, properties=dict(properties or {}))
    mode = "overwrite" if overwrite or plan.new_columns else "append"
    settings = _with_table_format(identifier, base, settings)
    table = destination.pin_version(int(base.version)).identified_by(base)
    return FragmentWriter(destination, plan, run, mode, table, settings)


def _overwritten_schema(incoming: StructType, table: pa.Schema) -> pa.Schema:
    """Return the schema after an overwrite: the DataFrame's columns, with the table's Arrow types if they fit.

    Spark has no vectors or unsigned numbers, so a column with an unchanged Spark type keeps its Arrow type.
    """
    before = {column.name: column.dataType.simpleString() for column in types.spark_schema(table)}
    return pa.schema(
        [
            table.field(column.name) if before.get(column.name) == column.dataType.simpleString() else wanted
            for wanted, column in zip(types.table_schema(incoming), incoming, strict=True)
        ]
    )


def _with_table_format(identifier: Identifier, dataset: LanceDataset, settings: FileSettings) -> FileSettings:
    """Return settings with the format version of the table: all files of a table have the same one."""
    there = str(dataset.data_storage_version)
    asked = settings.data_storage_version
    if asked is not None and asked != there:
        raise InvalidInputError(
            f"Table {format_identifier(identifier)} has files of format version {there}; data_storage_version "
            f"{asked!r} is for new tables"
        )
    return replace(settings, data_storage_version=there)
