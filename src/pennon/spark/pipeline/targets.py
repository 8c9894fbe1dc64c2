"""The tables that a pipeline writes to: looking them up before a run, and publishing what is staged for them, once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import LanceNamespaceError, NamespaceNotFoundError, TableNotFoundError, UnsupportedOperationError
from pennon.identifiers import format_identifier, parse_table_name
from pennon.spark import tables
from pennon.spark.reading.pinned import pin
from pennon.spark.tables import job_commits
from pennon.spark.tables.destination import locate_table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    import pyarrow as pa

    from pennon.identifiers import Identifier
    from pennon.pipeline_runs.run_state import RunState
    from pennon.spark.address import Address
    from pennon.spark.pipeline.model import Definition
    from pennon.spark.tables.staged_write import StagedWrite
    from pennon.yaml_documents.problems import Path

_PUBLISHING = "publishing"


@dataclass(frozen=True)
class TargetTable:
    """The table of a target; schema and version are None if the table must be created."""

    identifier: Identifier
    schema: pa.Schema | None = None
    version: int | None = None


def look_up_targets(
    address: Address, definition: Definition, report: Callable[[Path, LanceNamespaceError], None]
) -> list[TargetTable]:
    """Return the tables of all targets.

    Reports NamespaceNotFoundError, or TableNotFoundError if the target must not be created.
    """
    found = []
    for number, target in enumerate(definition.targets):
        identifier = parse_table_name(target.table)
        try:
            found.append(_look_up(address, identifier, create=target.create))
        except LanceNamespaceError as error:
            report(("targets", number, "table"), error)
            found.append(TargetTable(identifier))
    return found


def require_version_management(address: Address, definition: Definition) -> None:
    """Raise UnsupportedOperationError, with a remedy, unless the catalog can publish all targets at once."""
    try:
        address.connect().require_common_commits([parse_table_name(target.table) for target in definition.targets])
    except UnsupportedOperationError as error:
        once = "run 'pennon manage-versions' or call enable_table_version_management() once"
        remedy = once if address.impl == "dir" else str(error)
        raise UnsupportedOperationError(
            f"To publish all targets in one commit, the catalog must manage versions: {remedy}, or set "
            "'publish: per-table' in the pipeline"
        ) from error


def has_versions(address: Address, identifier: Identifier) -> bool:
    """Return True if a table exists and has a version."""
    try:
        return not locate_table(address, identifier).declared
    except TableNotFoundError:
        return False


def has_moved(staged: StagedWrite) -> bool:
    """Return True if a table has another version than when something was staged for it."""
    if staged.new:
        return has_versions(staged.address, staged.identifier)
    return int(staged.destination.latest().version) != staged.read_version


def find_published(address: Address, state: RunState, definition: Definition) -> dict[int, int]:
    """Return the targets that an earlier attempt has published: their numbers and versions."""
    if _PUBLISHING not in state.finished_work():
        return {}
    found = {}
    for number, target in enumerate(definition.targets):
        try:
            committed = job_commits.find_job(address, parse_table_name(target.table), state.job_id)
        except (TableNotFoundError, NamespaceNotFoundError):
            continue
        if committed is not None:
            found[number] = committed.version
    return found


def publish(
    state: RunState, staged: Mapping[int, StagedWrite], *, together: bool, unchanged: Collection[Identifier]
) -> dict[int, int | None]:
    """Publish what is staged, all at once if `together`, and return the versions by target number.

    Raises ConcurrentModificationError if a table that must be `unchanged` has another version than when it was staged.
    """
    state.record(_PUBLISHING, {})
    if together:
        results = tables.publish_together(list(staged.values()), job_id=state.job_id, unchanged=unchanged)
    else:
        results = [tables.publish(one, job_id=state.job_id) for one in staged.values()]
    return {number: one.version for number, one in zip(staged, results, strict=True)}


def _look_up(address: Address, identifier: Identifier, *, create: bool) -> TargetTable:
    from lance_namespace import NamespaceExistsRequest

    try:
        table, dataset = pin(address, identifier)
    except TableNotFoundError as error:
        if not create:
            raise TableNotFoundError(
                f"Table {format_identifier(identifier)} does not exist, and 'create' is false"
            ) from error
        if len(identifier) > 1:
            address.connect().namespace_exists(NamespaceExistsRequest(id=list(identifier[:-1])))
        return TargetTable(identifier)
    return TargetTable(identifier, dataset.schema, table.version)
