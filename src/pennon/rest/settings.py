"""Properties of a REST namespace, turned into one frozen settings object. The names are those of Lance's own client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pennon.config import STORAGE_PREFIX
from pennon.errors import InvalidInputError
from pennon.http_settings import OAUTH2_TEXTS, OAUTH2_URI, HttpSettings
from pennon.identifiers import DELIMITER
from pennon.property_values import parse_boolean, parse_header, parse_number, parse_seconds, parse_text, parse_uri

if TYPE_CHECKING:
    from collections.abc import Mapping

_HEADER_PREFIX = "header."
_TEXTS = {
    "token": "token",
    "delimiter": "delimiter",
    **OAUTH2_TEXTS,
    "tls.ssl_ca_cert": "ca_bundle",
    "tls.cert_file": "client_certificate",
    "tls.key_file": "client_key",
}
_TIMES = {"connect_timeout": "connect_seconds", "read_timeout": "read_seconds", "retry_timeout": "retry_seconds"}
_MOST_BYTES = 1 << 40
_CHECKED_HOSTS = "tls.assert_hostname"


@dataclass(frozen=True, kw_only=True)
class RestSettings(HttpSettings):
    """What a REST namespace was asked to be."""

    delimiter: str = DELIMITER
    read_seconds: float = 600.0
    """An answer comes when the operation is done; building an index takes minutes."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> RestSettings:
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
                values |= _parse_value(key, value)
        if "uri" not in values:
            raise InvalidInputError("The REST namespace needs the property 'uri'")
        if ("credential" in values) != ("oauth2_server_uri" in values):
            raise InvalidInputError(f"The property 'credential' needs {OAUTH2_URI!r}, and the other way round")
        return cls(**values, headers=headers, storage_options=storage)


def _parse_value(key: str, value: object) -> dict[str, Any]:
    if key == "uri":
        return {"uri": parse_uri(value, "Property 'uri'")}
    if key == OAUTH2_URI:
        return {_TEXTS[key]: parse_uri(value, f"Property {key!r}")}
    if key in _TEXTS:
        return {_TEXTS[key]: parse_header(key, parse_text(key, value))}
    if key in _TIMES:
        return {_TIMES[key]: parse_seconds(key, value)}
    if key == "max_answer_bytes":
        return {key: parse_number(key, value, _MOST_BYTES)}
    if key == _CHECKED_HOSTS:
        if not parse_boolean(key, value):
            raise InvalidInputError(f"Property {key!r} cannot be false: a certificate is always checked")
        return {}
    raise InvalidInputError(f"Unknown property {key!r} of the REST namespace")
