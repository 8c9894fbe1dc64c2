"""The guard of a server with a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import PermissionDeniedError
from pennon.identifiers import (
    ROOT,
    Identifier,
    format_identifier,
    namespace_not_found,
    parent_not_found,
    table_not_found,
)
from pennon.server.permissions.rights import Guard, Kind, OpenGuard, Principal, Right
from pennon.server.permissions.users import TOKEN_USER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pennon.server.permissions.policy_file import PolicySource

_ALL = frozenset(Right)


class PolicyGuard:
    """Decides by a policy alone, before anything is read.

    So what a principal learns of an object that it may not see does not depend on whether the object exists: neither
    the answer nor its time. The answer is the one for an object that does not exist.
    """

    def __init__(self, source: PolicySource, *, trusted: Principal | None = None) -> None:
        self._source = source
        self._trusted = trusted

    def require(self, principal: Principal, right: Right, identifier: Identifier, *, kind: Kind) -> None:
        """Raise PermissionDeniedError unless the principal has the right.

        Raises NamespaceNotFoundError or TableNotFoundError instead if the principal may not know of the object.
        """
        rights = self.rights(principal, identifier, kind)
        if right in rights:
            return
        if Right.SEE in rights:
            raise _denied(principal, right, identifier, kind)
        sees_parent = Right.SEE in self.rights(principal, identifier[:-1], "namespace")
        if right is Right.CREATE:
            raise _denied(principal, right, identifier, kind) if sees_parent else parent_not_found(identifier)
        if kind == "table" and not sees_parent:
            raise namespace_not_found(identifier[:-1])
        raise table_not_found(identifier) if kind == "table" else namespace_not_found(identifier)

    def visible(self, principal: Principal, identifiers: Sequence[Identifier], *, kind: Kind) -> list[Identifier]:
        """Return the objects of a listing that the principal may see, in the same order."""
        return [one for one in identifiers if Right.SEE in self.rights(principal, one, kind)]

    def rights(self, principal: Principal, identifier: Identifier, kind: Kind) -> frozenset[Right]:
        """Return what a principal may do with an object."""
        return _ALL if principal is self._trusted else self._source.current().rights(principal, identifier, kind)


def choose_guard(source: PolicySource | None) -> Guard:
    """Return the guard of a policy, or the one that allows everything. The server's own token may do everything."""
    return OpenGuard() if source is None else PolicyGuard(source, trusted=TOKEN_USER)


def _denied(principal: Principal, right: Right, identifier: Identifier, kind: Kind) -> PermissionDeniedError:
    what = format_identifier(identifier) if identifier == ROOT else f"{kind} {format_identifier(identifier)}"
    return PermissionDeniedError(f"{principal.name} needs the right {right.value!r} on {what}")
