"""Values that are never shown: those of properties that may hold credentials."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pennon.redaction import MASK, SHORTEST_SECRET, hide_secrets

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_STORAGE = "storage."
_HEADER = "header."
_HARMLESS_OPTIONS = {
    "allow_http",
    "allow_invalid_certificates",
    "bucket",
    "connect_timeout",
    "container_name",
    "default_region",
    "endpoint",
    "endpoint_url",
    "region",
    "skip_signature",
    "timeout",
    "use_emulator",
    "virtual_hosted_style_request",
}
_PROVIDERS = re.compile(r"^(aws|azure|azure_storage|google)_")
_TELLING = re.compile(
    r"secret|passw|token|credential|signature|(access|account|api|private|sas|service)[-_.]?key", re.IGNORECASE
)
_ADDRESS = re.compile(r"endpoint|ur[il]$|host|proxy", re.IGNORECASE)
_USER_INFO = re.compile(r"(://)[^/@\s]+@")


def is_secret(key: str) -> bool:
    """Tell whether a property's value is kept to oneself. Of storage options, only a few are known to be harmless."""
    option = storage_option(key)
    if option is not None:
        return option not in _HARMLESS_OPTIONS
    return key.startswith(_HEADER) or _TELLING.search(key) is not None


def is_credential(key: str) -> bool:
    """Return True if a property is known to hold a credential; `is_secret` is also True for unknown storage options."""
    if key.startswith(_HEADER):
        return True
    return _TELLING.search(key) is not None and _ADDRESS.search(key) is None


def storage_option(key: str) -> str | None:
    """Return the name of a storage option without its provider; None for other properties."""
    return _PROVIDERS.sub("", key.removeprefix(_STORAGE).lower()) if key.startswith(_STORAGE) else None


def masked(properties: Mapping[str, str]) -> dict[str, str]:
    """Give properties as they may be shown."""
    return {key: MASK if is_secret(key) else without_user(value) for key, value in properties.items()}


def values(properties: Mapping[str, str]) -> set[str]:
    """Give the values that must not appear anywhere."""
    return {value for key, value in properties.items() if is_secret(key) and len(value) >= SHORTEST_SECRET}


def without_user(text: str) -> str:
    """Take user names and passwords out of the URIs in a text."""
    return _USER_INFO.sub(rf"\1{MASK}@", text)


def scrubbed(text: str, secrets: Collection[str]) -> str:
    """Give a message without secrets."""
    return without_user(hide_secrets(text, secrets))
