"""The directory of a table in an object store, as credentials are limited to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass(frozen=True)
class BucketDirectory:
    """A directory of a bucket or container."""

    bucket: str
    path: str
    """The key of the directory, decoded, without slashes at its ends."""
    account: str | None = None
    """The account of Azure, if the location names one."""


def parse_directory(location: str, schemes: Collection[str]) -> BucketDirectory | None:
    """Return the directory at a location with one of the schemes, or None if it is elsewhere or a whole bucket."""
    parts = urlsplit(location)
    path = unquote(parts.path).strip("/")
    if parts.scheme not in schemes or not parts.netloc or any(part in {"", ".", ".."} for part in path.split("/")):
        return None
    container, at, host = parts.netloc.partition("@")
    return BucketDirectory(container, path, host.partition(".")[0] if at else None)
