"""Changes that were committed to a table after it was purged, or made anew in the same directory.

Where the catalog does not manage versions, nothing stands between Lance and the files: a version that is made late
brings a purged table to life again without its rows, or puts files that are gone into a table made since. So whoever
has committed looks whether the version that was built on is still there, and if not, takes the new one back. A crash
before that leaves it. A table that is only dropped keeps its files: what is committed late comes back with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import layout, purge_proof
from pennon.directory.claims import claim
from pennon.directory.claims.marker import CREATE, PURGING, REVIVING, Marker
from pennon.directory.lookup.listing import look_at
from pennon.directory.manifest import history
from pennon.directory.manifest_tables import trash
from pennon.directory.root_tables import purge
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
    """Take a version back, and raise 14, if the table that it was made of was purged or made anew meanwhile."""
    if int(made.version) == base.version or (base.branch is None and _is_managed(catalog, identifier)):
        return
    if _is_same_file(base, made):
        return
    ground = base.check_state(made)
    if ground is BaseState.SAME:
        return
    location, place = _places(catalog, made, base.branch)
    if ground is BaseState.MISSING and not _is_purged(catalog, location, place, made):
        # Only its old versions were cleaned up.
        return
    gone = TableGoneError(place, list_written_files(made), int(made.version))
    catalog.handles.clear()
    name = layout.root_table_name(location)
    if ground is BaseState.REPLACED or name is None or not _cleared(catalog, name, place, gone):
        take_back(catalog, location, gone, place=place)
    raise ConcurrentModificationError(
        f"Table {format_identifier(identifier)} was dropped or replaced while it was changed"
    )


def _is_same_file(base: BaseVersion, made: LanceDataset) -> bool:
    """Tell at little cost, where it can be told so: on a local disk, of a file that was seen before it was opened."""
    stamp = base.stamp
    if base.branch is not None or not isinstance(stamp, naming.Stamp):
        return False
    return naming.read_stamp(made.uri, stamp.version, stamp.scheme) == stamp


def clear_refused(catalog: Catalog, dataset: LanceDataset, branch: str | None) -> None:
    """Delete what a change that was refused has left where a table was, if its directory is used by nobody again."""
    location, place = _places(catalog, dataset, branch)
    clear_purged(catalog, location, None, place=place)


def _places(catalog: Catalog, dataset: LanceDataset, branch: str | None) -> tuple[str, str]:
    """Name the directory of a table, and the one in it in which the versions of the branch are."""
    inside = catalog.store.relative(dataset.uri)
    if inside is None:
        raise InternalError(f"The table at {dataset.uri!r} is not in the catalog's root")
    if branch is None:
        return inside, inside
    # Lance gives a branch the location of the table or its own.
    location = inside.removesuffix(f"/tree/{branch}")
    return location, f"{location}/tree/{branch}"


def _is_managed(catalog: Catalog, identifier: Identifier) -> bool:
    """Tell whether the catalog has refused such a commit already."""
    manifest = catalog.manifest
    return (
        manifest is not None
        and managed.manages_versions(catalog)
        and manifest.peek(lambda snapshot: snapshot.get(object_id(identifier)) is not None)
    )


def take_back(catalog: Catalog, location: str, error: BaseException, *, place: str | None = None) -> None:
    """Delete what was written in vain: files with names of their own, and a version made where nothing was.

    `place` is where they are, if that is the directory of a branch in the table's.
    """
    store = catalog.store
    place = place or location
    late = error.version if isinstance(error, TableGoneError) else None
    if clear_purged(catalog, location, late, place=place):
        return
    files = [layout.inside(place, path) for path in getattr(error, "leftovers", ())]
    if late is not None:
        files += _without_version(store, layout.inside(place, naming.VERSIONS_FOLDER), late)
    if files:
        store.delete(*files)
    for folder in {path.rpartition("/")[0] for path in files}:
        store.prune(folder)


def clear_purged(catalog: Catalog, location: str, late: int | None, *, place: str | None = None) -> bool:
    """Delete a directory with a hashed name if its table was purged: nobody will use it again. False if not.

    `late` is a version that was committed to it in vain.
    """
    if layout.root_table_name(location) is not None:
        return False
    if not _is_purged_by_rows(catalog, location, place or location, late):
        return False
    if purge_proof.foreign_entries(catalog.store.list_names(location)):
        # Something else than a table's files is in it.
        return False
    catalog.store.delete_tree(location)
    return True


def _without_version(store: Store, folder: str, version: int) -> list[str]:
    """Delete a version unless somebody has made it anew; names what is then left over of no version at all."""
    names = store.list_names(folder)
    for name in names:
        path = layout.inside(folder, name)
        blob = store.get(path, max_bytes=LARGEST_MANIFEST) if history.parse_version(name) == version else None
        if blob is not None and not store.delete_if(path, blob.e_tag):
            return []
    others = [name for name in names if history.parse_version(name) not in {None, version}]
    return [] if others else [layout.inside(folder, name) for name in names if history.parse_version(name) is None]


def _is_purged(catalog: Catalog, location: str, place: str, made: LanceDataset) -> bool:
    """Tell whether a table whose base is missing was purged, or is being purged.

    A version of a root table whose rows are all there may stand: its old versions were cleaned up, or the table was
    purged and the change left no old rows in it, which nobody can tell apart.
    """
    store, name = catalog.store, layout.root_table_name(location)
    if name is None:
        return _is_purged_by_rows(catalog, location, place, int(made.version))
    current = claim.read(store, name)
    if current is not None and current.marker is not None and current.marker.state == PURGING:
        return True
    return any(
        all(store.size(layout.inside(folder, file)) is None for folder in {location, place})
        for file in list_oldest_files(made)
    )


def _is_purged_by_rows(catalog: Catalog, location: str, place: str, late: int | None) -> bool:
    """Tell whether a table in a hashed directory was purged; the late version is not its own.

    No row names it then, as if it had been deregistered, which keeps its versions.
    """
    given_up, named = catalog.require_manifest("a change").read(
        lambda snapshot: (trash.is_given_up(snapshot, location), bool(snapshot.object_ids_at(location)))
    )
    return given_up and (named or _is_alone(catalog, location, place, late))


def _is_alone(catalog: Catalog, location: str, place: str, late: int | None) -> bool:
    """Tell whether nothing but a late version is in a table's directory, or in that of a branch of it."""
    there = _versions(catalog, location)
    return there <= {late} if place == location else not there


def _cleared(catalog: Catalog, name: str, place: str, gone: TableGoneError) -> bool:
    """Clear the directory of a root table in which nothing but the late version is; under the claim on its name."""
    store, location = catalog.store, layout.root_table(name)
    try:
        wanted = Marker(REVIVING).leased(REVIVING, CREATE)
        held = claim.take(store, name, wanted, lambda current: purge.settle(catalog, current))
    except ConcurrentModificationError:
        return False
    prior = None if held.marker is None else held.marker.prior
    now = look_at(store, location)
    # It may have been declared anew.
    free = prior is None and not now.reserved and not now.deregistered
    alone = free and _is_alone(catalog, location, place, gone.version)
    if alone:
        purge.clear(store, held)
    elif prior is not None:
        claim.move(store, held, prior)
    else:
        claim.remove(store, held)
    return alone


def _versions(catalog: Catalog, place: str) -> set[int]:
    found = map(naming.parse_name, catalog.store.list_names(layout.inside(place, naming.VERSIONS_FOLDER)))
    return {one[0] for one in found if one is not None}
