"""Protected tables and namespaces: drop and purge refuse them unless forced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import InvalidTableStateError
from pennon.identifiers import Identifier, format_identifier, format_object_id

if TYPE_CHECKING:
    from pennon.directory.lookup.directories import TableDirectory
    from pennon.directory.manifest import Row

FORCE_HINT = "lift the protection, or force it"


def require_unprotected(row: Row, *, force: bool) -> None:
    """Raise InvalidTableStateError if a row is protected, unless forced."""
    if row.protected and not force:
        kind = row.object_type.capitalize()
        raise InvalidTableStateError(f"{kind} {format_object_id(row.object_id)} is protected: {FORCE_HINT}")


def require_unprotected_directory(identifier: Identifier, directory: TableDirectory, *, force: bool) -> None:
    """Raise InvalidTableStateError if the directory of a root table is protected, unless forced."""
    if directory.protected and not force:
        raise InvalidTableStateError(f"Table {format_identifier(identifier)} is protected: {FORCE_HINT}")
