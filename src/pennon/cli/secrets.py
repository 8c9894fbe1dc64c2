"""Values that are never shown: those of properties that may hold credentials."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

MASK = "***"
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
_USER_INFO = re.compile(r"(://)[^/@\s]+@")
_SHORTEST = 4
"""A shorter value is as good as no secret, and would be found everywhere."""


def is_secret(key: str) -> bool:
    """Tell whether a property's value is kept to oneself. Of storage options, only a few are known to be harmless."""
    if key.startswith(_STORAGE):
        return _PROVIDERS.sub("", key.removeprefix(_STORAGE).lower()) not in _HARMLESS_OPTIONS
    return key.startswith(_HEADER) or _TELLING.search(key) is not None


def masked(properties: Mapping[str, str]) -> dict[str, str]:
    """Give properties as they may be shown."""
    return {key: MASK if is_secret(key) else without_user(value) for key, value in properties.items()}


def values(properties: Mapping[str, str]) -> set[str]:
    """Give the values that must not appear anywhere."""
    return {value for key, value in properties.items() if is_secret(key) and len(value) >= _SHORTEST}


def without_user(text: str) -> str:
    """Take user names and passwords out of the URIs in a text."""
    return _USER_INFO.sub(rf"\1{MASK}@", text)


def scrubbed(text: str, secrets: Collection[str]) -> str:
    """Give a message without secrets."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return without_user(text)
