"""The tables that a pipeline writes to, as they are before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import LanceNamespaceError, TableNotFoundError, UnsupportedOperationError
from pennon.identifiers import format_identifier
from pennon.spark.pipeline.references import identifier_of
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
    """A target: its table, and what is there now; no schema and version if the table has to be made."""

    identifier: Identifier
    schema: pa.Schema | None = None
    version: int | None = None


def looked_up(address: Address, definition: Definition, place: Callable[[Path], str]) -> list[TargetTable]:
    """Look at the tables of all targets; errors 1 and 4 (it must not be made) say which line they are about."""
    found = []
    for number, target in enumerate(definition.targets):
        identifier = identifier_of(target.table)
        try:
            found.append(_looked_up(address, identifier, create=target.create))
        except LanceNamespaceError as error:
            raise type(error)(f"{place(('targets', number, 'table'))}: {error}") from error
    return found


def require_management(address: Address, definition: Definition) -> None:
    """Raise 0, with what to do, unless the catalog can show all targets at once."""
    try:
        address.connect().require_common_commits([identifier_of(target.table) for target in definition.targets])
    except UnsupportedOperationError as error:
        remedy = "call enable_table_version_management() once" if address.impl == "dir" else f"see to this: {error}"
        raise UnsupportedOperationError(
            f"To publish all targets in one commit, the catalog has to manage versions: {remedy}, or write "
            "'publish: per-table' into the pipeline"
        ) from error


def _looked_up(address: Address, identifier: Identifier, *, create: bool) -> TargetTable:
    from lance_namespace import NamespaceExistsRequest

    try:
        table, dataset = pin(address, identifier)
    except TableNotFoundError as error:
        if not create:
            raise TableNotFoundError(
                f"Table {format_identifier(identifier)} is not there, and 'create' is false"
            ) from error
        if len(identifier) > 1:
            address.connect().namespace_exists(NamespaceExistsRequest(id=list(identifier[:-1])))
        return TargetTable(identifier)
    return TargetTable(identifier, dataset.schema, table.version)
