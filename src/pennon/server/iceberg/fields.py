"""Read the fields of requests. Raises InvalidInputError for a field that does not follow the protocol."""

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
    """Return the namespace in a path or query: names joined by the unit separator."""
    return namespace_identifier(_slashed(text).split(SEPARATOR))


def table_of(namespace: str, name: str) -> Identifier:
    """Return the identifier of a table in a path."""
    return table_identifier([*namespace_of(namespace), _slashed(name)])


def texts(container: Mapping[str, Any], key: str, what: str) -> dict[str, str]:
    """Return an object of texts, or an empty one. Names must not be empty."""
    found = _fields.texts(container, key, what)
    if "" in found:
        raise InvalidInputError(f"{what}: {key!r} has an entry without a name")
    return found


def names(container: Mapping[str, Any], key: str, what: str) -> list[str]:
    """Return a list of texts, or an empty one."""
    return list(_fields.names(items(container, key, what, required=False), f"{what}: {key!r}"))


def identifier(container: Mapping[str, Any], key: str, what: str) -> Identifier:
    """Return the identifier of a table, which must be in a namespace."""
    value = mapping(container.get(key), f"{what}: {key!r}")
    parent = names(value, "namespace", f"{what}: {key!r}")
    if not parent:
        raise InvalidInputError(f"{what}: {key!r} names no namespace, and tables are in namespaces only")
    return table_identifier([*parent, text(value, "name", f"{what}: {key!r}")])


def _slashed(part: str) -> str:
    return part.replace(SLASH, "/")
