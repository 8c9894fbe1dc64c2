"""Properties of an Iceberg namespace, turned into one frozen settings object.

The names are those that users of pyiceberg know. A secret never shows in `repr`, and `redacted` takes it out of texts
that come from elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pennon import durations
from pennon.config import STORAGE_PREFIX, parse_boolean
from pennon.errors import InvalidInputError
from pennon.redaction import hide_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

STORAGE, IMPL = "storage", "impl"
_HEADER_PREFIX = "header."
_LARGEST_PAGE = 100_000
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_TEXTS = {
    "warehouse": "warehouse",
    "prefix": "prefix",
    "token": "token",
    "credential": "credential",
    "oauth2-server-uri": "oauth2_server_uri",
    "scope": "scope",
    "audience": "audience",
    "resource": "resource",
    "rest.signing-name": "signing_name",
    "rest.signing-region": "signing_region",
    "client.access-key-id": "access_key_id",
    "client.secret-access-key": "secret_access_key",
    "client.session-token": "session_token",
    "ssl.cabundle": "ca_bundle",
    "ssl.client.cert": "client_certificate",
    "ssl.client.key": "client_key",
    "root": "root",
}
_FLAGS = {
    "rest.sigv4-enabled": "sigv4_enabled",
    "vended-credentials-enabled": "vends_credentials",
    "assume-lance-tables": "assumes_lance_tables",
}
_TIMES = {"connect_timeout": "connect_seconds", "read_timeout": "read_seconds", "retry_timeout": "retry_seconds"}
_NUMBERS = {
    "rest-page-size": ("page_size", _LARGEST_PAGE),
    "max_answer_bytes": ("max_answer_bytes", 1 << 31),
    "max_snapshots": ("max_snapshots", _LARGEST_PAGE),
}


@dataclass(frozen=True)
class IcebergSettings:
    """What an Iceberg namespace was asked to be."""

    uri: str
    warehouse: str | None = None
    prefix: str | None = None
    token: str | None = field(default=None, repr=False)
    credential: str | None = field(default=None, repr=False)
    oauth2_server_uri: str | None = None
    scope: str | None = None
    audience: str | None = None
    resource: str | None = None
    sigv4_enabled: bool = False
    signing_name: str | None = None
    signing_region: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    ca_bundle: str | None = None
    client_certificate: str | None = None
    client_key: str | None = field(default=None, repr=False)
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    root: str | None = None
    managed_by: str = STORAGE
    page_size: int | None = None
    vends_credentials: bool = True
    assumes_lance_tables: bool = False
    connect_seconds: float = 10.0
    read_seconds: float = 60.0
    retry_seconds: float = 60.0
    max_answer_bytes: int = 256 << 20
    max_snapshots: int = 100
    drop_ttl_ms: int = 7 * 24 * 3600 * 1000
    storage_options: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> IcebergSettings:
        """Return the settings in properties, which may all be strings. Raises InvalidInputError for a bad one."""
        values: dict[str, Any] = {}
        headers: dict[str, str] = {}
        storage: dict[str, str] = {}
        for key, value in properties.items():
            if key.startswith(STORAGE_PREFIX) and len(key) > len(STORAGE_PREFIX):
                storage[key.removeprefix(STORAGE_PREFIX)] = str(value)
            elif key.startswith(_HEADER_PREFIX) and len(key) > len(_HEADER_PREFIX):
                headers[key.removeprefix(_HEADER_PREFIX)] = _header(key, value)
            else:
                values.update(_value(key, value))
        if "uri" not in values:
            raise InvalidInputError("The Iceberg namespace needs the property 'uri'")
        return cls(**values, headers=headers, storage_options=storage)

    def redacted(self, text: str) -> str:
        """Return a foreign text with the secrets replaced."""
        return hide_secrets(text, self._secrets())

    def _secrets(self) -> list[str]:
        given = [getattr(self, one.name) for one in fields(self) if not one.repr]
        parts: list[str] = []
        for value in given:
            parts += value.values() if isinstance(value, dict) else [value] if value else []
        if self.credential:
            parts.append(self.credential.partition(":")[2])
        parts += [part for value in self.headers.values() for part in value.split(" ")]
        return parts


def checked_uri(value: object, what: str) -> str:
    """Check the address of a server; no user or password may be in it, and no query."""
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


def _value(key: str, value: object) -> dict[str, Any]:
    if key == "uri":
        return {"uri": checked_uri(value, "Property 'uri'")}
    if key in _TEXTS:
        return {_TEXTS[key]: _text(key, value)}
    if key in _FLAGS:
        return {_FLAGS[key]: parse_boolean(key, value)}
    if key in _TIMES:
        return {_TIMES[key]: max(durations.parse_milliseconds(value, f"Property {key!r}"), 1) / 1000}
    if key in _NUMBERS:
        name, largest = _NUMBERS[key]
        return {name: _number(key, value, largest)}
    if key == "drop_ttl":
        return {"drop_ttl_ms": durations.parse_milliseconds(value, "Property 'drop_ttl'")}
    if key == "managed_by":
        return {"managed_by": parse_manager(value)}
    raise InvalidInputError(f"Unknown property {key!r} of the Iceberg namespace")


def parse_manager(value: object) -> str:
    """Return who manages the versions of a table: `storage` or `impl`, in any case."""
    text = str(value).strip().lower()
    if text not in {STORAGE, IMPL}:
        raise InvalidInputError(f"'managed_by' is {STORAGE!r} or {IMPL!r}, got {value!r}")
    return text


def _text(key: str, value: object) -> str:
    text = "" if value is None else str(value)
    if not text.strip() or any(ord(letter) < ord(" ") for letter in text):
        raise InvalidInputError(f"Property {key!r} is empty or holds a control character")
    return checked_uri(text, f"Property {key!r}") if key == "oauth2-server-uri" else text


def _header(key: str, value: object) -> str:
    text = str(value)
    if not text.isascii() or any(ord(letter) < ord(" ") for letter in text):
        raise InvalidInputError(f"Property {key!r} is no value for a header")
    return text


def _number(key: str, value: object, largest: int) -> int:
    text = str(value).strip()
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= largest):
        raise InvalidInputError(f"Property {key!r} is a number from 1 to {largest}, got {value!r}")
    return int(text)
