"""Commits to a table after it was purged, or replaced in the same directory.

A server that manages versions refuses them, because each commit names the table that it belongs to. Otherwise Lance
writes to the files directly, so the client checks after its commit whether the base version still exists. A dropped
table keeps its files: a late commit is restored with it.
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
"""The stamp of a version of a managed table: the server refuses commits that are based on another one."""


def read_base(dataset: LanceDataset, branch: str | None) -> BaseVersion:
    """Return the base version of a change, and whether the server checks it. For branches, it does not."""
    managed = branch is None and getattr(dataset, "_namespace_client_managed_versioning", False)
    return BaseVersion.of(dataset, branch, SERVER if managed else None)


def require_base(catalog: Catalog, identifier: Identifier, base: BaseVersion, made: LanceDataset) -> None:
    """Delete a new version and raise ConcurrentModificationError if its table was purged or replaced."""
    if int(made.version) == base.version or base.stamp is SERVER:
        return
    ground = base.check_state(made)
    if ground is BaseState.SAME:
        return
    entry = catalog.any_table(identifier)
    place = _place(made, base.branch)
    stays = entry is not None and _is_at(catalog.location(entry), place)
    if ground is BaseState.MISSING and stays:
        # Only old versions were cleaned up.
        return
    catalog.handles.clear()
    options = catalog.options(entry) if entry is not None and stays else catalog.places.options(None, {})
    _delete_version(catalog.places.store(place, options), made, base.branch)
    delete_refused_files(catalog, made, base.branch)
    raise ConcurrentModificationError(
        f"Table {format_identifier(identifier)} was dropped or replaced while it was changed"
    )


def delete_refused_files(catalog: Catalog, dataset: LanceDataset, branch: str | None) -> None:
    """Delete the files that a change left in the directory of a purged table, if no other table can use it."""
    root = catalog.places.root
    path = catalog.places.below_root(_place(dataset, branch))
    if root is None or path is None or not catalog.places.is_new_name(path):
        return
    if not any(map(naming.parse_name, root.list_names(f"{path}/{naming.VERSIONS_FOLDER}"))):
        catalog.places.delete(path)


def _place(dataset: LanceDataset, branch: str | None) -> str:
    """Return the directory of a table. For a branch, Lance returns either that or the directory of the branch."""
    uri = dataset.uri.rstrip("/")
    return uri if branch is None else uri.removesuffix(f"/tree/{branch}")


def _is_at(location: str, place: str) -> bool:
    return location.removeprefix("file://").rstrip("/") == place.removeprefix("file://")


def _delete_version(store: Store, made: LanceDataset, branch: str | None) -> None:
    """Delete a version, unless another client has replaced it, and the files that were written for it."""
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
