"""Feature flags in the manifest's metadata map, which also holds the properties of the root namespace.

A client must not read a manifest with unknown reader bits, and must not write to one with unknown writer bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError, UnsupportedOperationError
from pennon.stored_json import parse_digits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

RESERVED_PREFIX = "lance.namespace.manifest."
READER_FLAGS = RESERVED_PREFIX + "reader_feature_flags"
WRITER_FLAGS = RESERVED_PREFIX + "writer_feature_flags"
VERSION_MANAGEMENT = "table_version_management"
OWN_PREFIX = "pennon."
SHARED = OWN_PREFIX + "shared"
"""Set once a commit of another client was seen. Old versions are then kept longer (see `upkeep`)."""
VERSION_ROWS = 1 << 16
"""The writer bit of a manifest with version rows, which older writers cannot handle (docs/adr/0009)."""
KNOWN_READER_BITS = 0
KNOWN_WRITER_BITS = VERSION_ROWS


def require_readable(metadata: Mapping[str, str], where: str) -> None:
    """Raise UnsupportedOperationError if a manifest has unknown reader bits."""
    _require_known_bits(metadata, READER_FLAGS, KNOWN_READER_BITS, f"read the catalog at {where}")


def require_writable(metadata: Mapping[str, str], where: str) -> None:
    """Raise UnsupportedOperationError if a manifest has unknown writer bits."""
    _require_known_bits(metadata, WRITER_FLAGS, KNOWN_WRITER_BITS, f"write to the catalog at {where}")


def manages_versions(metadata: Mapping[str, str]) -> bool:
    """Return True if the catalog manages the versions of its tables."""
    return metadata.get(VERSION_MANAGEMENT, "").lower() == "true"


def version_management(metadata: Mapping[str, str], *, on: bool) -> dict[str, str | None]:
    """Return the changes of the metadata map that turn version management on or off."""
    bits = parse_digits(metadata.get(WRITER_FLAGS, "0")) or 0
    bits = bits | VERSION_ROWS if on else bits & ~VERSION_ROWS
    return {VERSION_MANAGEMENT: "true" if on else None, WRITER_FLAGS: str(bits) if bits else None}


def root_properties(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of the root namespace: the entries that are not reserved."""
    return {key: value for key, value in metadata.items() if not _is_reserved(key)}


def require_free_keys(keys: Iterable[str]) -> None:
    """Raise InvalidInputError if a property name is reserved."""
    for key in keys:
        if _is_reserved(key):
            raise InvalidInputError(f"The property {key!r} of the root namespace is reserved")


def _is_reserved(key: str) -> bool:
    return key.startswith((RESERVED_PREFIX, OWN_PREFIX)) or key == VERSION_MANAGEMENT


def _require_known_bits(metadata: Mapping[str, str], key: str, known: int, action: str) -> None:
    text = metadata.get(key, "0")
    bits = parse_digits(text)
    if bits is None or bits & ~known:
        raise UnsupportedOperationError(
            f"Cannot {action}: its manifest has {key}={text[:50]}, known here: {known}; upgrade Pennon to use it"
        )
