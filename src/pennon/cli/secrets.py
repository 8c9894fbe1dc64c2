"""Find and mask the values of properties that may contain credentials."""

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
    """Return True if a property's value must not be shown. Storage options are secret unless known to be harmless."""
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


def mask_secrets(properties: Mapping[str, str]) -> dict[str, str]:
    """Return properties with secret values masked."""
    return {key: MASK if is_secret(key) else mask_user_info(value) for key, value in properties.items()}


def collect_secrets(properties: Mapping[str, str]) -> set[str]:
    """Return the secret values, which must not appear in messages."""
    return {value for key, value in properties.items() if is_secret(key) and len(value) >= SHORTEST_SECRET}


def mask_user_info(text: str) -> str:
    """Return a text with user names and passwords in URIs masked."""
    return _USER_INFO.sub(rf"\1{MASK}@", text)


def scrub(text: str, secrets: Collection[str]) -> str:
    """Return a text with secrets and user names in URIs masked."""
    return mask_user_info(hide_secrets(text, secrets))
