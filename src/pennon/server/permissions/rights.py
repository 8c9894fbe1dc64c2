"""Rights on namespaces and tables, and the guard that every route asks before it does anything."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pennon.identifiers import Identifier

Kind = Literal["namespace", "table"]
SCOPE_KEY = "pennon.principal"
"""The key of an ASGI scope that has the principal of the request."""


class Right(Enum):
    """What a principal may do with a namespace or a table."""

    SEE = "see"
    """Know that it exists, and list its children."""
    READ = "read"
    """Read rows, schema, versions and properties."""
    WRITE = "write"
    """Change rows, indexes, tags, branches and versions."""
    CREATE = "create"
    """Create, declare, register and rename objects inside a namespace."""
    MANAGE = "manage"
    """Drop and restore, change the schema and properties."""
    ADMINISTER = "administer"
    """Purge, protect, migrate, and choose who manages versions."""


@dataclass(frozen=True)
class Principal:
    """Who sends a request."""

    name: str
    groups: frozenset[str] = frozenset()


ANONYMOUS = Principal("anonymous")
"""The only user of a server without users."""


def principal_of(scope: Mapping[str, object]) -> Principal:
    """Return the principal of a request."""
    found = scope.get(SCOPE_KEY)
    return found if isinstance(found, Principal) else ANONYMOUS


@dataclass(frozen=True)
class Need:
    """A right on an object."""

    right: Right
    kind: Kind
    identifier: Identifier


class Guard(Protocol):
    """Decides what a principal may do."""

    def require(self, principal: Principal, right: Right, identifier: Identifier, *, kind: Kind) -> None:
        """Raise PermissionDeniedError unless the principal has the right.

        Raises NamespaceNotFoundError or TableNotFoundError instead if the principal may not know of the object.
        """

    def visible(self, principal: Principal, identifiers: Sequence[Identifier], *, kind: Kind) -> list[Identifier]:
        """Return the objects of a listing that the principal may see, in the same order."""


class OpenGuard:
    """Allows everything."""

    def require(self, principal: Principal, right: Right, identifier: Identifier, *, kind: Kind) -> None:
        """Return always."""

    def visible(self, principal: Principal, identifiers: Sequence[Identifier], *, kind: Kind) -> list[Identifier]:  # noqa: ARG002
        """Return all of them."""
        return list(identifiers)
