"""Delete the directory of a purged manifest table that a slow writer has written to again.

A directory with a hashed name is never used twice, so nothing of value can be in it once its table was purged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.directory import layout, purge_proof
from pennon.directory.manifest_tables import trash
from pennon.table import naming

if TYPE_CHECKING:
    from pennon.directory.catalog import Catalog


def delete_if_purged(
    catalog: Catalog, location: str, late_version: int | None = None, *, branch_location: str | None = None
) -> bool:
    """Delete the directory of a manifest table if the table was purged; False if it was not.

    `late_version` was committed to it in vain, in `branch_location` if it belongs to a branch.
    """
    if layout.root_table_name(location) is not None:
        return False
    if not is_purged(catalog, location, late_version, branch_location=branch_location):
        return False
    if purge_proof.foreign_entries(catalog.store.list_names(location)):
        return False
    catalog.store.delete_tree(location)
    return True


def is_purged(catalog: Catalog, location: str, late_version: int | None, *, branch_location: str | None = None) -> bool:
    """Return True if a manifest table was purged. A deregistered table has no row either, but keeps its versions."""
    abandoned, has_row = catalog.require_manifest("a change").read(
        lambda snapshot: (trash.is_abandoned(snapshot, location), bool(snapshot.object_ids_at(location)))
    )
    return abandoned and (has_row or is_only_version(catalog, location, late_version, branch_location=branch_location))


def is_only_version(
    catalog: Catalog, location: str, late_version: int | None, *, branch_location: str | None = None
) -> bool:
    """Return True if a table's directory holds no version, or only a late one, which may be in that of a branch."""
    names = catalog.store.list_names(layout.inside(location, naming.VERSIONS_FOLDER))
    versions = {parsed[0] for name in names if (parsed := naming.parse_name(name)) is not None}
    is_on_main = branch_location is None or branch_location == location
    return versions <= {late_version} if is_on_main else not versions
