"""Names of directories and markers under the root, as other Lance clients know them.

```
__manifest/                   the manifest table
<name>.lance/                 a root table (V1, compatibility mode)
<8 hex digits>_<object id>/   any other table; the digits are random, so a directory is never used twice
  .lance-reserved             declared; stays when data is written
  .lance-deregistered         deregistered; or dropped, for clients that know no other marker
  .lance-protected            drop and purge refuse a root table
<name>.deleted                the table is hidden: it is dropped, or being created, restored or purged
<name>.deregistered           the table is deregistered
<name or directory>.declared  the table was declared by Pennon; it may have data since
```
The last three are beside the directories, so that one listing of the root shows them.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import secrets

from pennon.errors import InvalidInputError
from pennon.identifiers import DELIMITER
from pennon.store.root_paths import shorten_text

MANIFEST = "__manifest"
TABLE_SUFFIX = ".lance"
DELETED_SUFFIX = ".deleted"
DEREGISTERED_SUFFIX = ".deregistered"
DECLARED_SUFFIX = ".declared"
RESERVED_MARKER = ".lance-reserved"
DEREGISTERED_MARKER = ".lance-deregistered"
PROTECTED_MARKER = ".lance-protected"
VERSION_SUFFIX = ".manifest"
MARKER_BODY = b"reserved"
RENAMED_BODY = b"renamed; the manifest knows where"
"""In `<name>.deregistered`: the directory belongs to a table that was renamed, and this name must not use it."""
DROPPED_BODY = b"dropped "
"""The start of a `.lance-deregistered` that a drop wrote for other clients. The deletion id follows."""
_MARKER_SUFFIXES = (DELETED_SUFFIX, DEREGISTERED_SUFFIX, DECLARED_SUFFIX)
_LISTED_SUFFIXES = (TABLE_SUFFIX, *_MARKER_SUFFIXES)
_FORBIDDEN = re.compile(r"[\\\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_ORDINARY_LOCATION = re.compile(r"[0-9a-f]{8}_[0-9A-Za-z$_-]{1,200}|[0-9A-Za-z][0-9A-Za-z_-]{0,199}\.lance")
_INTERNAL = ("__manifest", "__pennon", ".lance-trash", ".lance-locks")
_DIGITS = re.compile(r"[0-9a-f]{8}")
_LONGEST_LOCATION = 800
_LONGEST_PART = 246
SHORTEST_CLAIM = 32
"""A `.deleted` file below this size counts as absent (a store that cannot delete conditionally leaves one)."""


def root_table(name: str) -> str:
    """Return the directory of the root table `name`."""
    return name + TABLE_SUFFIX


def root_table_name(location: str) -> str | None:
    """Return the name of the root table in a directory, or None if it is not the directory of one."""
    if "/" in location or not location.endswith(TABLE_SUFFIX) or location == TABLE_SUFFIX:
        return None
    return location.removesuffix(TABLE_SUFFIX)


def new_hashed_directory(object_id: str) -> str:
    """Return a new directory for `object_id`, with random digits in front."""
    return f"{secrets.randbits(32):08x}_{_hashed_name(object_id)}"


def is_hashed_directory_of(location: str, object_id: str) -> bool:
    """Return True if `new_hashed_directory` may have chosen a directory for `object_id`."""
    digits, _, name = location.partition("_")
    return _DIGITS.fullmatch(digits) is not None and name == _hashed_name(object_id)


def _hashed_name(object_id: str) -> str:
    # With such a suffix, a listing of the root would take the directory for a root table or a marker.
    return object_id + "_" if object_id.endswith(_LISTED_SUFFIXES) else object_id


def deleted_marker(name: str) -> str:
    """Return the path of the marker that hides a root table."""
    return name + DELETED_SUFFIX


def deregistered_marker(name: str) -> str:
    """Return the path of the marker beside a deregistered root table."""
    return name + DEREGISTERED_SUFFIX


def declared_marker(location: str) -> str:
    """Return the path of the marker of a declared table, which is always at the root."""
    if "/" in location:
        # No name and no directory of a table starts with the delimiter.
        location = DELIMITER + hashlib.sha256(location.encode()).hexdigest()
    return location.removesuffix(TABLE_SUFFIX) + DECLARED_SUFFIX


def inside(location: str, *names: str) -> str:
    """Return a path inside a table's directory."""
    return "/".join((location, *names))


def normalise_location(location: str) -> str:
    """Return the one spelling of a location, by which two rows are compared."""
    odd = "//" in location or "./" in location or "/." in location or location.endswith("/") or location in {"", "."}
    return posixpath.normpath(location) if odd else location


def check_location(location: str) -> str:
    """Return a caller's location without trailing slashes. Raises InvalidInputError if no table can be there."""
    given = location.rstrip("/")
    # A path of slashes only is absolute.
    fault = find_location_fault(given or location)
    if fault is not None:
        raise InvalidInputError(f"Bad table location {shorten_text(location)}: {fault}")
    return given


def find_location_fault(location: str) -> str | None:
    """Return why no table can be at a location, or None if one can."""
    if _ORDINARY_LOCATION.fullmatch(location):
        return None
    parts = location.split("/")
    first = parts[0]
    outside = _find_escape(location, parts)
    if outside is not None:
        return f"{outside}it must be a path relative to the root"
    if any(part in {"", "."} for part in parts):
        return "it must not contain empty or relative parts"
    if _FORBIDDEN.search(location):
        return "it contains a backslash, a control character or a lone surrogate"
    if len(location.encode()) > _LONGEST_LOCATION or any(len(part.encode()) > _LONGEST_PART for part in parts):
        return "it is too long"
    if first.startswith("__") or (first.lower().startswith(".lance-") and root_table_name(first) is None):
        return f"{first!r} is reserved"
    internal = next((part for part in parts if part.lower() in _INTERNAL), None)
    if internal is not None:
        return f"{internal!r} is reserved"
    if len(parts) == 1 and first.endswith(_MARKER_SUFFIXES):
        return "it is the name of a marker"
    if len(parts) > 1 and root_table_name(first) is not None:
        return f"it is inside the table directory {first!r}"
    return None


def normalise_stored_location(location: str) -> str:
    """Return the one spelling of a row's location if a table can be there, else the location as it is.

    Other clients store what their callers passed, which may start with `./` or end with `/`.
    """
    if _ORDINARY_LOCATION.fullmatch(location) or location.startswith("/") or "://" in location:
        return location
    if ".." in location.split("/"):
        return location
    return normalise_location(location) if location else location


def _find_escape(location: str, parts: list[str]) -> str | None:
    """Return how a location leaves the root, in the reference client's wording; None if it does not."""
    if "://" in location:
        return "Absolute URIs are not allowed; "
    if location.startswith("/"):
        return "Absolute paths are not allowed; "
    if ".." in parts:
        return "Path traversal is not allowed; "
    return None if location else ""
