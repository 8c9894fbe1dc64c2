"""The namespaces in which dropped tables are kept on a server. No request can name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon import identifiers
from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pennon.identifiers import Identifier

TRASH: Identifier = ("pennon_trash",)
"""Where tables are moved when they are dropped. S3 Tables and its like want names of letters, digits and inner `_`."""
OLD_TRASH: Identifier = ("__pennon_trash",)
"""Where earlier releases moved them."""
TRASHES = (TRASH, OLD_TRASH)


def namespace_identifier(value: Sequence[str] | None) -> Identifier:
    """Validate a namespace's identifier, as `pennon.identifiers` does; raise InvalidInputError for a reserved one."""
    return require_not_reserved(identifiers.namespace_identifier(value))


def table_identifier(value: Sequence[str] | None) -> Identifier:
    """Validate a table's identifier, as `pennon.identifiers` does; raise InvalidInputError for a reserved one."""
    return require_not_reserved(identifiers.table_identifier(value))


def require_not_reserved(identifier: Identifier) -> Identifier:
    """Return the identifier; raise InvalidInputError if it is in a namespace of dropped tables."""
    if identifier[:1] in TRASHES:
        raise InvalidInputError(
            f"The namespace {identifier[0]!r} is reserved for dropped tables; use undrop_table or purge_table for them"
        )
    return identifier
