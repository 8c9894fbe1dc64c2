"""Opening the store of a `root` property.

A root is a URI of an object store, a `file://` URI, an absolute or relative path, or `memory://name`: a temporary
directory that belongs to this process and is deleted when it ends.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pennon.errors import InvalidInputError
from pennon.store.local import LocalStore

if TYPE_CHECKING:
    from pennon.store.protocol import Store

SCHEMES = ("s3", "s3a", "gs", "az", "abfs", "abfss")
"""Schemes of object stores."""
_memory_lock = Lock()
_memory_roots: dict[tuple[int, str], Path] = {}


def make_root_absolute(root: str) -> str:
    """Return a root whose path is absolute, so that a later change of directory does not move the catalog."""
    if "://" in root:
        return root
    return str(Path(root).absolute())


def open_store(root: str, storage_options: dict[str, str]) -> Store:
    """Return the store at `root`. No request is made. Raises InvalidInputError for an invalid root."""
    if "://" not in root:
        return LocalStore(Path(os.path.normpath(Path(root).absolute())), storage_options)
    parts = urlsplit(root)
    if parts.scheme == "memory":
        return LocalStore(_memory_root(root), storage_options)
    if parts.scheme == "file":
        if parts.netloc not in {"", "localhost"} or not parts.path:
            raise InvalidInputError(f"The root {root!r} is not a local file URI")
        return LocalStore(Path(os.path.normpath(unquote(parts.path))), storage_options)
    if parts.scheme not in SCHEMES:
        known = ", ".join((*SCHEMES, "file", "memory"))
        raise InvalidInputError(f"The root {root!r} has the scheme {parts.scheme!r}; known: {known}")
    if not parts.netloc:
        raise InvalidInputError(f"The root {root!r} does not name a bucket")
    if parts.query or parts.fragment:
        raise InvalidInputError(f"The root {root!r} has a query or fragment; percent-encode '?' and '#'")
    # Imported late: a root on a disk needs no HTTP client.
    from pennon.store.objects import ObjectStore  # noqa: PLC0415

    return ObjectStore(root, storage_options)


def _memory_root(root: str) -> Path:
    key = (os.getpid(), root)
    with _memory_lock:
        if key not in _memory_roots:
            if not any(pid == key[0] for pid, _ in _memory_roots):
                atexit.register(_delete_memory_roots)
            _memory_roots[key] = Path(tempfile.mkdtemp(prefix="pennon-memory-"))
        return _memory_roots[key]


def _delete_memory_roots() -> None:
    for (pid, _), path in _memory_roots.items():
        if pid == os.getpid():
            shutil.rmtree(path, ignore_errors=True)
