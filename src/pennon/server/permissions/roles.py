"""Roles: the rights that a policy grants together."""

from __future__ import annotations

from enum import Enum

from pennon.server.permissions.rights import Right


class Role(Enum):
    """A role. Each has the rights of those before it."""

    READER = "reader"
    WRITER = "writer"
    OWNER = "owner"
    ADMIN = "admin"

    @property
    def rights(self) -> frozenset[Right]:
        """What the role allows."""
        return _RIGHTS[self]


_READER = frozenset({Right.SEE, Right.READ})
_WRITER = _READER | {Right.WRITE}
_OWNER = _WRITER | {Right.CREATE, Right.MANAGE}
_RIGHTS = {
    Role.READER: _READER,
    Role.WRITER: _WRITER,
    Role.OWNER: _OWNER,
    Role.ADMIN: _OWNER | {Right.ADMINISTER},
}
