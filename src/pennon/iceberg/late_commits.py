"""Changes that were committed to a table after it was purged, or made anew in the same directory.

Where the server decides about versions, it refuses them: it is told which table was looked at. Else nothing stands
between Lance and the files, and whoever has committed looks whether the version that was built on is still there.
A table that is only dropped keeps its files: what is committed late comes back with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import ConcurrentModificationError
from pennon.identifiers import Identifier, format_identifier
from pennon.table import naming
from pennon.table.version_identity import BaseState, BaseVersion, list_written_files

if TYPE_CHECKING:
    from lance import LanceDataset

    from pennon.iceberg.catalog import Catalog
    from pennon.store import Store


SERVER = object()
"""The stamp of a version that the server has to know: it refuses what is built on another one."""


def read_base(dataset: LanceDataset, branch: str | None) -> BaseVersion:
    """Remember the version that is open, and who decides what comes after it: about branches, the files do."""
    managed = branch is None and getattr(dataset, "_namespace_client_managed_versioning", False)
    return BaseVersion.of(dataset, branch, SERVER if managed else None)


def require_base(catalog: Catalog, identifier: Identifier, base: BaseVersion, made: LanceDataset) -> None:
    """Take a version back, and raise 14, if the table that it was made of was purged or made anew meanwhile."""
    if int(made.version) == base.version or base.stamp is SERVER:
        return
    ground = base.check_state(made)
    if ground is BaseState.SAME:
        return
    entry = catalog.any_table(identifier)
    place = _place(made, base.branch)
    stays = entry is not None and _is_at(catalog.location(entry), place)
    if ground is BaseState.MISSING and stays:
        # Only its old versions were cleaned up.
        return
    catalog.handles.clear()
    options = catalog.options(entry) if entry is not None and stays else catalog.places.options(None, {})
    _delete_version(catalog.places.store(place, options), made, base.branch)
    delete_refused_files(catalog, made, base.branch)
    raise ConcurrentModificationError(
        f"Table {format_identifier(identifier)} was dropped or replaced while it was changed"
    )


def delete_refused_files(catalog: Catalog, dataset: LanceDataset, branch: str | None) -> None:
    """Delete what a change has left in the directory of a purged table, if that was named for this table alone."""
    root = catalog.places.root
    path = catalog.places.below_root(_place(dataset, branch))
    if root is None or path is None or not catalog.places.is_new_name(path):
        return
    if not any(map(naming.parse_name, root.list_names(f"{path}/{naming.VERSIONS_FOLDER}"))):
        catalog.places.delete(path)


def _place(dataset: LanceDataset, branch: str | None) -> str:
    """Name the directory of a table; Lance gives a branch that of the table or its own."""
    uri = dataset.uri.rstrip("/")
    return uri if branch is None else uri.removesuffix(f"/tree/{branch}")


def _is_at(location: str, place: str) -> bool:
    return location.removeprefix("file://").rstrip("/") == place.removeprefix("file://")


def _delete_version(store: Store, made: LanceDataset, branch: str | None) -> None:
    """Delete a version, unless somebody has made it anew, and the files that were written for it."""
    inside = "" if branch is None else f"tree/{branch}/"
    folder = f"{inside}{naming.VERSIONS_FOLDER}"
    files = [f"{inside}{path}" for path in list_written_files(made)]
    for name in store.list_names(folder):
        parsed = naming.parse_name(name)
        blob = store.get(f"{folder}/{name}") if parsed is not None and parsed[0] == int(made.version) else None
        if blob is not None and not store.delete_if(f"{folder}/{name}", blob.e_tag):
            return
    if files:
        store.delete(*files)
    for path in {one.rpartition("/")[0] for one in files} | {folder}:
        store.prune(path)
