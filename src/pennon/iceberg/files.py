"""Versions of a table as the files in its directory show them. Paths are below the table's directory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lance_namespace_urllib3_client.models.table_version import TableVersion

from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
    TableBranchNotFoundError,
    TableVersionAlreadyExistsError,
    TableVersionNotFoundError,
)
from pennon.table import naming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pennon.store import Store
    from pennon.store.protocol import FileEntry


@dataclass(frozen=True)
class VersionFile:
    """One version of a table."""

    version: int
    path: str
    """Where its manifest is: staged, or in its place."""
    scheme: str = naming.V2
    size: int | None = None
    e_tag: str | None = None
    timestamp_ms: int | None = None

    def place(self, directory: str = "") -> str:
        """Return the path at which readers expect the version."""
        return f"{directory}{naming.VERSIONS_FOLDER}/{naming.format_name(self.version, self.scheme)}"

    def shown(self, store: Store) -> TableVersion:
        """Return the version as a response, with the path as Lance writes it."""
        return TableVersion(
            version=self.version,
            manifest_path=store.absolute(self.path),
            manifest_size=self.size,
            e_tag=self.e_tag,
            timestamp_millis=self.timestamp_ms,
        )


@dataclass(frozen=True)
class StagedManifest:
    """A version as a caller asks for it."""

    version: int
    path: str
    scheme: str | None = None

    def checked(self, store: Store, shown: str, directory: str = "") -> VersionFile:
        """Check that it is a staged manifest of this version in the table's own directory; else 13."""
        if self.version < 1:
            raise InvalidInputError(f"Bad version {self.version} of table {shown}: the first is 1")
        path = store.relative(self.path) if "://" in self.path else store.from_absolute(self.path)
        folder = f"{directory}{naming.VERSIONS_FOLDER}/"
        name = "" if path is None else path.removeprefix(folder)
        staged = naming.parse_staged_name(name)
        if path is None or not path.startswith(folder) or "/" in name or staged is None or staged[0] != self.version:
            raise InvalidInputError(f"{self.path!r} is no staged manifest of version {self.version} of table {shown}")
        scheme = self.scheme or staged[1]
        naming.format_name(self.version, scheme)
        return VersionFile(self.version, path, scheme)


def directory_of(branch: str | None, shown: str) -> str:
    """Return the directory of a branch with a slash, or "" for the main branch."""
    if branch is None:
        return ""
    if not branch or any(part in {"", ".", ".."} for part in branch.split("/")):
        raise TableBranchNotFoundError(f"Table {shown} has no branch {branch!r}")
    return f"tree/{branch}/"


def list_versions(store: Store, directory: str = "") -> dict[int, VersionFile]:
    """List the versions that have files, oldest first, by one request per 1,000 versions."""
    folder = f"{directory}{naming.VERSIONS_FOLDER}"
    return parse_entries(store.list_level(folder).files, folder)


def parse_entries(entries: Iterable[FileEntry], folder: str) -> dict[int, VersionFile]:
    """Return the versions among the files of a folder, oldest first."""
    found: dict[int, VersionFile] = {}
    for file in entries:
        parsed = naming.parse_name(file.name)
        if parsed is not None:
            version, scheme = parsed
            found[version] = VersionFile(
                version, f"{folder}/{file.name}", scheme, file.size, timestamp_ms=int(file.modified * 1000)
            )
    return dict(sorted(found.items()))


def find(store: Store, version: int, directory: str = "") -> VersionFile | None:
    """Look for one version under both of the names that it may have."""
    for scheme in (naming.V2, naming.V1):
        one = VersionFile(version, "", scheme)
        size = store.size(one.place(directory))
        if size is not None:
            return replace(one, path=one.place(directory), size=size)
    return None


def put_in_place(store: Store, staged: VersionFile, body: bytes, directory: str = "") -> VersionFile | None:
    """Copy a staged manifest to its final name and delete what was staged; None if another file has that name."""
    path = staged.place(directory)
    e_tag = store.create(path, body)
    if e_tag is None:
        there = store.get(path)
        if there is None or there.body != body:
            return None
        e_tag = there.e_tag
    store.delete(staged.path)
    return replace(staged, path=path, size=len(body), e_tag=e_tag)


def create(store: Store, shown: str, staged: VersionFile, directory: str = "") -> VersionFile:
    """Publish a staged manifest as the next version. The commit point is the put-if-absent of its file.

    Raises ConcurrentModificationError if the version exists.
    """
    blob = store.get(staged.path)
    there = list_versions(store, directory)
    if blob is None and staged.version not in there:
        raise InvalidInputError(f"There is no staged manifest for table {shown} at {store.absolute(staged.path)!r}")
    newest = max(there, default=0)
    # The first version of a branch has the number of the one that it comes from.
    if staged.version > newest + 1 and (there or not directory):
        raise ConcurrentModificationError(
            f"VersionFile {staged.version} of table {shown} cannot be created: the latest is {newest}"
        )
    known = there.get(staged.version)
    made = None
    if blob is not None and (known is None or known.scheme == staged.scheme):
        made = put_in_place(store, staged, blob.body, directory)
    if made is None:
        raise TableVersionAlreadyExistsError(f"VersionFile {staged.version} of table {shown} already exists")
    return made


def describe(store: Store, shown: str, version: int | None, directory: str = "") -> VersionFile:
    """Return a version, or the latest one. Raises TableVersionNotFoundError if it does not exist."""
    if version is None:
        there = list_versions(store, directory)
        found = there[max(there)] if there else None
    else:
        found = find(store, version, directory)
    if found is None:
        what = "no version yet" if version is None else f"no version {version}"
        raise TableVersionNotFoundError(f"Table {shown} has {what}")
    return found


def delete(store: Store, shown: str, chosen: Callable[[list[int]], list[int]], directory: str = "") -> int:
    """Delete the files of the chosen versions; the latest one stays (19)."""
    there = list_versions(store, directory)
    gone = chosen(list(there))
    require_not_latest(shown, gone, max(there, default=0))
    if gone:
        store.delete(*(there[version].path for version in gone))
    return len(gone)


def require_not_latest(shown: str, gone: list[int], newest: int) -> None:
    """Raise 19 if the latest version is among those to be deleted."""
    if gone and gone[-1] == newest:
        raise InvalidTableStateError(
            f"VersionFile {newest} is the latest of table {shown}, which could not be opened without it"
        )
