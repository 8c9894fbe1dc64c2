"""Undo commits to a table that was purged, or purged and created again, at the same time.

If the catalog does not manage versions, Lance commits to the files alone. A late version would bring a purged table
back without its rows, or refer to deleted files in a table created since. So after each commit the writer checks
whether the version it was based on still exists, and otherwise deletes the new one. A crash before that leaves it. A
table that is only dropped keeps its files: a late commit is restored with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import layout
from pennon.directory.lookup.directories import look_at
from pennon.directory.manifest import history
from pennon.directory.manifest_tables.late_versions import delete_if_purged, is_only_version, is_purged
from pennon.directory.markers import claim
from pennon.directory.markers.marker import CREATE, PURGING, REVIVING, Marker
from pennon.directory.root_tables.deletion import delete_failed_creation
from pennon.directory.root_tables.settle import acquire_claim
from pennon.directory.versions import managed
from pennon.errors import ConcurrentModificationError, InternalError
from pennon.identifiers import Identifier, format_identifier, object_id
from pennon.store import LARGEST_MANIFEST
from pennon.table import naming
from pennon.table.version_identity import BaseState, BaseVersion, list_oldest_files, list_written_files
from pennon.table.writing import TableGoneError

if TYPE_CHECKING:
    from lance import LanceDataset

    from pennon.directory.catalog import Catalog
    from pennon.store import Store


def require_ground(catalog: Catalog, identifier: Identifier, base: BaseVersion, made: LanceDataset) -> None:
    """Delete a new version and raise ConcurrentModificationError if the version it is based on is gone."""
    if int(made.version) == base.version or (base.branch is None and _is_managed(catalog, identifier)):
        return
    if _is_same_file(base, made):
        return
    ground = base.check_state(made)
    if ground is BaseState.SAME:
        return
    location, branch_location = _locations(catalog, made, base.branch)
    if ground is BaseState.MISSING and not _is_purged(catalog, location, branch_location, made):
        # Only old versions were cleaned up.
        return
    gone = TableGoneError(branch_location, list_written_files(made), int(made.version))
    catalog.handles.clear()
    name = layout.root_table_name(location)
    if ground is BaseState.REPLACED or name is None or not _delete_root_table(catalog, name, branch_location, gone):
        delete_late_version(catalog, location, gone, branch_location=branch_location)
    raise ConcurrentModificationError(
        f"Table {format_identifier(identifier)} was dropped or replaced while it was changed"
    )


def delete_after_refusal(catalog: Catalog, dataset: LanceDataset, branch: str | None) -> None:
    """Delete what a refused change left in the directory of a purged manifest table."""
    location, branch_location = _locations(catalog, dataset, branch)
    delete_if_purged(catalog, location, branch_location=branch_location)


def delete_late_version(
    catalog: Catalog, location: str, error: BaseException, *, branch_location: str | None = None
) -> None:
    """Delete the data files that an error lists as leftovers, and the version that was committed in vain."""
    store = catalog.store
    late = error.version if isinstance(error, TableGoneError) else None
    if delete_if_purged(catalog, location, late, branch_location=branch_location):
        return
    directory = branch_location or location
    files = [layout.inside(directory, path) for path in getattr(error, "leftovers", ())]
    if late is not None:
        files += _delete_version(store, layout.inside(directory, naming.VERSIONS_FOLDER), late)
    if files:
        store.delete(*files)
    for folder in {path.rpartition("/")[0] for path in files}:
        store.prune(folder)


def _is_same_file(base: BaseVersion, made: LanceDataset) -> bool:
    """Return True if the base is the same file as when it was opened. Cheap, but only possible on a local disk."""
    stamp = base.stamp
    if base.branch is not None or not isinstance(stamp, naming.Stamp):
        return False
    return naming.read_stamp(made.uri, stamp.version, stamp.scheme) == stamp


def _locations(catalog: Catalog, dataset: LanceDataset, branch: str | None) -> tuple[str, str]:
    """Return the directory of a table, and that of its branch, which is the same for the main branch."""
    path = catalog.store.relative(dataset.uri)
    if path is None:
        raise InternalError(f"The table at {dataset.uri!r} is not in the catalog's root")
    if branch is None:
        return path, path
    # Lance reports either the table's location or that of the branch.
    location = path.removesuffix(f"/tree/{branch}")
    return location, f"{location}/tree/{branch}"


def _is_managed(catalog: Catalog, identifier: Identifier) -> bool:
    """Return True if the catalog decides about the table's commits, and has refused late ones already."""
    manifest = catalog.manifest
    return (
        manifest is not None
        and managed.manages_versions(catalog)
        and manifest.peek(lambda snapshot: snapshot.get(object_id(identifier)) is not None)
    )


def _is_purged(catalog: Catalog, location: str, branch_location: str, made: LanceDataset) -> bool:
    """Return True if a table whose base version is missing was purged, or is being purged.

    A new version of a root table whose files all exist is kept. Either old versions were cleaned up, or the table was
    purged and the change kept none of its old rows: the two cannot be told apart.
    """
    store, name = catalog.store, layout.root_table_name(location)
    if name is None:
        return is_purged(catalog, location, int(made.version), branch_location=branch_location)
    current = claim.read_marker(store, name)
    if current is not None and current.marker.state == PURGING:
        return True
    return any(
        all(store.size(layout.inside(folder, file)) is None for folder in {location, branch_location})
        for file in list_oldest_files(made)
    )


def _delete_root_table(catalog: Catalog, name: str, branch_location: str, gone: TableGoneError) -> bool:
    """Delete the directory of a root table that holds only the late version, under a claim; False if it holds more."""
    store, location = catalog.store, layout.root_table(name)
    try:
        held = acquire_claim(catalog, name, Marker(REVIVING).with_lease(REVIVING, CREATE))
    except ConcurrentModificationError:
        return False
    with held:
        directory = look_at(store, location)
        is_used = held.prior is not None or directory.reserved or directory.deregistered
        if is_used or not is_only_version(catalog, location, gone.version, branch_location=branch_location):
            return False
        delete_failed_creation(store, held.hand_over())
    return True


def _delete_version(store: Store, folder: str, version: int) -> list[str]:
    """Delete a version unless it was committed again; returns the files of `folder` if no other version is left."""
    names = store.list_names(folder)
    for name in names:
        path = layout.inside(folder, name)
        blob = store.get(path, max_bytes=LARGEST_MANIFEST) if history.parse_version(name) == version else None
        if blob is not None and not store.delete_if(path, blob.e_tag):
            return []
    others = [name for name in names if history.parse_version(name) not in {None, version}]
    return [] if others else [layout.inside(folder, name) for name in names if history.parse_version(name) is None]
