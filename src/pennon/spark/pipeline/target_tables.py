"""The tables that a pipeline writes to, before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import LanceNamespaceError, TableNotFoundError, UnsupportedOperationError
from pennon.identifiers import format_identifier
from pennon.spark.pipeline.statements import parse_table_name
from pennon.spark.reading.pinned import pin

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from pennon.identifiers import Identifier
    from pennon.spark.address import Address
    from pennon.spark.pipeline.model import Definition
    from pennon.spark.pipeline.problems import Path


@dataclass(frozen=True)
class TargetTable:
    """The table of a target; schema and version are None if the table must be created."""

    identifier: Identifier
    schema: pa.Schema | None = None
    version: int | None = None


def look_up_targets(address: Address, definition: Definition, locate: Callable[[Path], str]) -> list[TargetTable]:
    """Return the tables of all targets.

    Raises NamespaceNotFoundError, or TableNotFoundError if the target must not be created, with the position in the
    file.
    """
    found = []
    for number, target in enumerate(definition.targets):
        identifier = parse_table_name(target.table)
        try:
            found.append(_look_up(address, identifier, create=target.create))
        except LanceNamespaceError as error:
            raise type(error)(f"{locate(('targets', number, 'table'))}: {error}") from error
    return found


def require_version_management(address: Address, definition: Definition) -> None:
    """Raise UnsupportedOperationError, with a remedy, unless the catalog can publish all targets at once."""
    try:
        address.connect().require_common_commits([parse_table_name(target.table) for target in definition.targets])
    except UnsupportedOperationError as error:
        remedy = "call enable_table_version_management() once" if address.impl == "dir" else str(error)
        raise UnsupportedOperationError(
            f"To publish all targets in one commit, the catalog must manage versions: {remedy}, or set "
            "'publish: per-table' in the pipeline"
        ) from error


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
