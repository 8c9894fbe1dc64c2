"""Names in paths and queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.identifiers import namespace_identifier, table_identifier
from pennon.server.requests import SLASH

if TYPE_CHECKING:
    from pennon.identifiers import Identifier

_SEPARATOR = "\x1f"


def namespace_of(text: str) -> Identifier:
    """Return the namespace in a path or query: names joined by the unit separator."""
    return namespace_identifier(_slashed(text).split(_SEPARATOR))


def table_of(namespace: str, name: str) -> Identifier:
    """Return the identifier of a table in a path."""
    return table_identifier([*namespace_of(namespace), _slashed(name)])


def _slashed(part: str) -> str:
    return part.replace(SLASH, "/")
