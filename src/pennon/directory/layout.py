"""Names of directories and markers under the root, as other Lance clients know them.

```
__manifest/                   the manifest table
<name>.lance/                 a root table (V1, compatibility mode)
<8 hex digits>_<object id>/   any other table; the digits are random, so a directory is never used twice
  .lance-reserved             declared; stays when data is written
  .lance-deregistered         deregistered; or dropped, for clients that know no other marker, and then it says so
  .lance-protected            drop and purge refuse a root table
<name>.deleted                the table is hidden: it is dropped, or being created, restored or purged
<name>.deregistered           the table is deregistered
<name or directory>.declared  the table was declared by Pennon; whether it has data since is for a look to tell
```
The last three stand beside the directories, so that one listing of the root shows them.
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
MOVED_BODY = b"renamed; the manifest knows where"
"""In `<name>.deregistered`: the directory belongs to a table that was renamed, and is not this name's to take."""
DROPPED_BODY = b"dropped "
"""How `.lance-deregistered` begins where a drop left it, before the deletion id: it is for other clients only."""
_MARKER_SUFFIXES = (DELETED_SUFFIX, DEREGISTERED_SUFFIX, DECLARED_SUFFIX)
_SPOKEN_SUFFIXES = (TABLE_SUFFIX, *_MARKER_SUFFIXES)
_FORBIDDEN = re.compile(r"[\\\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_ORDINARY_LOCATION = re.compile(r"[0-9a-f]{8}_[0-9A-Za-z$_-]{1,200}|[0-9A-Za-z][0-9A-Za-z_-]{0,199}\.lance")
_INTERNAL = ("__manifest", "__pennon", ".lance-trash", ".lance-locks")
_DIGITS = re.compile(r"[0-9a-f]{8}")
_LONGEST_LOCATION = 800
_LONGEST_PART = 246
SHORTEST_CLAIM = 32
"""A `.deleted` file below this size counts as absent (a store that cannot delete conditionally leaves one)."""


def root_table(name: str) -> str:
    """Give the directory of the root table `name`."""
    return name + TABLE_SUFFIX


def root_table_name(location: str) -> str | None:
    """Give the name that a listing of the root reads from a directory, or None if it is no root table's."""
    if "/" in location or not location.endswith(TABLE_SUFFIX) or location == TABLE_SUFFIX:
        return None
    return location.removesuffix(TABLE_SUFFIX)


def hashed(object_id: str) -> str:
    """Choose a new directory for `object_id`, with random digits in front."""
    return f"{secrets.randbits(32):08x}_{_hashed_name(object_id)}"


def is_hashed(location: str, object_id: str) -> bool:
    """Return True if a directory is one that `hashed` may have chosen for `object_id`."""
    digits, _, name = location.partition("_")
    return _DIGITS.fullmatch(digits) is not None and name == _hashed_name(object_id)


def _hashed_name(object_id: str) -> str:
    # With the suffix of a root table or of a marker, a listing of the root would take it for one.
    return object_id + "_" if object_id.endswith(_SPOKEN_SUFFIXES) else object_id


def deleted(name: str) -> str:
    """Give the path of the marker that hides a root table."""
    return name + DELETED_SUFFIX


def deregistered(name: str) -> str:
    """Give the path of the marker beside a deregistered root table."""
    return name + DEREGISTERED_SUFFIX


def declared(location: str) -> str:
    """Give the path of the marker, always at the root, of a table that was declared."""
    if "/" in location:
        # No name and no directory of a table begins with the delimiter.
        location = DELIMITER + hashlib.sha256(location.encode()).hexdigest()
    return location.removesuffix(TABLE_SUFFIX) + DECLARED_SUFFIX


def inside(location: str, *names: str) -> str:
    """Join a path below a table's directory."""
    return "/".join((location, *names))


def normalised(location: str) -> str:
    """Write a location in the one way that tells whether two rows name the same place."""
    odd = "//" in location or "./" in location or "/." in location or location.endswith("/") or location in {"", "."}
    return posixpath.normpath(location) if odd else location


def checked_location(location: str) -> str:
    """Normalise a location given by a caller: relative, inside of the root, no part of the manifest; else 13."""
    given = location.rstrip("/")
    # A path that is nothing but slashes is an absolute one.
    fault = location_fault(given or location)
    if fault is not None:
        raise InvalidInputError(f"Bad table location {shorten_text(location)}: {fault}")
    return given


def location_fault(location: str) -> str | None:
    """Say why no table can be at a location, whoever names it; None if one can."""
    if _ORDINARY_LOCATION.fullmatch(location):
        return None
    parts = location.split("/")
    first = parts[0]
    outside = _way_out(location, parts)
    if outside is not None:
        return f"{outside}it must be a path relative to the root"
    if any(part in {"", "."} for part in parts):
        return "it must not hold empty or relative parts"
    if _FORBIDDEN.search(location):
        return "it holds a backslash, a control character or a lone surrogate"
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
        return f"it lies inside of the table directory {first!r}"
    return None


def stored_location(location: str) -> str:
    """Write the location of a row in the one way in which a path is written, if it is one that a table can be at.

    Other clients store what their callers gave, which may begin with `./` or end with `/`.
    """
    if _ORDINARY_LOCATION.fullmatch(location) or location.startswith("/") or "://" in location:
        return location
    if ".." in location.split("/"):
        return location
    return normalised(location) if location else location


def _way_out(location: str, parts: list[str]) -> str | None:
    """Return how a location leaves the root, in the words of the reference client; None if it stays inside."""
    if "://" in location:
        return "Absolute URIs are not allowed; "
    if location.startswith("/"):
        return "Absolute paths are not allowed; "
    if ".." in parts:
        return "Path traversal is not allowed; "
    return None if location else ""
