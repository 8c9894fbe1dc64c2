"""Writing a DataFrame to a table: executors write data files, the driver makes one commit.

A write has two halves. `stage` puts data files on storage, where nobody sees them; `publish` makes them a version of
the table. `write` does both. A crash in between leaves files that nothing refers to; the same job, run again, writes
the table once.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.errors import (
    InvalidInputError,
    TableAlreadyExistsError,
    TableNotFoundError,
    translated,
)
from pennon.identifiers import Identifier, shown
from pennon.spark import committing, publishing, types
from pennon.spark.destination import Destination, located, place_for
from pennon.spark.evolution import Evolution
from pennon.spark.fragments import FileSettings, FragmentWriter, Written, run
from pennon.spark.staged import StagedWrite, WriteResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance import LanceDataset, LanceOperation
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from pennon.spark.lake import Lake

__all__ = [
    "StagedWrite",
    "WriteResult",
    "discard",
    "publish",
    "publish_or_discard",
    "publish_together",
    "readable",
    "stage",
    "write",
]

discard = publishing.discard
publish = publishing.publish
publish_or_discard = publishing.publish_or_discard
publish_together = publishing.publish_together
readable = publishing.readable


class Mode(str, Enum):
    """What a write does to a table that is there, and to one that is not."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    CREATE = "create"
    IGNORE = "ignore"

    @classmethod
    def of(cls, text: str) -> Mode:
        """Read a mode as Spark and people write it."""
        known = {"error": cls.CREATE, "errorifexists": cls.CREATE, **{mode.value: mode for mode in cls}}
        try:
            return known[text.lower()]
        except (KeyError, AttributeError):
            raise InvalidInputError(f"The mode of a write is one of {', '.join(sorted(known))}, got {text!r}") from None


def write(
    lake: Lake,
    df: DataFrame,
    identifier: Identifier,
    mode: str = "append",
    *,
    merge_schema: bool = False,
    job_id: str | None = None,
    branch: str | None = None,
    properties: Mapping[str, str] | None = None,
    rebalance: bool = False,
    **files: Any,  # noqa: ANN401 - those of FileSettings
) -> WriteResult:
    """Write a DataFrame in one commit, all of it or nothing.

    `append` adds rows and creates a table that is not there; `overwrite` puts the rows, with their columns, in the
    place of those that are there; `create` (or `error`) raises 5 if the table exists, and `ignore` does nothing then.
    Columns are matched by name; `merge_schema` adds those that the table lacks. A second write of the same `job_id`
    to the table changes nothing. `rebalance` lets Spark even out partitions before they become files. Errors 1, 4
    (a branch of no table), 5, 13, 14, 22.
    """
    wanted = Mode.of(mode)
    committing.check_job(job_id)
    while True:
        destination = _found(lake, identifier, branch)
        if destination is not None:
            done = _done_before(destination, job_id)
            if done is not None:
                return done
            if wanted is Mode.IGNORE:
                return WriteResult(identifier, int(destination.latest().version), skipped=True)
            if wanted is Mode.CREATE:
                raise TableAlreadyExistsError(f"Table already exists: {shown(identifier)}")
        staged = _staged(
            lake,
            df,
            identifier,
            destination,
            overwrite=wanted is Mode.OVERWRITE,
            merge_schema=merge_schema,
            properties=properties,
            rebalance=rebalance,
            settings=FileSettings(**_checked(files)),
        )
        try:
            return publishing.publish_or_discard(lake, staged, job_id=job_id)
        except TableAlreadyExistsError:
            if wanted is Mode.CREATE:
                raise


def stage(
    lake: Lake,
    df: DataFrame,
    identifier: Identifier,
    mode: str = "append",
    *,
    merge_schema: bool = False,
    branch: str | None = None,
    properties: Mapping[str, str] | None = None,
    rebalance: bool = False,
    run: str | None = None,
    **files: Any,  # noqa: ANN401 - those of FileSettings
) -> StagedWrite:
    """Write the data files of a write and show nothing; mode `append`, `overwrite` or `create`. Errors as of `write`.

    What fails leaves nothing. What is staged stays until it is published or discarded, whatever becomes of the driver.
    `run` names the notes of what is written (see `files`): whoever chose it can remove what a killed driver left.
    """
    wanted = Mode.of(mode)
    destination = _found(lake, identifier, branch)
    if wanted is Mode.IGNORE:
        raise InvalidInputError(f"Nothing can be staged with mode 'ignore', for table {shown(identifier)}")
    if wanted is Mode.CREATE and destination is not None:
        raise TableAlreadyExistsError(f"Table already exists: {shown(identifier)}")
    return _staged(
        lake,
        df,
        identifier,
        destination,
        overwrite=wanted is Mode.OVERWRITE,
        merge_schema=merge_schema,
        properties=properties,
        rebalance=rebalance,
        settings=FileSettings(**_checked(files)),
        run_id=run,
    )


def _checked(files: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(files) - set(FileSettings.__dataclass_fields__))
    if unknown:
        raise InvalidInputError(f"A write has no option {unknown[0]!r}")
    return {name: value for name, value in files.items() if value is not None}


def _found(lake: Lake, identifier: Identifier, branch: str | None) -> Destination | None:
    """Find the table that is written to; None if it has no version, or is not there."""
    try:
        destination = located(lake.address, identifier, branch)
    except TableNotFoundError:
        if branch is not None:
            raise
        return None
    if destination.declared and branch is not None:
        raise TableNotFoundError(f"Table {shown(identifier)} has no version, so it has no branch {branch!r}")
    return None if destination.declared else destination


def _done_before(destination: Destination, job_id: str | None) -> WriteResult | None:
    if job_id is None:
        return None
    with translated(f"Looking for job {job_id!r} in table {shown(destination.identifier)}"):
        found = committing.find_in(destination.latest(), destination, job_id)
    return None if found is None else publishing.result_of(destination.identifier, found)


def _staged(
    lake: Lake,
    df: DataFrame,
    identifier: Identifier,
    destination: Destination | None,
    *,
    overwrite: bool,
    merge_schema: bool,
    properties: Mapping[str, str] | None,
    rebalance: bool,
    settings: FileSettings,
    run_id: str | None = None,
) -> StagedWrite:
    if df.isStreaming:
        raise InvalidInputError(f"A stream is written by writeStream, not by a write, to table {shown(identifier)}")
    if not df.schema.fields:
        raise InvalidInputError(f"A table needs at least one column: nothing can be written to {shown(identifier)}")
    new = destination is None
    run_id = run_id or uuid.uuid4().hex
    if destination is None:
        # What cannot be kept is refused before a place is asked for.
        plan = _plan(identifier, df.schema, None, overwrite=False, merge_schema=False)
        writer = FragmentWriter(place_for(lake.address, identifier), plan, run_id, "create", None, settings)
        read_version, base = 0, None
    else:
        with translated(f"Opening table {shown(identifier)}"):
            base = destination.latest()
        read_version = int(base.version)
        plan = _plan(identifier, df.schema, base.schema, overwrite=overwrite, merge_schema=merge_schema)
        mode = "overwrite" if overwrite or plan.new_columns else "append"
        settings = _like_the_table(identifier, base, settings)
        writer = FragmentWriter(destination, plan, run_id, mode, destination.pinned(read_version), settings)
    frame = df.hint("rebalance") if rebalance else df
    done = run(frame, writer)
    evolution = None
    if base is not None and plan.new_columns and not overwrite:
        evolution = Evolution(identifier, plan.schema, base.schema, done.fragments)
    return StagedWrite(
        identifier,
        _operation(done, plan, base, evolution, replace_all=new or overwrite),
        read_version,
        done.rows,
        done.bytes,
        done.files,
        writer.destination,
        writer.run,
        new=new,
        blobs=any(types.is_blob(field) for field in plan.schema),
        evolution=evolution,
        properties=dict(properties or {}),
    )


def _plan(
    identifier: Identifier, incoming: StructType, table: pa.Schema | None, *, overwrite: bool, merge_schema: bool
) -> types.WritePlan:
    """Match columns, or say which table they do not fit."""
    try:
        if table is None:
            return types.write_plan(incoming, types.table_schema(incoming))
        if overwrite:
            return types.write_plan(incoming, _replaced(incoming, table))
        return types.write_plan(incoming, table, merge_schema=merge_schema)
    except InvalidInputError as error:
        raise InvalidInputError(f"Table {shown(identifier)} cannot be written: {error}") from error


def _replaced(incoming: StructType, table: pa.Schema) -> pa.Schema:
    """Give the schema of a table that is overwritten: the DataFrame's columns, of the table's Arrow types if they fit.

    Spark does not know vectors, unsigned numbers and others: a column that still looks the same to it stays what it is.
    """
    before = {field.name: field for field in types.spark_schema(table)}
    fields = []
    for wanted, field in zip(types.table_schema(incoming), incoming, strict=True):
        same = field.name in before and before[field.name].dataType.simpleString() == field.dataType.simpleString()
        fields.append(table.field(field.name) if same else wanted)
    return pa.schema(fields)


def _like_the_table(identifier: Identifier, dataset: LanceDataset, settings: FileSettings) -> FileSettings:
    """All files of a table are of one version of the format."""
    there = str(dataset.data_storage_version)
    asked = settings.data_storage_version
    if asked is not None and asked != there:
        raise InvalidInputError(
            f"Table {shown(identifier)} has files of format version {there}; data_storage_version {asked!r} is for new "
            "tables"
        )
    return replace(settings, data_storage_version=there)


def _operation(
    done: Written,
    plan: types.WritePlan,
    base: LanceDataset | None,
    evolution: Evolution | None,
    *,
    replace_all: bool,
) -> LanceOperation.BaseOperation | None:
    """Make the operation that a write is; None for an append of nothing."""
    from lance import LanceOperation  # noqa: PLC0415 - it must not be imported before a worker forks
    from lance.fragment import FragmentMetadata  # noqa: PLC0415

    if evolution is not None and base is not None:
        return evolution.operation(base)
    fragments = [FragmentMetadata.from_json(json.dumps(fragment)) for fragment in done.fragments]
    if replace_all:
        return LanceOperation.Overwrite(plan.schema, fragments)
    return LanceOperation.Append(fragments) if fragments else None
