"""Feature flags in the manifest's metadata map, and the properties of the root namespace beside them.

A client that finds a reader bit that it does not know must not read, one that finds a writer bit must not write.
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
"""Set once a commit of another client was seen: old versions are then kept for longer (see `upkeep`)."""
VERSION_ROWS = 1 << 16
"""The writer bit of a manifest that holds rows of table versions (docs/adr/0009): older writers choke on those."""
KNOWN_READER_BITS = 0
KNOWN_WRITER_BITS = VERSION_ROWS


def require_readable(metadata: Mapping[str, str], where: str) -> None:
    """Refuse a manifest with reader bits that are unknown here."""
    _require(metadata, READER_FLAGS, KNOWN_READER_BITS, f"read the catalog at {where}")


def require_writable(metadata: Mapping[str, str], where: str) -> None:
    """Refuse to write to a manifest with writer bits that are unknown here."""
    _require(metadata, WRITER_FLAGS, KNOWN_WRITER_BITS, f"write to the catalog at {where}")


def manages_versions(metadata: Mapping[str, str]) -> bool:
    """Tell whether the catalog is the external manifest store of its tables."""
    return metadata.get(VERSION_MANAGEMENT, "").lower() == "true"


def version_management(metadata: Mapping[str, str], *, on: bool) -> dict[str, str | None]:
    """Give the changes of the metadata map that turn the management of versions on or off."""
    text = metadata.get(WRITER_FLAGS, "0")
    bits = parse_digits(text) or 0
    bits = bits | VERSION_ROWS if on else bits & ~VERSION_ROWS
    return {VERSION_MANAGEMENT: "true" if on else None, WRITER_FLAGS: str(bits) if bits else None}


def root_properties(metadata: Mapping[str, str]) -> dict[str, str]:
    """Give the root namespace's properties: all of the map that is not reserved."""
    return {key: value for key, value in metadata.items() if not _reserved(key)}


def require_free_keys(keys: Iterable[str]) -> None:
    """Refuse property names that the format keeps for itself."""
    for key in keys:
        if _reserved(key):
            raise InvalidInputError(f"The property {key!r} of the root namespace is reserved")


def _reserved(key: str) -> bool:
    return key.startswith((RESERVED_PREFIX, OWN_PREFIX)) or key == VERSION_MANAGEMENT


def _require(metadata: Mapping[str, str], key: str, known: int, action: str) -> None:
    text = metadata.get(key, "0")
    bits = parse_digits(text)
    if bits is None or bits & ~known:
        raise UnsupportedOperationError(
            f"Cannot {action}: its manifest has {key}={text[:50]}, known here: {known}; upgrade Pennon to use it"
        )
