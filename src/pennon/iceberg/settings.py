"""Properties of an Iceberg namespace, turned into one frozen settings object.

The names are those that users of pyiceberg know.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pennon import durations
from pennon.config import STORAGE_PREFIX
from pennon.errors import InvalidInputError
from pennon.http_settings import OAUTH2_TEXTS, OAUTH2_URI, HttpSettings
from pennon.property_values import parse_boolean, parse_header, parse_number, parse_seconds, parse_text, parse_uri

if TYPE_CHECKING:
    from collections.abc import Mapping

STORAGE, IMPL = "storage", "impl"
_HEADER_PREFIX = "header."
_LARGEST_PAGE = 100_000
_TEXTS = {
    "warehouse": "warehouse",
    "prefix": "prefix",
    "token": "token",
    **OAUTH2_TEXTS,
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


@dataclass(frozen=True, kw_only=True)
class IcebergSettings(HttpSettings):
    """What an Iceberg namespace was asked to be."""

    warehouse: str | None = None
    prefix: str | None = None
    sigv4_enabled: bool = False
    signing_name: str | None = None
    signing_region: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    root: str | None = None
    managed_by: str = STORAGE
    page_size: int | None = None
    vends_credentials: bool = True
    assumes_lance_tables: bool = False
    max_snapshots: int = 100
    drop_ttl_ms: int = 7 * 24 * 3600 * 1000

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
                headers[key.removeprefix(_HEADER_PREFIX)] = parse_header(key, value)
            else:
                values.update(_value(key, value))
        if "uri" not in values:
            raise InvalidInputError("The Iceberg namespace needs the property 'uri'")
        return cls(**values, headers=headers, storage_options=storage)


def _value(key: str, value: object) -> dict[str, Any]:
    if key == "uri":
        return {"uri": parse_uri(value, "Property 'uri'")}
    if key in _TEXTS:
        text = parse_text(key, value)
        return {_TEXTS[key]: parse_uri(text, f"Property {key!r}") if key == OAUTH2_URI else text}
    if key in _FLAGS:
        return {_FLAGS[key]: parse_boolean(key, value)}
    if key in _TIMES:
        return {_TIMES[key]: parse_seconds(key, value)}
    if key in _NUMBERS:
        name, largest = _NUMBERS[key]
        return {name: parse_number(key, value, largest)}
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
