"""Reading what clients send: each field is what the protocol says, or the request is refused (13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError
from pennon.identifiers import Identifier, namespace_identifier, table_identifier
from pennon.json_fields import FieldReader
from pennon.server.requests import SLASH

if TYPE_CHECKING:
    from collections.abc import Mapping

SEPARATOR = "\x1f"


def _wrong(what: str, wanted: str, got: str) -> InvalidInputError:
    return InvalidInputError(f"{what} must be {wanted}, got {got}")


_fields = FieldReader(_wrong)
mapping, items, text = _fields.mapping, _fields.items, _fields.text
number, numbers = _fields.number, _fields.numbers


def namespace_of(text: str) -> Identifier:
    """Read a namespace as paths and queries hold it: its names joined by the unit separator."""
    return namespace_identifier(_slashed(text).split(SEPARATOR))


def table_of(namespace: str, name: str) -> Identifier:
    """Read a table's identifier out of a path."""
    return table_identifier([*namespace_of(namespace), _slashed(name)])


def texts(container: Mapping[str, Any], key: str, what: str) -> dict[str, str]:
    """Require an object of texts under names that are not empty; nothing is an empty one."""
    found = _fields.texts(container, key, what)
    if "" in found:
        raise InvalidInputError(f"{what}: {key!r} has an entry without a name")
    return found


def names(container: Mapping[str, Any], key: str, what: str) -> list[str]:
    """Require a list of texts; nothing is an empty one."""
    return list(_fields.names(items(container, key, what, required=False), f"{what}: {key!r}"))


def identifier(container: Mapping[str, Any], key: str, what: str) -> Identifier:
    """Require the identifier of a table in a namespace."""
    value = mapping(container.get(key), f"{what}: {key!r}")
    parent = names(value, "namespace", f"{what}: {key!r}")
    if not parent:
        raise InvalidInputError(f"{what}: {key!r} names no namespace, and tables are in namespaces only")
    return table_identifier([*parent, text(value, "name", f"{what}: {key!r}")])


def _slashed(part: str) -> str:
    return part.replace(SLASH, "/")
