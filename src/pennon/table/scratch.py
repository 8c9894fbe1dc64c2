"""Temporary directories in which Lance makes files that are then uploaded."""

from __future__ import annotations

import tempfile
import uuid
from contextlib import suppress

_IN_MEMORY = "/dev/shm"  # noqa: S108 - the directories in it have random names, and are only for this user
"""Where Linux keeps files in memory. A disk takes longer to create and delete a few files than Lance to write them."""
_LARGEST_IN_MEMORY = 1 << 20


def create_folder(size: int) -> tempfile.TemporaryDirectory[str] | None:
    """Create a temporary directory for files of about this size, in memory if they are small. None if that fails."""
    # Lance may cache what it reads by its path, so no path is used twice.
    prefix = f"pennon-{uuid.uuid4().hex}-"
    for place in [_IN_MEMORY, None] if size <= _LARGEST_IN_MEMORY else [None]:
        with suppress(OSError):
            return tempfile.TemporaryDirectory(prefix=prefix, dir=place)
    return None
