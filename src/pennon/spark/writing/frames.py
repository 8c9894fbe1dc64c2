"""Staging and writing a DataFrame: what is asked for, and the steps of it."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from pennon.errors import (
    InvalidInputError,
    TableAlreadyExistsError,
    TableNotFoundError,
    translate_errors,
)
from pennon.identifiers import Identifier, format_identifier
from pennon.spark.commits import committing, publishing
from pennon.spark.commits.destination import Destination, located
from pennon.spark.commits.staged import StagedWrite, WriteResult
from pennon.spark.session import is_case_sensitive
from pennon.spark.writing import fragments
from pennon.spark.writing.fragments import FileSettings
from pennon.spark.writing.preparing import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from pennon.spark.address import Address
    from pennon.spark.lake import Lake


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
    **files: Any,
) -> WriteResult:
    """Write a DataFrame in one commit, all of it or nothing.

    `append` adds rows and creates a table that is not there; `overwrite` puts the rows, with their columns, in the
    place of those that are there; `create` (or `error`) raises 5 if the table exists, and `ignore` does nothing then.
    Columns are matched by name; `merge_schema` adds those that the table lacks. A second write of the same `job_id`
    to the table changes nothing. `rebalance` lets Spark even out partitions before they become files. Errors 1, 4
    (a branch of no table), 5, 13, 14, 22.
    """
    wanted = Mode.of(mode)
    settings = FileSettings(**_checked(files))
    committing.check_job(job_id)
    while True:
        destination = found(lake.address, identifier, branch)
        if destination is not None:
            done = done_before(destination, job_id)
            if done is not None:
                return done
            if wanted is Mode.IGNORE:
                return WriteResult(identifier, int(destination.latest().version), skipped=True)
            if wanted is Mode.CREATE:
                raise TableAlreadyExistsError(f"Table already exists: {format_identifier(identifier)}")
        try:
            staged = _staged(
                lake,
                df,
                identifier,
                destination,
                overwrite=wanted is Mode.OVERWRITE,
                merge_schema=merge_schema,
                properties=properties,
                rebalance=rebalance,
                settings=settings,
            )
            return publishing.publish_or_discard(lake, staged, job_id=job_id)
        except TableAlreadyExistsError:
            # Somebody made the table meanwhile: it is there now, and is looked at once more.
            if destination is not None:
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
    **files: Any,
) -> StagedWrite:
    """Write the data files of a write and show nothing; mode `append`, `overwrite` or `create`. Errors as of `write`.

    What fails leaves nothing. What is staged stays until it is published or discarded, whatever becomes of the driver.
    `run` names the notes of what is written (see `files`): whoever chose it can remove what a killed driver left.
    """
    wanted = Mode.of(mode)
    destination = found(lake.address, identifier, branch)
    if wanted is Mode.IGNORE:
        raise InvalidInputError(f"Nothing can be staged with mode 'ignore', for table {format_identifier(identifier)}")
    if wanted is Mode.CREATE and destination is not None:
        raise TableAlreadyExistsError(f"Table already exists: {format_identifier(identifier)}")
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
        run=run,
    )


def _checked(files: Mapping[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(files) - set(FileSettings.__dataclass_fields__))
    if unknown:
        raise InvalidInputError(f"A write has no option {unknown[0]!r}")
    return {name: value for name, value in files.items() if value is not None}


def found(address: Address, identifier: Identifier, branch: str | None) -> Destination | None:
    """Find the table that is written to; None if it has no version, or is not there."""
    try:
        destination = located(address, identifier, branch)
    except TableNotFoundError:
        if branch is not None:
            raise
        return None
    if destination.declared and branch is not None:
        raise TableNotFoundError(
            f"Table {format_identifier(identifier)} has no version, so it has no branch {branch!r}"
        )
    return None if destination.declared else destination


def done_before(destination: Destination, job_id: str | None) -> WriteResult | None:
    """Tell what an earlier run of the job has written; None if nothing."""
    if job_id is None:
        return None
    with translate_errors(f"Looking for job {job_id!r} in table {format_identifier(destination.identifier)}"):
        earlier = committing.find_in(destination.latest(), destination, job_id)
    return None if earlier is None else publishing.result_of(destination.identifier, earlier)


def _staged(
    lake: Lake,
    df: DataFrame,
    identifier: Identifier,
    destination: Destination | None,
    *,
    rebalance: bool,
    **plan: Any,
) -> StagedWrite:
    if df.isStreaming:
        raise InvalidInputError(
            f"A stream is written by writeStream, not by a write, to table {format_identifier(identifier)}"
        )
    exact = is_case_sensitive(lake.spark)
    prepared = prepare(lake.address, identifier, destination, df.schema, case_sensitive=exact, **plan)
    return prepared.staged(fragments.run(df.hint("rebalance") if rebalance else df, prepared.writer))
