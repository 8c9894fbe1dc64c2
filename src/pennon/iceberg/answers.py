"""Reading a server's answers: whatever it sends, it is what the protocol says or a clear error (18)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pennon.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Mapping

_SHOWN = 300


class BadAnswerError(InternalError):
    """The server's answer is not what the protocol says."""


def decoded(body: bytes, what: str) -> dict[str, Any]:
    """Read an answer that is a JSON object."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadAnswerError(f"{what}: the server's answer is not JSON ({len(body)} bytes)") from error
    return mapping(answer, what)


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


def optional_text(container: Mapping[str, Any], key: str, what: str) -> str | None:
    """Require a text or nothing."""
    return None if container.get(key) is None else text(container, key, what)


def number(container: Mapping[str, Any], key: str, what: str) -> int:
    """Require a whole number."""
    value = container.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(f"{what}: {key!r}", "a whole number", value)
    return value


def texts(container: Mapping[str, Any], key: str, what: str) -> dict[str, str]:
    """Require an object of texts; one that is missing is empty."""
    value = container.get(key)
    if value is None:
        return {}
    entries = mapping(value, f"{what}: {key!r}")
    for name, entry in entries.items():
        if not isinstance(entry, str):
            raise _wrong(f"{what}: {key!r}, {name!r}", "a text", entry)
    return dict(entries)


def items(container: Mapping[str, Any], key: str, what: str, *, required: bool = True) -> list[Any]:
    """Require a list."""
    value = container.get(key)
    if value is None and not required:
        return []
    if not isinstance(value, list):
        raise _wrong(f"{what}: {key!r}", "a list", value)
    return value


def names(value: object, what: str) -> tuple[str, ...]:
    """Require a namespace: a list of texts."""
    if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
        raise _wrong(what, "a list of names", value)
    return tuple(value)


def error_of(body: bytes) -> tuple[str, str]:
    """Give type and message of an error, as far as the answer has them; never fails."""
    try:
        error = json.loads(body)["error"]
        kind, message = str(error.get("type") or ""), str(error.get("message") or "")
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return "", ""
    return kind[:_SHOWN], message.partition("\n")[0][:_SHOWN]


def _wrong(what: str, wanted: str, value: object) -> BadAnswerError:
    got = "nothing" if value is None else type(value).__name__
    return BadAnswerError(f"{what}: the server should answer {wanted}, got {got}")
