"""The version operations of the interface: by snapshots if the catalog manages a table's versions, else by files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import TableBranchNotFoundError
from pennon.iceberg import files, managed
from pennon.identifiers import Identifier, format_identifier
from pennon.paging import select_page
from pennon.table import naming
from pennon.table.branches import ref_path
from pennon.table.version_selector import normalize_branch

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_namespace_urllib3_client.models.table_version import TableVersion

    from pennon.iceberg.catalog import Catalog
    from pennon.iceberg.entry import Entry
    from pennon.iceberg.files import StagedManifest, VersionFile
    from pennon.store import Store


def create(catalog: Catalog, identifier: Identifier, wanted: StagedManifest, branch: str | None) -> TableVersion:
    """Publish a staged manifest as the next version of a table or branch.

    Raises NamespaceNotFoundError or TableNotFoundError if the table does not exist, ConcurrentModificationError if the
    version exists, UnknownOutcomeError if the outcome is not known.
    """
    entry, branch = catalog.table(identifier), normalize_branch(branch)
    store = catalog.store(entry)
    if entry.is_managed and branch is None:
        return managed.create(catalog, [(identifier, wanted)], [entry])[0].shown(store)
    directory = files.directory_of(branch, format_identifier(identifier))
    staged = wanted.checked(store, format_identifier(identifier), directory)
    return files.create(store, format_identifier(identifier), staged, directory).shown(store)


def list_versions(
    catalog: Catalog,
    identifier: Identifier,
    token: str | None,
    limit: int | None,
    *,
    descending: bool,
    branch: str | None,
) -> tuple[list[TableVersion], str | None]:
    """Return a page of versions. The latest version of a managed table needs no listing.

    Raises NamespaceNotFoundError, TableNotFoundError or TableBranchNotFoundError if the table does not exist.
    """
    entry, branch = catalog.table(identifier), normalize_branch(branch)
    store = catalog.store(entry)
    if entry.is_managed and branch is None:
        if limit == 1 and descending and not token:
            return _latest(catalog, entry)
        found = managed.list_versions(entry, store)
    else:
        found = list(files.list_versions(store, _directory(store, branch, format_identifier(identifier))).values())
    by_key = {_key(one, descending=descending): one for one in found}
    keys, following = select_page(sorted(by_key), token, limit, takes_names=False)
    return [by_key[key].shown(store) for key in keys], following


def describe(catalog: Catalog, identifier: Identifier, version: int | None, branch: str | None) -> TableVersion:
    """Return a version, or the latest one.

    Raises TableVersionNotFoundError or TableBranchNotFoundError if it does not exist.
    """
    entry, branch = catalog.table(identifier), normalize_branch(branch)
    store = catalog.store(entry)
    if entry.is_managed and branch is None:
        return managed.describe(entry, store, version).shown(store)
    directory = _directory(store, branch, format_identifier(identifier))
    return files.describe(store, format_identifier(identifier), version, directory).shown(store)


def delete(
    catalog: Catalog, identifier: Identifier, chosen: Callable[[list[int]], list[int]], branch: str | None
) -> int:
    """Delete versions and return how many. Raises InvalidTableStateError if the latest is among them."""
    entry, branch = catalog.table(identifier), normalize_branch(branch)
    if entry.is_managed and branch is None:
        return managed.delete(catalog, identifier, chosen)
    store = catalog.store(entry)
    directory = _directory(store, branch, format_identifier(identifier))
    return files.delete(store, format_identifier(identifier), chosen, directory)


def _directory(store: Store, branch: str | None, what: str) -> str:
    """Return the directory of a branch; raises TableBranchNotFoundError if no file names the branch."""
    directory = files.directory_of(branch, what)
    if branch is not None and store.size(ref_path(branch)) is None:
        raise TableBranchNotFoundError(f"Table {what} has no branch {branch!r}")
    return directory


def _latest(catalog: Catalog, entry: Entry) -> tuple[list[TableVersion], str | None]:
    store = catalog.store(entry)
    newest = managed.latest(entry, store)
    if newest is None:
        return [], None
    key = _key(newest, descending=True)
    return [newest.shown(store)], select_page([key, key + "~"], None, 1)[1] if newest.version > 1 else None


def _key(one: VersionFile, *, descending: bool) -> str:
    return f"{naming.LARGEST - one.version if descending else one.version:020}"
