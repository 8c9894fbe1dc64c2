"""Parse the values of properties, which may all be strings. A bad value raises InvalidInputError."""

from __future__ import annotations

from urllib.parse import urlsplit

from pennon import durations
from pennon.errors import InvalidInputError

_TRUE = {"true", "1", "yes", "on"}
_FALSE = {"false", "0", "no", "off"}
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


def parse_boolean(key: str, value: object) -> bool:
    """Return a boolean property."""
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise InvalidInputError(f"Property {key!r} is a boolean (true or false), got {value!r}")


def parse_number(key: str, value: object, largest: int) -> int:
    """Return a property that is a positive number."""
    text = str(value).strip()
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= largest):
        raise InvalidInputError(f"Property {key!r} is a number from 1 to {largest}, got {value!r}")
    return int(text)


def parse_seconds(key: str, value: object) -> float:
    """Return the seconds of a property that is a duration, such as `90s`. They are never zero."""
    return max(durations.parse_milliseconds(value, f"Property {key!r}"), 1) / 1000


def parse_text(key: str, value: object) -> str:
    """Return a text that is not empty and has no control characters."""
    text = "" if value is None else str(value)
    if not text.strip() or any(ord(letter) < ord(" ") for letter in text):
        raise InvalidInputError(f"Property {key!r} is empty or holds a control character")
    return text


def parse_header(key: str, value: object) -> str:
    """Return the value of an HTTP header."""
    text = str(value)
    if not text.isascii() or any(ord(letter) < ord(" ") for letter in text):
        raise InvalidInputError(f"Property {key!r} is no value for a header")
    return text


def parse_uri(value: object, what: str) -> str:
    """Return the address of a server; no user or password may be in it, and no query."""
    text = str(value or "").strip().rstrip("/")
    try:
        parts = urlsplit(text)
        sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        sound = False
    if not sound:
        raise InvalidInputError(f"{what} is not an http or https address")
    if parts.username or parts.password:
        raise InvalidInputError(f"{what} holds a user or password; use 'credential' or 'token'")
    if parts.query or parts.fragment:
        raise InvalidInputError(f"{what} has a query or a fragment")
    return text


def require_no_downgrade(trusted: str, named: str, what: str) -> None:
    """Refuse to leave https for http, where secrets could be read on the way; the machine itself is fine."""
    target = urlsplit(named)
    if urlsplit(trusted).scheme == "https" and target.scheme != "https" and target.hostname not in _LOOPBACK:
        raise InvalidInputError(f"{what} would send secrets by plain http to {target.hostname!r}")
