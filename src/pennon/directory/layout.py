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

MANIFEST = "__manifest"
TABLE_SUFFIX = ".lance"
DELETED_SUFFIX = ".deleted"
DEREGISTERED_SUFFIX = ".deregistered"
DECLARED_SUFFIX = ".declared"
RESERVED_MARKER = ".lance-reserved"
DEREGISTERED_MARKER = ".lance-deregistered"
PROTECTED_MARKER = ".lance-protected"
VERSIONS = "_versions"
VERSION_SUFFIX = ".manifest"
MARKER_BODY = b"reserved"
MOVED_BODY = b"renamed; the manifest knows where"
"""In `<name>.deregistered`: the directory belongs to a table that was renamed, and is not this name's to take."""
DROPPED_BODY = b"dropped "
"""How `.lance-deregistered` begins where a drop left it, before the deletion id: it is for other clients only."""
_MARKER_SUFFIXES = (DELETED_SUFFIX, DEREGISTERED_SUFFIX, DECLARED_SUFFIX)
_SPOKEN_SUFFIXES = (TABLE_SUFFIX, *_MARKER_SUFFIXES)
_FORBIDDEN = re.compile(r"[\\\x00-\x1f\x7f-\x9f\ud800-\udfff]")
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
    # With the suffix of a root table or of a marker, a listing of the root would take it for one.
    end = "_" if object_id.endswith(_SPOKEN_SUFFIXES) else ""
    return f"{secrets.randbits(32):08x}_{object_id}{end}"


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
    parts = location.rstrip("/").split("/")
    first = parts[0]
    fault = None
    if not location or location.startswith("/") or "://" in location:
        fault = "it must be a path relative to the root"
    elif any(part in {"", ".", ".."} for part in parts):
        fault = "it must not hold empty or relative parts"
    elif _FORBIDDEN.search(location):
        fault = "it holds a backslash, a control character or a lone surrogate"
    elif len(location.encode()) > _LONGEST_LOCATION or any(len(part.encode()) > _LONGEST_PART for part in parts):
        fault = "it is too long"
    elif first.startswith("__") or (first.startswith(".lance-") and root_table_name(first) is None):
        fault = f"{first!r} is reserved"
    elif len(parts) == 1 and first.endswith(_MARKER_SUFFIXES):
        fault = "it is the name of a marker"
    elif len(parts) > 1 and root_table_name(first) is not None:
        fault = f"it lies inside of the table directory {first!r}"
    if fault is not None:
        raise InvalidInputError(f"Bad table location {location!r}: {fault}")
    return "/".join(parts)
