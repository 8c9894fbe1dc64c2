"""An append that is made in a temporary directory, from nothing but the manifest of the version that it follows.

Lance appends to a table in an object store by four requests, one after the other: the data, a listing, the transaction
and the manifest. An append reads no data. So Lance can make it beside a local copy of the manifest, and the caller
uploads all files at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance

from pennon.table import mutations, naming
from pennon.table.scratch import create_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from pennon.identifiers import Identifier

LARGEST_APPEND = 8 << 20
"""The largest size of rows, and of manifests, in bytes. More would be written twice for no gain."""
_CACHE_BYTES = 1 << 20
AUTO_CLEANUP = "lance.auto_cleanup."
"""The prefix of the settings by which Lance deletes old versions when it commits."""


@dataclass(frozen=True)
class LocalAppend:
    """The files of an append. Their names below the table are new, except that of the manifest."""

    files: Mapping[str, bytes]
    """The data files and the transaction, by their paths below the table."""
    manifest: bytes
    """The manifest of the new version."""
    inserted: int


def make_append(manifest: bytes, version: int, rows: pa.Table, identifier: Identifier) -> LocalAppend | None:
    """Append rows to a version with a manifest of the V2 naming scheme, and return the files of the next version.

    Returns None if the append fails, for any reason. The caller then lets Lance append to the table itself, which
    raises the error for the right table.
    """
    folder = create_folder(rows.nbytes + len(manifest))
    if folder is None:
        return None
    with folder as location:
        versions = Path(location, naming.VERSIONS_FOLDER)
        try:
            versions.mkdir()
            (versions / naming.format_name(version, naming.V2)).write_bytes(manifest)
            dataset = lance.dataset(location, session=_session())
            if any(key.startswith(AUTO_CLEANUP) for key in dataset.config()):
                return None
            done, _ = mutations.insert(dataset, identifier, rows)
            if done.version != version + 1:
                return None
            made = (versions / naming.format_name(done.version, naming.V2)).read_bytes()
            files = {
                path.relative_to(location).as_posix(): path.read_bytes()
                for path in Path(location).rglob("*")
                if versions not in path.parents and path.is_file()
            }
        except Exception:  # noqa: BLE001 - whatever it is, Lance meets it again at the table itself
            return None
    return LocalAppend(files, made, done.inserted)


@cache
def _session() -> Any:
    """Return caches for Lance that tables in temporary directories share, apart from those of other tables."""
    return lance.Session(index_cache_size_bytes=_CACHE_BYTES, metadata_cache_size_bytes=_CACHE_BYTES)  # type: ignore[attr-defined]
