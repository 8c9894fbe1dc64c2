"""Staging and writing a DataFrame."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from pennon.errors import (
    InvalidInputError,
    TableAlreadyExistsError,
    TableNotFoundError,
    translate_errors,
)
from pennon.identifiers import Identifier, format_identifier
from pennon.spark.session_settings import is_case_sensitive
from pennon.spark.tables import fragment_writer, job_commits, publishing
from pennon.spark.tables.destination import Destination, locate_table
from pennon.spark.tables.prepared_write import prepare_write
from pennon.spark.tables.staged_write import StagedWrite, WriteResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from pennon.spark.address import Address
    from pennon.spark.tables.fragment_writer import FileSettings


class WriteMode(str, Enum):
    """How a write treats an existing and a missing table."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    CREATE = "create"
    IGNORE = "ignore"

    @classmethod
    def of(cls, text: str) -> WriteMode:
        """Return the mode for a text; raises InvalidInputError if it is unknown."""
        known = {"error": cls.CREATE, "errorifexists": cls.CREATE, **{mode.value: mode for mode in cls}}
        try:
            return known[text.lower()]
        except (KeyError, AttributeError):
            raise InvalidInputError(
                f"The mode of a write must be one of {', '.join(sorted(known))}, got {text!r}"
            ) from None


def write(
    address: Address,
    df: DataFrame,
    identifier: Identifier,
    mode: str = "append",
    *,
    merge_schema: bool = False,
    job_id: str | None = None,
    branch: str | None = None,
    properties: Mapping[str, str] | None = None,
    rebalance: bool = False,
    settings: FileSettings | None = None,
) -> WriteResult:
    """Write a DataFrame in one commit, or not at all.

    `append` adds rows, and creates a missing table. `overwrite` replaces all rows and columns. If the table exists,
    `create` (or `error`) raises TableAlreadyExistsError and `ignore` does nothing. Columns are matched by name;
    `merge_schema` adds those that the table lacks. A second write with the same `job_id` to the table changes nothing.
    With `rebalance`, Spark evens out partitions before they are written.

    Raises NamespaceNotFoundError, TableNotFoundError for a branch of a missing table, TableBranchNotFoundError,
    InvalidInputError if columns or values do not fit, and ConcurrentModificationError.
    """
    wanted = WriteMode.of(mode)
    job_commits.require_job_id(job_id)
    while True:
        destination = find_destination(address, identifier, branch)
        if destination is not None:
            done = find_earlier_write(destination, job_id)
            if done is not None:
                return done
            if wanted is WriteMode.IGNORE:
                return WriteResult(identifier, int(destination.latest().version), skipped=True)
            _require_missing(wanted, identifier)
        frame = df.hint("rebalance") if rebalance else df
        try:
            staged = _stage(
                *(address, frame, identifier, destination, wanted),
                merge_schema=merge_schema,
                properties=properties,
                settings=settings,
            )
            return publishing.publish_or_discard(staged, job_id=job_id)
        except TableAlreadyExistsError:
            # Another client created the table since, so start again with the existing table.
            if destination is not None:
                raise


def stage(
    address: Address,
    df: DataFrame,
    identifier: Identifier,
    mode: str = "append",
    *,
    merge_schema: bool = False,
    branch: str | None = None,
    properties: Mapping[str, str] | None = None,
    run: str | None = None,
) -> StagedWrite:
    """Write the data files of a write without publishing them; mode `append`, `overwrite` or `create`.

    Raises the errors of `write`. A failure leaves no files. Staged files stay until they are published or discarded,
    even if the driver ends. `run` is the name of the notes about the files (see `run_files`), with which the files of a
    killed driver can be deleted.
    """
    wanted = WriteMode.of(mode)
    if wanted is WriteMode.IGNORE:
        raise InvalidInputError(
            f"Mode 'ignore' cannot be used to stage a write to table {format_identifier(identifier)}"
        )
    destination = find_destination(address, identifier, branch)
    if destination is not None:
        _require_missing(wanted, identifier)
    return _stage(
        address, df, identifier, destination, wanted, merge_schema=merge_schema, properties=properties, run=run
    )


def find_destination(address: Address, identifier: Identifier, branch: str | None) -> Destination | None:
    """Return the destination of a write, or None if the table has no version or does not exist."""
    try:
        destination = locate_table(address, identifier, branch)
    except TableNotFoundError:
        if branch is not None:
            raise
        return None
    if destination.declared and branch is not None:
        raise TableNotFoundError(
            f"Table {format_identifier(identifier)} has no version, so it has no branch {branch!r}"
        )
    return None if destination.declared else destination


def find_earlier_write(destination: Destination, job_id: str | None) -> WriteResult | None:
    """Return the result of an earlier run of the job, or None."""
    if job_id is None:
        return None
    with translate_errors(f"Looking for job {job_id!r} in table {format_identifier(destination.identifier)}"):
        earlier = job_commits.find_job_in(destination.latest(), destination, job_id)
    return None if earlier is None else publishing.summarize_commit(destination.identifier, earlier)


def _require_missing(mode: WriteMode, identifier: Identifier) -> None:
    if mode is WriteMode.CREATE:
        raise TableAlreadyExistsError(f"Table already exists: {format_identifier(identifier)}")


def _stage(
    address: Address,
    df: DataFrame,
    identifier: Identifier,
    destination: Destination | None,
    mode: WriteMode,
    *,
    merge_schema: bool,
    properties: Mapping[str, str] | None,
    settings: FileSettings | None = None,
    run: str | None = None,
) -> StagedWrite:
    if df.isStreaming:
        raise InvalidInputError(f"Use writeStream to write a stream to table {format_identifier(identifier)}")
    writer = prepare_write(
        *(address, identifier, destination, df.schema),
        overwrite=mode is WriteMode.OVERWRITE,
        merge_schema=merge_schema,
        settings=settings,
        properties=properties,
        run=run,
        case_sensitive=is_case_sensitive(df.sparkSession),
    )
    return writer.stage(fragment_writer.write_dataframe(df, writer))
