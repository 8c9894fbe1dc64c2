"""Reading what clients send: each field is what the protocol says, or the request is refused (13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError
from pennon.identifiers import Identifier, namespace_identifier, table_identifier
from pennon.server.requests import SLASH

if TYPE_CHECKING:
    from collections.abc import Mapping

SEPARATOR = "\x1f"
_LARGEST = (1 << 63) - 1


def namespace_of(text: str) -> Identifier:
    """Read a namespace as paths and queries hold it: its names joined by the unit separator."""
    return namespace_identifier(_slashed(text).split(SEPARATOR))


def table_of(namespace: str, name: str) -> Identifier:
    """Read a table's identifier out of a path."""
    return table_identifier([*namespace_of(namespace), _slashed(name)])


def mapping(value: object, what: str) -> dict[str, Any]:
    """Require an object."""
    if not isinstance(value, dict):
        raise _wrong(what, "an object", value)
    return value


def text(container: Mapping[str, Any], key: str, what: str) -> str:
    """Require a text."""
    value = container.get(key)
    if not isinstance(value, str):
        raise _wrong(f"{what}: {key!r}", "a text", value)
    return value


def number(container: Mapping[str, Any], key: str, what: str) -> int:
    """Require a whole number that fits into 64 bits."""
    value = container.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _LARGEST:
        raise _wrong(f"{what}: {key!r}", "a whole number", value)
    return value


def numbers(container: Mapping[str, Any], key: str, what: str) -> list[int]:
    """Require a list of whole numbers."""
    return [number({key: one}, key, what) for one in items(container, key, what)]


def items(container: Mapping[str, Any], key: str, what: str, *, required: bool = True) -> list[Any]:
    """Require a list; nothing is an empty one unless it is required."""
    value = container.get(key)
    if value is None and not required:
        return []
    if not isinstance(value, list):
        raise _wrong(f"{what}: {key!r}", "a list", value)
    return value


def texts(container: Mapping[str, Any], key: str, what: str) -> dict[str, str]:
    """Require an object of texts; nothing is an empty one."""
    value = mapping({} if container.get(key) is None else container[key], f"{what}: {key!r}")
    for name, one in value.items():
        if not name or not isinstance(one, str):
            raise _wrong(f"{what}: {key!r}, {name!r}", "a text", one)
    return dict(value)


def names(container: Mapping[str, Any], key: str, what: str) -> list[str]:
    """Require a list of texts; nothing is an empty one."""
    value = items(container, key, what, required=False)
    if not all(isinstance(one, str) for one in value):
        raise _wrong(f"{what}: {key!r}", "a list of texts", value)
    return value


def identifier(container: Mapping[str, Any], key: str, what: str) -> Identifier:
    """Require the identifier of a table in a namespace."""
    value = mapping(container.get(key), f"{what}: {key!r}")
    parent = names(value, "namespace", f"{what}: {key!r}")
    if not parent:
        raise InvalidInputError(f"{what}: {key!r} names no namespace, and tables are in namespaces only")
    return table_identifier([*parent, text(value, "name", f"{what}: {key!r}")])


def _slashed(part: str) -> str:
    return part.replace(SLASH, "/")


def _wrong(what: str, wanted: str, value: object) -> InvalidInputError:
    got = "nothing" if value is None else type(value).__name__
    return InvalidInputError(f"{what} must be {wanted}, got {got}")
