"""The version operations of the interface: by version rows if the catalog manages versions, else by files.

Files always decide about branches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.directory.versions import managed, version_commit, version_files, version_rows
from pennon.directory.versions.managed import manages_versions
from pennon.directory.versions.record import VersionRecord, is_staged_path
from pennon.directory.versions.version_commit import StagedVersion
from pennon.directory.versions.version_rows import ManagedTable
from pennon.errors import (
    InvalidInputError,
    TableBranchNotFoundError,
    TableVersionNotFoundError,
    UnsupportedOperationError,
)
from pennon.identifiers import Identifier, format_identifier, object_id
from pennon.paging import select_page
from pennon.table import naming
from pennon.table.branches import ref_path
from pennon.table.version_ranges import VersionRanges
from pennon.table.version_selector import normalize_branch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance_namespace_urllib3_client.models.version_range import VersionRange

    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.resolve import ResolvedTable


@dataclass(frozen=True)
class VersionRequest:
    """A request to create a version from a staged manifest."""

    identifier: Identifier
    version: int
    path: str
    scheme: str | None = None
    metadata: Mapping[str, str] | None = None
    branch: str | None = None

    def __str__(self) -> str:
        """Name the table, and the branch, in messages."""
        table = format_identifier(self.identifier)
        return table if self.branch is None else f"{table}, branch {self.branch!r},"


def is_managed(catalog: Catalog, found: ResolvedTable) -> bool:
    """Return True if the catalog manages the versions of a table that was just resolved."""
    return found.row is not None and manages_versions(catalog)


def require_management(catalog: Catalog, operation: str) -> None:
    """Raise UnsupportedOperationError unless the catalog manages the versions of its tables."""
    if not manages_versions(catalog):
        raise UnsupportedOperationError(
            f"{operation} needs version management: turn it on with `pennon manage-versions` or "
            "enable_table_version_management()"
        )


def create_versions(catalog: Catalog, requests: Sequence[VersionRequest], *, wait: bool = True) -> list[VersionRecord]:
    """Create versions: managed ones in one commit, then the others one after the other.

    Without `wait`, the rows of managed versions are finished in the background.
    """
    found = [catalog.resolver.table(request.identifier) for request in requests]
    records = [
        _check_record(catalog, request, _directory(table, request.branch))
        for request, table in zip(requests, found, strict=True)
    ]
    by_rows = {
        number: StagedVersion(managed_table(table), records[number])
        for number, table in enumerate(found)
        if requests[number].branch is None and is_managed(catalog, table)
    }
    created = {}
    if by_rows:
        committed = version_commit.create_versions(catalog, list(by_rows.values()), wait=wait)
        created = dict(zip(by_rows, committed, strict=True))
    for number, (request, table) in enumerate(zip(requests, found, strict=True)):
        if number not in created:
            directory, is_branch = _directory(table, request.branch), request.branch is not None
            created[number] = version_files.create_version(
                catalog.store, directory, str(request), records[number], is_branch=is_branch
            )
    return [created[number] for number in range(len(requests))]


def list_versions(
    catalog: Catalog,
    identifier: Identifier,
    token: str | None,
    limit: int | None,
    *,
    descending: bool,
    branch: str | None = None,
) -> tuple[list[VersionRecord], str | None]:
    """Return a page of versions and the token of the next page.

    Raises NamespaceNotFoundError, TableNotFoundError or TableBranchNotFoundError if the table or its branch does not
    exist, InvalidInputError for a bad token or limit. The latest managed version alone costs one request.
    """
    found, branch = catalog.resolver.table(identifier), normalize_branch(branch)
    if branch is not None or not is_managed(catalog, found):
        records = list(version_files.list_versions(catalog.store, _require_directory(catalog, found, branch)).values())
    elif limit == 1 and descending and not token:
        newest = managed.find_latest(catalog, managed_table(found))
        if newest is None:
            return [], None
        key = _sort_key(newest, descending=True)
        return [newest], select_page([key, key + "~"], None, 1)[1] if newest.version > 1 else None
    else:
        records = managed.list_versions(catalog, managed_table(found))
    by_key = {_sort_key(record, descending=descending): record for record in records}
    keys, next_token = select_page(sorted(by_key), token, limit, takes_names=False)
    return [by_key[key] for key in keys], next_token


def describe_version(
    catalog: Catalog, identifier: Identifier, version: int | None, branch: str | None = None
) -> VersionRecord:
    """Return one version, or the latest if `version` is None. An unfinished version is finished.

    Raises TableVersionNotFoundError or TableBranchNotFoundError if it does not exist.
    """
    found, branch = catalog.resolver.table(identifier), normalize_branch(branch)
    if branch is None and is_managed(catalog, found):
        table = managed_table(found)
        if version is not None:
            return managed.describe_version(catalog, table, version)
        return _require_latest(managed.find_latest(catalog, table), identifier)
    directory = _require_directory(catalog, found, branch)
    if version is not None:
        return version_files.describe_version(catalog.store, directory, format_identifier(identifier), version)
    records = version_files.list_versions(catalog.store, directory)
    return _require_latest(records.get(max(records, default=0)), identifier)


def latest_versions(catalog: Catalog, identifiers: Sequence[Identifier]) -> list[VersionRecord]:
    """Return the latest versions of several tables in one version of the manifest.

    Of a commit to several tables, the result shows all versions or none. Raises UnsupportedOperationError if the
    catalog does not manage versions, TableVersionNotFoundError if a table has no version.
    """
    require_management(catalog, "latest_table_versions")
    # Each table is resolved first, because resolving may read a newer version of the manifest.
    tables = [managed_table(catalog.resolver.table(identifier)) for identifier in identifiers]
    records = managed.find_latest_together(catalog, tables)
    return [
        _require_latest(record or managed.find_latest(catalog, table), identifier)
        for identifier, table, record in zip(identifiers, tables, records, strict=True)
    ]


def delete_versions(
    catalog: Catalog,
    identifier: Identifier,
    ranges: Sequence[VersionRange],
    *,
    ignore_missing: bool = True,
    branch: str | None = None,
) -> int:
    """Delete versions by ranges, and return how many. The end of a range is exclusive, and -1 means no end.

    Raises InvalidTableStateError if the latest version is in a range. Where the catalog manages versions, the commit
    that removes the rows is the commit point. A crash after it leaves files that no row refers to.
    """
    found, branch = catalog.resolver.table(identifier), normalize_branch(branch)
    choose = VersionRanges(ranges, format_identifier(identifier), ignore_missing=ignore_missing).select
    if branch is not None or not is_managed(catalog, found):
        directory = _require_directory(catalog, found, branch)
        return version_files.delete_versions(catalog.store, directory, format_identifier(identifier), choose)
    plan = version_rows.plan_removal(managed_table(found), choose)
    removed = catalog.require_manifest("batch_delete_table_versions").mutate(plan)
    managed.delete_files(catalog, found.location, removed)
    return len(removed)


def managed_table(found: ResolvedTable) -> ManagedTable:
    """Return the key and the location of a resolved table."""
    return ManagedTable(object_id(found.identifier), found.location)


def check_staged_version(catalog: Catalog, request: VersionRequest, declared_at: str | None) -> StagedVersion:
    """Return the version to be created of a table that exists, or that the same commit declares at a location.

    Raises UnsupportedOperationError for a branch, InvalidInputError for a bad version or path.
    """
    if request.branch is not None:
        raise UnsupportedOperationError(
            f"Versions of branches cannot be committed together with other tables: {request}"
        )
    if declared_at is None:
        table = managed_table(catalog.resolver.table(request.identifier))
    else:
        table = ManagedTable(object_id(request.identifier), declared_at)
    return StagedVersion(table, _check_record(catalog, request, table.location))


def _check_record(catalog: Catalog, request: VersionRequest, directory: str) -> VersionRecord:
    """Return the record of a requested version.

    Raises InvalidInputError unless the path is that of a manifest staged for this version of this table.
    """
    table = format_identifier(request.identifier)
    if request.version < 1:
        raise InvalidInputError(f"Bad version {request.version} of table {table}: the first is 1")
    path = _relative_path(catalog, request.path)
    staged = None if path is None else naming.parse_staged_name(path.rpartition("/")[2])
    if path is None or staged is None or not is_staged_path(path, directory, request.version):
        raise InvalidInputError(f"{request.path!r} is no staged manifest of version {request.version} of table {table}")
    scheme = request.scheme or staged[1]
    naming.format_name(request.version, scheme)
    return VersionRecord(request.version, path, scheme, metadata=request.metadata)


def _relative_path(catalog: Catalog, path: str) -> str | None:
    """Return a path below the root: Lance's form, a URI and a relative path are accepted. None if it is elsewhere."""
    if "://" in path:
        return catalog.store.relative(path)
    inside = catalog.store.from_absolute(path)
    return path if inside is None and not path.startswith("/") and ".." not in path.split("/") else inside


def _require_latest(record: VersionRecord | None, identifier: Identifier) -> VersionRecord:
    if record is None:
        raise TableVersionNotFoundError(f"Table {format_identifier(identifier)} has no version yet")
    return record


def _require_directory(catalog: Catalog, found: ResolvedTable, branch: str | None) -> str:
    """Return the directory of a table or of its branch. Raises TableBranchNotFoundError unless the branch exists.

    The versions of a branch do not prove that it exists: Lance keeps them while another branch depends on them.
    """
    directory = _directory(found, branch)
    if branch is not None and catalog.store.size(f"{found.location}/{ref_path(branch)}") is None:
        raise _branch_not_found(found, branch)
    return directory


def _directory(found: ResolvedTable, branch: str | None) -> str:
    if branch is None:
        return found.location
    if not branch or branch.startswith("/") or any(part in {"", ".", ".."} for part in branch.split("/")):
        raise _branch_not_found(found, branch)
    return f"{found.location}/tree/{branch}"


def _branch_not_found(found: ResolvedTable, branch: str) -> TableBranchNotFoundError:
    return TableBranchNotFoundError(f"Table {format_identifier(found.identifier)} has no branch {branch!r}")


def _sort_key(record: VersionRecord, *, descending: bool) -> str:
    return f"{naming.LARGEST - record.version if descending else record.version:020}"
