"""Reading every version of a table and its branches, to learn which files they refer to. The table may be damaged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pennon.spark.jobs.outcome import first_line
from pennon.spark.jobs.table_files import DATA, VERSIONS, ReferencedFiles, StoredFile, detached_version
from pennon.table import naming

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance import LanceDataset

DAMAGE = (OSError, ValueError, RuntimeError, KeyError, TypeError)
"""What Lance raises if a file of a table is missing or damaged."""


@dataclass
class VersionScan:
    """The result of reading the versions of a table."""

    referenced: ReferencedFiles = field(default_factory=ReferencedFiles)
    versions: int = 0
    unreadable: list[str] = field(default_factory=list)
    """Versions that cannot be opened, with the reason. The files that they refer to are unknown."""

    @property
    def is_complete(self) -> bool:
        """Whether all files that any version refers to are known."""
        return not self.unreadable


def list_files(dataset: LanceDataset) -> dict[str, StoredFile]:
    """Return all files below a table's directory, by their relative paths."""
    found: dict[str, StoredFile] = {}
    for batch in dataset.all_files():
        for row in batch.to_pylist():
            found[row["path"]] = StoredFile(row["size_bytes"], row["last_modified"].timestamp())
    return found


def open_newest_readable(location: str, options: dict[str, str] | None, names: list[str]) -> LanceDataset | None:
    """Return the newest version that can be opened, of those with the given file names, or None."""
    import lance

    versions = sorted((parsed[0] for name in names if (parsed := naming.parse_name(name)) is not None), reverse=True)
    for version in versions:
        try:
            return lance.dataset(location, version=version, storage_options=options)
        except DAMAGE:
            continue
    return None


def scan_versions(
    dataset: LanceDataset, listed: Mapping[str, StoredFile], branches: list[str], young: float
) -> VersionScan:
    """Read every listed version, and detached ones that were written after `young` by the store's clock."""
    scan = VersionScan()
    for branch in [None, *branches]:
        prefix = "" if branch is None else f"tree/{branch}/"
        folder = f"{prefix}{VERSIONS}/"
        names = {path.removeprefix(folder): stored for path, stored in listed.items() if path.startswith(folder)}
        opened = dataset if branch is None else _open_version(scan, dataset, branch, None)
        if opened is None:
            continue
        for name, stored in sorted(names.items()):
            parsed = naming.parse_name(name)
            if parsed is not None:
                scan.versions += 1
                _scan_version(scan, opened, branch, parsed[0], prefix)
            elif branch is None and stored.modified >= young and (detached := detached_version(name)) is not None:
                scan.referenced.files.add(folder + name)
                _scan_version(scan, opened, None, detached, prefix, deletions=True)
        if scan.is_complete:
            _add_tracked_files(scan, opened, dataset.uri)
    return scan


def _open_version(
    scan: VersionScan, dataset: LanceDataset, branch: str | None, version: int | None
) -> LanceDataset | None:
    shown = f"version {version}" if branch is None else f"version {version or 'latest'} of branch {branch!r}"
    try:
        return dataset.checkout_version(version if branch is None and version is not None else (branch, version))
    except DAMAGE as error:
        scan.unreadable.append(f"{shown} cannot be opened: {first_line(error)}")
        return None


def _scan_version(
    scan: VersionScan, dataset: LanceDataset, branch: str | None, version: int, prefix: str, *, deletions: bool = False
) -> None:
    """Add the files of one version, with the sizes that only it records."""
    opened = _open_version(scan, dataset, branch, version)
    if opened is None:
        return
    referenced = scan.referenced
    try:
        # The directories that paths are relative to; None for one that is not below the table's.
        bases: dict[int | None, str | None] = {None: prefix}
        bases |= {number: _find_below(dataset.uri, str(base.path)) for number, base in opened.base_paths().items()}
        for fragment in opened.get_fragments():
            if deletions and (path := fragment.deletion_file()) is not None:
                referenced.files.add(prefix + path)
            overlays = [overlay.data_file for overlay in getattr(fragment.metadata, "overlays", None) or ()]
            for file in [*fragment.metadata.files, *overlays]:
                base = bases.get(getattr(file, "base_id", None))
                if base is not None:
                    referenced.files.add(f"{base}{DATA}/{file.path}")
                if file.file_size_bytes:
                    referenced.sizes[str(file.path)] = file.file_size_bytes
        for segment in (segment for index in opened.describe_indices() for segment in index.segments):
            is_inside = bases.get(segment.base_id) is not None
            referenced.indexes[segment.uuid] = segment.size_bytes if is_inside else None
    except DAMAGE as error:
        scan.unreadable.append(f"version {version} cannot be read: {first_line(error)}")


def _add_tracked_files(scan: VersionScan, opened: LanceDataset, uri: str) -> None:
    """Add the files that Lance itself tracks, including deletion files, transactions and manifests."""
    try:
        batches = list(opened.tracked_files())
    except DAMAGE as error:
        scan.unreadable.append(f"not all versions can be read: {first_line(error)}")
        return
    for row in (row for batch in batches for row in batch.select(["base_uri", "path", "type"]).to_pylist()):
        base = _find_below(uri, row["base_uri"])
        if row["type"] == "index file":
            scan.referenced.indexes.setdefault(row["path"].split("/")[1], None)
        elif base is not None:
            scan.referenced.files.add(base + row["path"])


def _find_below(root: str, path: str) -> str | None:
    """Return the path of a directory relative to `root`, with a slash at the end, or None if it is not below it."""
    root, path = f"{root.rstrip('/')}/", f"{path.rstrip('/')}/"
    return path.removeprefix(root) if path.startswith(root) else None
