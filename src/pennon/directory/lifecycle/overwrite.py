"""Overwriting a table beside clients that drop and purge it.

An overwrite needs no claim: it is a version like any other, and readers see the table all the while. If the table is
dropped meanwhile, that version belongs to the dropped table, and the caller gets 14. If it is purged meanwhile, nothing
must be left where it was.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pennon.directory import layout
from pennon.directory.claims import claim
from pennon.directory.lifecycle import late_commits
from pennon.directory.lookup.listing import look_at_root_table
from pennon.directory.versions import service
from pennon.errors import ConcurrentModificationError, is_not_found
from pennon.identifiers import object_id
from pennon.table import naming
from pennon.table.writing import TableGoneError, VersionExistsError, overwrite

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.resolve import Found
    from pennon.store import Store


def overwrite_table(catalog: Catalog, found: Found, data: pa.Table, storage_options: dict[str, str]) -> int:
    """Write the next version of a table that was found; the commit point is that version. Raises 14 if it is gone."""
    generation = _Generation(catalog.store, found)
    try:
        return overwrite(
            catalog.store.resolve(found.location, deeply=True),
            data,
            storage_options,
            session=catalog.session,
            opened=_opening(catalog, found) if service.is_managed(catalog, found) else None,
            on_open=generation.begin,
            commit_guard=generation.stands,
        )
    except (TableGoneError, VersionExistsError) as error:
        late_commits.take_back(catalog, found.location, error)
        raise dropped_meanwhile(object_id(found.identifier)) from error
    except (OSError, ValueError) as error:
        late_commits.take_back(catalog, found.location, error)
        if is_not_found(error):
            raise dropped_meanwhile(object_id(found.identifier)) from error
        raise


def _opening(catalog: Catalog, found: Found) -> dict[str, Any]:
    # Imported late: a table whose versions are not managed is overwritten without the SDK's models (docs/adr/0010).
    from pennon.directory.versions import callback  # noqa: PLC0415

    return callback.opening_arguments(catalog, found.identifier)


class _Generation:
    """A root table from one creation to its purge: its directory is used again by the next table of that name.

    Directories with hashed names are used once, and need no such care.
    """

    def __init__(self, store: Store, found: Found) -> None:
        self._store, self._found = store, found
        self._first: tuple[str, str | None] | None = None

    def begin(self, version: int) -> None:
        """Remember a version that is there at the beginning."""
        if not self._found.is_root_table:
            return
        folder = layout.inside(self._found.location, naming.VERSIONS_FOLDER)
        for name in (naming.format_name(version, naming.V2), naming.format_name(version, naming.V1)):
            path = layout.inside(folder, name)
            stamp = self._store.stamp(path)
            if stamp is not None:
                self._first = path, stamp
                return
        raise TableGoneError(self._found.location, ())

    @contextmanager
    def stands(self) -> Iterator[None]:
        """Make sure that it is the same table. On disk exactly so, under the lock; in a bucket before and after."""
        if self._first is None:
            yield
            return
        store, name = self._store, self._found.identifier[0]
        with store.exclusive(name):
            self._require()
            if store.is_local:
                self._require_shown()
            yield
        if not store.is_local:
            self._require()
            self._require_shown()

    def _require(self) -> None:
        path, stamp = self._first or ("", None)
        if self._store.stamp(path) != stamp:
            raise TableGoneError(self._found.location, ())

    def _require_shown(self) -> None:
        """A version that comes after the drop belongs to the dropped table, and stays."""
        store, name = self._store, self._found.identifier[0]
        # A marker may also be a dead creator's, which hides nothing.
        if claim.hides(store.size(layout.deleted(name))) and look_at_root_table(store, name).hidden:
            raise dropped_meanwhile(object_id(self._found.identifier))


def dropped_meanwhile(key: str) -> ConcurrentModificationError:
    """Say that a table went away while it was overwritten."""
    return ConcurrentModificationError(f"Table '{key}' was dropped or replaced while it was overwritten")
