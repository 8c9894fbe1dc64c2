"""Overwrite a table while other clients may drop and purge it.

An overwrite needs no claim: it commits a version like any other, and readers see the table all the time. If the table
is dropped at the same time, the version belongs to the dropped table. If it is purged, nothing may be left of it. In
both cases the caller gets ConcurrentModificationError.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pennon.directory import layout
from pennon.directory.lifecycle import late_commits
from pennon.directory.lookup.directories import look_at_root_table
from pennon.directory.markers import claim
from pennon.directory.versions import service
from pennon.errors import ConcurrentModificationError, is_not_found
from pennon.identifiers import object_id
from pennon.table import naming
from pennon.table.writing import TableGoneError, VersionExistsError, overwrite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.resolve import ResolvedTable
    from pennon.store import Store
    from pennon.table.writing import TableData


def overwrite_table(catalog: Catalog, table: ResolvedTable, data: TableData, storage_options: dict[str, str]) -> int:
    """Write the next version of a table, which is the commit point, and return its number.

    Raises ConcurrentModificationError if the table was dropped or replaced.
    """
    incarnation = _Incarnation(catalog.store, table)
    try:
        return overwrite(
            catalog.store.resolve(table.location, deeply=True),
            data,
            storage_options,
            session=catalog.session,
            opened=_open_options(catalog, table) if service.is_managed(catalog, table) else None,
            on_open=incarnation.record,
            commit_guard=incarnation.commit_guard,
        )
    except (TableGoneError, VersionExistsError) as error:
        late_commits.delete_late_version(catalog, table.location, error)
        raise replaced_error(object_id(table.identifier)) from error
    except (OSError, ValueError) as error:
        late_commits.delete_late_version(catalog, table.location, error)
        if is_not_found(error):
            raise replaced_error(object_id(table.identifier)) from error
        raise


def _open_options(catalog: Catalog, table: ResolvedTable) -> dict[str, Any]:
    # Imported here: unmanaged tables are overwritten without loading the SDK's models (docs/adr/0010).
    from pennon.directory.versions import callback  # noqa: PLC0415

    return callback.opening_arguments(catalog, table.identifier)


class _Incarnation:
    """A root table from its creation to its purge. The next table of that name uses the same directory.

    Hashed directories are used once, so nothing is checked for manifest tables.
    """

    def __init__(self, store: Store, table: ResolvedTable) -> None:
        self._store, self._table = store, table
        self._first: tuple[str, str | None] | None = None

    def record(self, version: int) -> None:
        """Record a version that exists before the overwrite."""
        if not self._table.is_root_table:
            return
        folder = layout.inside(self._table.location, naming.VERSIONS_FOLDER)
        for name in (naming.format_name(version, naming.V2), naming.format_name(version, naming.V1)):
            path = layout.inside(folder, name)
            stamp = self._store.stamp(path)
            if stamp is not None:
                self._first = path, stamp
                return
        raise TableGoneError(self._table.location, ())

    @contextmanager
    def commit_guard(self) -> Iterator[None]:
        """Allow a commit only to the same table: exactly on a disk, by the lock; before and after in a bucket."""
        if self._first is None:
            yield
            return
        store, name = self._store, self._table.identifier[0]
        with store.exclusive(name):
            self._require_same()
            if store.is_local:
                self._require_visible()
            yield
        if not store.is_local:
            self._require_same()
            self._require_visible()

    def _require_same(self) -> None:
        path, stamp = self._first or ("", None)
        if self._store.stamp(path) != stamp:
            raise TableGoneError(self._table.location, ())

    def _require_visible(self) -> None:
        """Raise ConcurrentModificationError if the table was dropped. A version that was committed stays with it."""
        store, name = self._store, self._table.identifier[0]
        # A dead creator may have left the marker, which then hides nothing.
        if claim.hides(store.size(layout.deleted_marker(name))) and look_at_root_table(store, name).hidden:
            raise replaced_error(object_id(self._table.identifier))


def replaced_error(key: str) -> ConcurrentModificationError:
    """Return the error for a table that was dropped or replaced while it was overwritten."""
    return ConcurrentModificationError(f"Table '{key}' was dropped or replaced while it was overwritten")
