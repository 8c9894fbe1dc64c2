"""Opening a catalog by where it is: a path, a bucket, or the address of a server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from pennon.api.catalog import LakeCatalog
from pennon.config import STORAGE_PREFIX
from pennon.connection import connect
from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

_SERVER_SCHEMES = ("http://", "https://")


def open(  # noqa: A001 - read as `pennon.open`
    location: str | os.PathLike[str],
    *,
    impl: str | None = None,
    token: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    properties: Mapping[str, Any] | None = None,
    progress: bool | None = None,
) -> LakeCatalog:
    """Return the catalog at a location. No request is sent before the first operation.

    Args:
        location: A path on a disk, the URI of a bucket such as `s3://bucket/lake`, `memory://name` for a temporary
            catalog of this process, or the http(s) address of a server.
        impl: `dir`, `rest` or `iceberg`. The default is `rest` for an http(s) address, and `dir` for anything else.
        token: The bearer token for a server.
        storage_options: Options of the object store, such as `{"region": "eu-west-1"}`.
        properties: Further properties of the implementation, as in docs/reference/properties.md.
        progress: Whether long work shows a progress bar. By default it does if stderr is a terminal.

    Returns:
        The catalog. Close it, or use it in a `with` statement, to end its background work.

    Raises:
        InvalidInputError: The location, the implementation or a property is not valid.
    """
    where = os.fspath(location)
    is_server = where.startswith(_SERVER_SCHEMES)
    chosen = impl or ("rest" if is_server else "dir")
    if is_server == (chosen == "dir"):
        kind = "a directory" if chosen == "dir" else "a server"
        raise InvalidInputError(f"The implementation {chosen!r} opens {kind}, which {where!r} is not")
    given: dict[str, Any] = {"uri" if is_server else "root": where, **(properties or {})}
    given |= {f"{STORAGE_PREFIX}{key}": value for key, value in (storage_options or {}).items()}
    if token is not None:
        if not is_server:
            raise InvalidInputError("A token is for a server: give storage_options for a bucket")
        given["token"] = token
    return LakeCatalog(connect(chosen, given), progress=progress)
