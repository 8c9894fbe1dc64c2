"""Requiring that decoded JSON is what a protocol says; whose fault it is otherwise is the caller's to say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LARGEST = (1 << 63) - 1


class Fields:
    """Reads fields of objects. What is not as wanted raises `wrong(what, wanted, got)`."""

    def __init__(self, wrong: Callable[[str, str, str], Exception]) -> None:
        self._raised = wrong

    def mapping(self, value: object, what: str) -> dict[str, Any]:
        """Require an object."""
        if not isinstance(value, dict):
            raise self.wrong(what, "an object", value)
        return value

    def text(self, container: Mapping[str, Any], key: str, what: str) -> str:
        """Require a text."""
        value = container.get(key)
        if not isinstance(value, str):
            raise self.wrong(f"{what}: {key!r}", "a text", value)
        return value

    def optional_text(self, container: Mapping[str, Any], key: str, what: str) -> str | None:
        """Require a text or nothing."""
        return None if container.get(key) is None else self.text(container, key, what)

    def number(self, container: Mapping[str, Any], key: str, what: str) -> int:
        """Require a whole number that fits into 64 bits."""
        value = container.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _LARGEST:
            raise self.wrong(f"{what}: {key!r}", "a whole number", value)
        return value

    def numbers(self, container: Mapping[str, Any], key: str, what: str) -> list[int]:
        """Require a list of whole numbers."""
        return [self.number({key: one}, key, what) for one in self.items(container, key, what)]

    def items(self, container: Mapping[str, Any], key: str, what: str, *, required: bool = True) -> list[Any]:
        """Require a list; nothing is an empty one unless it is required."""
        value = container.get(key)
        if value is None and not required:
            return []
        if not isinstance(value, list):
            raise self.wrong(f"{what}: {key!r}", "a list", value)
        return value

    def texts(self, container: Mapping[str, Any], key: str, what: str) -> dict[str, str]:
        """Require an object of texts; nothing is an empty one."""
        value = self.mapping({} if container.get(key) is None else container[key], f"{what}: {key!r}")
        for name, one in value.items():
            if not isinstance(one, str):
                raise self.wrong(f"{what}: {key!r}, {name!r}", "a text", one)
        return dict(value)

    def names(self, value: object, what: str) -> tuple[str, ...]:
        """Require a list of texts."""
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise self.wrong(what, "a list of names", value)
        return tuple(value)

    def wrong(self, what: str, wanted: str, value: object) -> Exception:
        """Give the error about a value that is something else than wanted."""
        return self._raised(what, wanted, "nothing" if value is None else type(value).__name__)
