"""Parse JSON that is stored in a root, where other clients may have written it: bounded and unambiguous.

Text that cannot be parsed raises UnreadableJsonError with the reason. No other error is raised, even if the text is
very large or deeply nested.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_BYTES = 16 << 20
MAX_DEPTH = 64
MAX_DIGITS = 32

_STRUCTURE = re.compile(r'["\\\[\]{}]')
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


class UnreadableJsonError(ValueError):
    """A stored text is not JSON, or exceeds the bounds. The message is the reason."""


def parse_stored_object(text: str | bytes, *, any_number: bool = False) -> dict[str, Any]:
    """Return a stored JSON object. Raises UnreadableJsonError if it is anything else."""
    value = parse_stored_json(text, any_number=any_number)
    if not isinstance(value, dict):
        raise UnreadableJsonError(f"it is JSON, but {_kind(value)} instead of an object")
    return value


def parse_stored_json(text: str | bytes, *, any_number: bool = False) -> Any:  # noqa: ANN401 - any JSON value
    """Return a stored JSON value. Raises UnreadableJsonError if it is not JSON, too large, too deep, or ambiguous.

    A number out of bounds makes the whole text unreadable. With `any_number` it is returned as infinite or NaN instead.
    """
    if len(text) > MAX_BYTES:
        raise UnreadableJsonError(f"it is larger than {MAX_BYTES >> 20} MiB")
    try:
        decoded = text if isinstance(text, str) else text.decode()
    except UnicodeDecodeError:
        raise UnreadableJsonError("it is not UTF-8 text") from None
    _require_shallow(decoded)
    try:
        value = (_TOLERANT if any_number else _STRICT).decode(decoded)
    except UnreadableJsonError:
        raise
    except ValueError as error:
        raise UnreadableJsonError(f"it is not JSON: {error}") from None
    except RecursionError:
        raise UnreadableJsonError("it is nested too deeply") from None
    if _SURROGATE_ESCAPE.search(decoded):
        _require_unicode(value)
    return value


def parse_digits(text: object, longest: int = 20) -> int | None:
    """Return a whole number written in ASCII digits, or None if the text is anything else or has too many digits."""
    if not isinstance(text, str) or not text.isascii() or not text.isdecimal() or len(text) > longest:
        return None
    return int(text)


def _require_shallow(text: str) -> None:
    """Raise UnreadableJsonError if the text is nested too deeply for the parser, whose limit is the thread's stack."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = 0
    for bracket in _brackets(text):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_DEPTH:
            raise UnreadableJsonError(f"it is nested more than {MAX_DEPTH} levels deep")


def _brackets(text: str) -> Iterator[str]:
    """Iterate over the brackets of a JSON text, except those in strings."""
    in_string, escaped = False, -1
    for found in _STRUCTURE.finditer(text):
        mark = found[0]
        if found.start() == escaped:
            continue
        if in_string and mark == "\\":
            escaped = found.end()
        elif mark == '"':
            in_string = not in_string
        elif not in_string and mark != "\\":
            yield mark


def _require_unicode(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UnreadableJsonError("it contains a lone surrogate, which is not text") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UnreadableJsonError(f"it has the key {twice[:50]!r} twice")
    return content


def _whole_number(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise UnreadableJsonError(f"it has a number of {len(text):,} digits")
    return int(text)


def _fraction(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise UnreadableJsonError(f"it has a number that is out of range: {text[:50]}")
    return number


def _constant(text: str) -> None:
    raise UnreadableJsonError(f"it has {text}, which is not JSON")


def _kind(value: object) -> str:
    names = {list: "a list", str: "a text", bool: "a truth value", int: "a number", float: "a number"}
    return names.get(type(value), "null")


def _any_whole_number(text: str) -> float:
    return int(text) if len(text) <= MAX_DIGITS else math.inf


_STRICT = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_whole_number, parse_float=_fraction, parse_constant=_constant
)
_TOLERANT = json.JSONDecoder(object_pairs_hook=_object, parse_int=_any_whole_number)
