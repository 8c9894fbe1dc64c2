"""Read fields of decoded JSON and check their types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LARGEST = (1 << 63) - 1


class FieldReader:
    """Reads fields of objects. A field of the wrong type raises `make_error(what, expected, actual)`."""

    def __init__(self, make_error: Callable[[str, str, str], Exception]) -> None:
        self._make_error = make_error

    def mapping(self, value: object, what: str) -> dict[str, Any]:
        """Return an object."""
        if not isinstance(value, dict):
            raise self.wrong(what, "an object", value)
        return value

    def text(self, container: Mapping[str, Any], key: str, what: str) -> str:
        """Return a string field."""
        value = container.get(key)
        if not isinstance(value, str):
            raise self.wrong(f"{what}: {key!r}", "a text", value)
        return value

    def optional_text(self, container: Mapping[str, Any], key: str, what: str) -> str | None:
        """Return a string field, or None if it is missing or null."""
        return None if container.get(key) is None else self.text(container, key, what)

    def number(self, container: Mapping[str, Any], key: str, what: str) -> int:
        """Return an integer field of at most 64 bits."""
        value = container.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _LARGEST:
            raise self.wrong(f"{what}: {key!r}", "a whole number", value)
        return value

    def items(self, container: Mapping[str, Any], key: str, what: str, *, required: bool = True) -> list[Any]:
        """Return a list field; empty if it is missing or null and not `required`."""
        value = container.get(key)
        if value is None and not required:
            return []
        if not isinstance(value, list):
            raise self.wrong(f"{what}: {key!r}", "a list", value)
        return value

    def texts(self, container: Mapping[str, Any], key: str, what: str) -> dict[str, str]:
        """Return an object whose values are strings; empty if it is missing or null."""
        value = self.mapping({} if container.get(key) is None else container[key], f"{what}: {key!r}")
        for name, one in value.items():
            if not isinstance(one, str):
                raise self.wrong(f"{what}: {key!r}, {name!r}", "a text", one)
        return dict(value)

    def names(self, value: object, what: str) -> tuple[str, ...]:
        """Return a list of strings."""
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise self.wrong(what, "a list of names", value)
        return tuple(value)

    def wrong(self, what: str, expected: str, value: object) -> Exception:
        """Return the error for a value of the wrong type."""
        return self._make_error(what, expected, "nothing" if value is None else type(value).__name__)
