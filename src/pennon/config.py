"""Parse the properties of a directory namespace into one frozen settings object.

Unknown properties and bad values raise InvalidInputError, which names the property. Only the properties of other
clients in `HARMLESS` are ignored; each has the reason beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pennon import durations
from pennon.errors import InvalidInputError
from pennon.property_values import parse_boolean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STORAGE_PREFIX = "storage."
EXPIRY = "expires_at_millis"
"""The storage option that tells Lance when the other options expire."""
_DEFAULT_TTL_MS = 7 * 24 * 3600 * 1000
_FLAGS = (
    "manifest_enabled",
    "dir_listing_enabled",
    "legacy_markers",
    "vend_input_storage_options",
    "table_version_tracking_enabled",
    "ops_metrics_enabled",
)

HARMLESS: dict[str, str] = {
    "inline_optimization_enabled": "the manifest is always optimized",
    "commit_retries": "commits are retried until a deadline",
    "dir_listing_to_manifest_migration_enabled": "migrate_to_manifest() migrates",
}
"""Properties of the reference client that are accepted and not used, with the reason."""
_VENDOR_PREFIX = "credential_vendor."
_VENDOR_SWITCH = "credential_vendor.enabled"
_LONGEST_INTERVAL = 15


@dataclass(frozen=True)
class DirectorySettings:
    """The settings of a directory namespace."""

    root: str
    manifest_enabled: bool = True
    dir_listing_enabled: bool = True
    legacy_markers: bool = False
    drop_ttl_ms: int = _DEFAULT_TTL_MS
    vend_input_storage_options: bool = False
    vend_input_storage_options_refresh_interval_millis: int | None = None
    table_version_tracking_enabled: bool = False
    ops_metrics_enabled: bool = False
    storage_options: dict[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> DirectorySettings:
        """Parse properties, whose values may all be strings. Raises InvalidInputError if one is unknown or invalid."""
        values: dict[str, Any] = {}
        storage: dict[str, str] = {}
        for key, value in properties.items():
            if key in _READERS:
                values[key] = _READERS[key](key, value)
            elif key == "drop_ttl":
                values["drop_ttl_ms"] = durations.parse_milliseconds(value, "Property 'drop_ttl'")
            elif key.startswith(STORAGE_PREFIX) and len(key) > len(STORAGE_PREFIX):
                storage[key.removeprefix(STORAGE_PREFIX)] = str(value)
            elif key.startswith(_VENDOR_PREFIX):
                _require_no_vendor(key, value)
            elif key not in HARMLESS:
                raise InvalidInputError(f"Unknown property {key!r} of the directory namespace")
        if "root" not in values:
            raise InvalidInputError("The directory namespace needs the property 'root'")
        settings = cls(**values, storage_options=storage)
        if not (settings.manifest_enabled or settings.dir_listing_enabled):
            raise InvalidInputError("One of 'manifest_enabled' and 'dir_listing_enabled' must be true")
        return settings


def _root(_: str, value: object) -> str:
    text = str(value) if value is not None else ""
    if not text.strip():
        raise InvalidInputError("The property 'root' is empty")
    if "\0" in text:
        raise InvalidInputError("The property 'root' holds a NUL character")
    return text


def _interval(key: str, value: object) -> int:
    text = str(value).strip()
    if len(text) > _LONGEST_INTERVAL or not (text.isascii() and text.isdecimal()) or int(text) == 0:
        raise InvalidInputError(f"Property {key!r} is a positive number of milliseconds, got {value!r}")
    return int(text)


def _require_no_vendor(key: str, value: object) -> None:
    """Raise InvalidInputError if the reference client's credential vendor is enabled; ignore its settings."""
    if key == _VENDOR_SWITCH and parse_boolean(key, value):
        raise InvalidInputError(
            f"Property {_VENDOR_SWITCH!r} is not supported: the directory namespace cannot create temporary "
            "credentials. Remove it; 'vend_input_storage_options' returns the namespace's storage options to callers"
        )


_READERS: dict[str, Callable[[str, object], object]] = {
    "root": _root,
    "vend_input_storage_options_refresh_interval_millis": _interval,
    **dict.fromkeys(_FLAGS, parse_boolean),
}
