"""Preparing a write: the writer for its tasks, and the staged write from their results."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from pennon.errors import InvalidInputError, translate_errors
from pennon.identifiers import Identifier, format_identifier
from pennon.spark import types
from pennon.spark.tables.destination import new_destination
from pennon.spark.tables.fragment_writer import FileSettings, FragmentWriter, WrittenFragments
from pennon.spark.tables.schema_evolution import Evolution
from pennon.spark.tables.staged_write import StagedWrite

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance import LanceDataset, LanceOperation
    from pyspark.sql.types import StructType

    from pennon.spark.address import Address
    from pennon.spark.tables.destination import Destination


@dataclass(frozen=True)
class PreparedWrite:
    """A planned write, which can be sent between processes."""

    writer: FragmentWriter
    read_version: int
    """The version that the write is based on; 0 for a new table."""
    overwrite: bool = False
    base: pa.Schema | None = None
    """The schema of that version."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties of the table, if it is new."""

    @property
    def is_new(self) -> bool:
        """Return True if the table is not in the catalog yet."""
        return self.read_version == 0

    def stage(self, done: WrittenFragments) -> StagedWrite:
        """Return the staged write for the fragments of all tasks."""
        plan, destination = self.writer.plan, self.writer.destination
        evolution = None
        if plan.new_columns and not self.is_new and not self.overwrite:
            evolution = Evolution(destination.identifier, plan.schema, self.base, done.fragments)
        return StagedWrite(
            destination.identifier,
            self._operation(done, evolution),
            self.read_version,
            done.rows,
            done.bytes,
            done.files,
            destination,
            self.writer.run,
            new=self.is_new,
            blobs=types.has_blobs(plan.schema),
            evolution=evolution,
            properties=dict(self.properties),
        )

    def _operation(self, done: WrittenFragments, evolution: Evolution | None) -> LanceOperation.BaseOperation | None:
        """Return the Lance operation of the write; None for an append without rows."""
        from lance import LanceOperation
        from lance.fragment import FragmentMetadata

        if evolution is not None:
            return evolution.build_operation(self.writer.destination.pin_version(self.read_version).open())
        fragments = [FragmentMetadata.from_json(json.dumps(fragment)) for fragment in done.fragments]
        if self.is_new or self.overwrite:
            return LanceOperation.Overwrite(self.writer.plan.schema, fragments)
        return LanceOperation.Append(fragments) if fragments else None


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
) -> PreparedWrite:
    """Plan a write of rows with this schema to a table, or to a new table if `destination` is None.

    Raises NamespaceNotFoundError, TableAlreadyExistsError, and InvalidInputError if columns do not fit, before anything
    is written. `run` is the name of the notes about the files (see `run_files`). `case_sensitive` is Spark's setting:
    without it, names of columns also match if they differ only in case.
    """
    if not schema.fields:
        raise InvalidInputError(
            f"A table needs at least one column: nothing can be written to {format_identifier(identifier)}"
        )
    run = run or uuid.uuid4().hex
    settings = settings or FileSettings()
    if destination is None:
        plan = _match_columns(identifier, schema, None)
        writer = FragmentWriter(new_destination(address, identifier), plan, run, "create", None, settings)
        return PreparedWrite(writer, 0, properties=dict(properties or {}))
    with translate_errors(f"Opening table {format_identifier(identifier)}"):
        base = destination.latest()
    plan = _match_columns(
        identifier,
        schema,
        base.schema,
        overwrite=overwrite,
        merge_schema=merge_schema,
        case_sensitive=case_sensitive,
    )
    mode = "overwrite" if overwrite or plan.new_columns else "append"
    settings = _with_table_format(identifier, base, settings)
    version = int(base.version)
    table = destination.pin_version(version).identified_by(base)
    writer = FragmentWriter(destination, plan, run, mode, table, settings)
    return PreparedWrite(writer, version, overwrite, base.schema)


def _match_columns(
    identifier: Identifier,
    incoming: StructType,
    table: pa.Schema | None,
    *,
    overwrite: bool = False,
    merge_schema: bool = False,
    case_sensitive: bool = False,
) -> types.WritePlan:
    """Return the plan of a write; raises InvalidInputError, naming the table, if columns do not fit."""
    try:
        if table is None:
            return types.plan_write(incoming, types.table_schema(incoming))
        if overwrite:
            return types.plan_write(incoming, _overwritten_schema(incoming, table))
        return types.plan_write(incoming, table, merge_schema=merge_schema, case_sensitive=case_sensitive)
    except InvalidInputError as error:
        raise InvalidInputError(f"Table {format_identifier(identifier)} cannot be written: {error}") from error


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
            f"{asked!r} is for new "
            "tables"
        )
    return replace(settings, data_storage_version=there)
