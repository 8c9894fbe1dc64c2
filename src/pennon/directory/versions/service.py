"""The version operations of the interface: by rows of the manifest if the catalog manages versions, else by files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.directory.manifest import flags
from pennon.directory.versions import unmanaged, version_files, version_rows
from pennon.directory.versions.record import Record, is_staged
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
    from pennon.directory.lookup.resolve import Found


@dataclass(frozen=True)
class Staged:
    """A version as a caller asks for it."""

    identifier: Identifier
    version: int
    path: str
    scheme: str | None = None
    metadata: Mapping[str, str] | None = None
    branch: str | None = None

    @property
    def shown(self) -> str:
        """Name the table, and the branch, in messages."""
        return (
            format_identifier(self.identifier)
            if self.branch is None
            else f"{format_identifier(self.identifier)}, branch {self.branch!r},"
        )


def is_managed(catalog: Catalog, found: Found) -> bool:
    """Tell whether the catalog manages the versions of a table that was just found."""
    return found.row is not None and manages(catalog)


def manages(catalog: Catalog) -> bool:
    """Tell whether the catalog manages the versions of its tables."""
    manifest = catalog.manifest
    return manifest is not None and manifest.peek(lambda snapshot: flags.manages_versions(snapshot.metadata))


def create(catalog: Catalog, wanted: Sequence[Staged]) -> list[Record]:
    """Create versions: in one commit those that the catalog manages, then the others one after the other.

    Of branches the files decide in any case.
    """
    found = [catalog.resolver.table(entry.identifier) for entry in wanted]
    records = [_checked(catalog, entry, table) for entry, table in zip(wanted, found, strict=True)]
    by_rows = {
        number: version_rows.Wanted(table_of(table), records[number])
        for number, table in enumerate(found)
        if wanted[number].branch is None and is_managed(catalog, table)
    }
    created = dict(zip(by_rows, version_rows.create(catalog, list(by_rows.values())) if by_rows else [], strict=True))
    return [
        created.get(number) or _created_by_file(catalog, entry, table, record)
        for number, (entry, table, record) in enumerate(zip(wanted, found, records, strict=True))
    ]


def list_versions(
    catalog: Catalog,
    identifier: Identifier,
    token: str | None,
    limit: int | None,
    *,
    descending: bool,
    branch: str | None = None,
) -> tuple[list[Record], str | None]:
    """List a page of versions. The latest alone is one request where the catalog manages versions.

    Errors 1, 4, 13, 22.
    """
    found, branch = catalog.resolver.table(identifier), normalize_branch(branch)
    is_rows = is_managed(catalog, found) and branch is None
    if is_rows and limit == 1 and descending and not token:
        newest = version_rows.latest(catalog, table_of(found))
        more = newest is not None and newest.version > 1
        return ([] if newest is None else [newest]), (_token(newest, descending=True) if newest and more else None)
    if is_rows:
        records = version_rows.list_records(catalog, table_of(found))
    else:
        records = list(_records(catalog, found, branch).values())
    by_key = {_key(record, descending=descending): record for record in records}
    keys, next_token = select_page(sorted(by_key), token, limit, takes_names=False)
    return [by_key[key] for key in keys], next_token


def describe(catalog: Catalog, identifier: Identifier, version: int | None, branch: str | None = None) -> Record:
    """Give one version, or the latest; a version that was committed and not finished is finished. Errors 11, 22."""
    found, branch = catalog.resolver.table(identifier), normalize_branch(branch)
    is_rows = is_managed(catalog, found) and branch is None
    if version is None:
        newest = version_rows.latest(catalog, table_of(found)) if is_rows else _newest_file(catalog, found, branch)
        if newest is None:
            raise TableVersionNotFoundError(f"Table {format_identifier(identifier)} has no version yet")
        return newest
    if is_rows:
        return version_rows.describe(catalog, table_of(found), version)
    directory = _directory(found, branch)
    if branch is not None:
        _require_branch(catalog, found, branch)
    return unmanaged.describe(catalog.store, directory, format_identifier(identifier), version)


def latest_of(catalog: Catalog, identifiers: Sequence[Identifier]) -> list[Record]:
    """Give the latest versions of several tables as of one moment: of a commit of several tables, all or none.

    Tables are looked at first; then their versions are read off one version of the manifest.
    """
    if not manages(catalog):
        raise UnsupportedOperationError("latest_table_versions needs the management of versions")
    tables = [table_of(catalog.resolver.table(identifier)) for identifier in identifiers]
    newest = []
    for identifier, table, record in zip(identifiers, tables, version_rows.latest_of(catalog, tables), strict=True):
        found = record or version_rows.latest(catalog, table)
        if found is None:
            raise TableVersionNotFoundError(f"Table {format_identifier(identifier)} has no version yet")
        newest.append(found)
    return newest


def delete(
    catalog: Catalog,
    identifier: Identifier,
    ranges: Sequence[VersionRange],
    *,
    ignore_missing: bool = True,
    branch: str | None = None,
) -> int:
    """Delete versions by ranges, the end not included, -1 for all to the end; never the latest of a live table (19).

    Where the catalog manages versions the commit that removes the rows comes first, then the files go. A crash in
    between leaves files that no row names.
    """
    found, branch = catalog.resolver.table(identifier), normalize_branch(branch)
    chosen = VersionRanges(ranges, format_identifier(identifier), ignore_missing=ignore_missing).select
    if not is_managed(catalog, found) or branch is not None:
        directory = _directory(found, branch)
        if branch is not None:
            _require_branch(catalog, found, branch)
        return unmanaged.delete(catalog.store, directory, format_identifier(identifier), chosen)
    plan = version_rows.removal_plan(table_of(found), chosen)
    removed = catalog.require_manifest("batch_delete_table_versions").mutate(plan)
    version_rows.delete_files(catalog, found.location, removed)
    return len(removed)


def table_of(found: Found) -> version_rows.Table:
    """Name a table as the manifest does."""
    return version_rows.Table(object_id(found.identifier), found.location)


def checked(catalog: Catalog, wanted: Staged, declared_at: str | None) -> tuple[version_rows.Table, Record]:
    """Check a version to be created of a table that is there, or is declared by the same commit; not of a branch."""
    if wanted.branch is not None:
        raise UnsupportedOperationError(
            f"Versions of several tables are committed together, but not of branches: {wanted.shown}"
        )
    if declared_at is not None:
        return version_rows.Table(object_id(wanted.identifier), declared_at), _record(catalog, wanted, declared_at)
    found = catalog.resolver.table(wanted.identifier)
    return table_of(found), _checked(catalog, wanted, found)


def _created_by_file(catalog: Catalog, wanted: Staged, found: Found, record: Record) -> Record:
    directory, is_branch = _directory(found, wanted.branch), wanted.branch is not None
    return unmanaged.create(catalog.store, directory, wanted.shown, record, is_branch=is_branch)


def _checked(catalog: Catalog, wanted: Staged, found: Found) -> Record:
    return _record(catalog, wanted, _directory(found, wanted.branch))


def _record(catalog: Catalog, wanted: Staged, directory: str) -> Record:
    """Check a staged manifest's path: inside of the table's own versions, and named after the version. Else 13."""
    if wanted.version < 1:
        raise InvalidInputError(
            f"Bad version {wanted.version} of table {format_identifier(wanted.identifier)}: the first is 1"
        )
    path = relative_path(catalog, wanted.path)
    staged = None if path is None else naming.parse_staged_name(path.rpartition("/")[2])
    if path is None or staged is None or not is_staged(path, directory, wanted.version):
        raise InvalidInputError(
            f"{wanted.path!r} is no staged manifest of version {wanted.version} of table "
            f"{format_identifier(wanted.identifier)}"
        )
    scheme = wanted.scheme or staged[1]
    naming.format_name(wanted.version, scheme)
    return Record(wanted.version, path, scheme, metadata=wanted.metadata)


def relative_path(catalog: Catalog, path: str) -> str | None:
    """Understand the path of a manifest: as Lance writes it, as a URI, or below the root; None if it is elsewhere."""
    if "://" in path:
        return catalog.store.relative(path)
    inside = catalog.store.from_absolute(path)
    return path if inside is None and not path.startswith("/") and ".." not in path.split("/") else inside


def _newest_file(catalog: Catalog, found: Found, branch: str | None) -> Record | None:
    records = _records(catalog, found, branch)
    return records[max(records)] if records else None


def _records(catalog: Catalog, found: Found, branch: str | None) -> dict[int, Record]:
    """Return the versions that files show, by number; raises TableBranchNotFoundError for a missing branch."""
    directory = _directory(found, branch)
    if branch is not None:
        _require_branch(catalog, found, branch)
    return version_files.records(catalog.store, directory)


def _require_branch(catalog: Catalog, found: Found, branch: str) -> None:
    """Raise TableBranchNotFoundError unless the file that names the branch is there.

    Its versions alone prove nothing: Lance leaves them while there is a branch below the deleted one.
    """
    if catalog.store.size(f"{found.location}/{ref_path(branch)}") is None:
        raise _no_branch(found, branch)


def _directory(found: Found, branch: str | None) -> str:
    if branch is None:
        return found.location
    if not branch or branch.startswith("/") or any(part in {"", ".", ".."} for part in branch.split("/")):
        raise _no_branch(found, branch)
    return f"{found.location}/tree/{branch}"


def _no_branch(found: Found, branch: str) -> TableBranchNotFoundError:
    return TableBranchNotFoundError(f"Table {format_identifier(found.identifier)} has no branch {branch!r}")


def _key(record: Record, *, descending: bool) -> str:
    return f"{naming.LARGEST - record.version if descending else record.version:020}"


def _token(record: Record, *, descending: bool) -> str | None:
    key = _key(record, descending=descending)
    return select_page([key, key + "~"], None, 1)[1]
