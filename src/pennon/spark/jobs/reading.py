"""Reading every version of a table, its branches' too, to learn what they name; also of tables that are damaged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pennon.spark.jobs.table_files import DATA, VERSIONS, Named, Stored, detached_version
from pennon.table import naming

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance import LanceDataset

_DAMAGE = (OSError, ValueError, RuntimeError, KeyError, TypeError)


@dataclass
class Reading:
    """What reading the versions of a table gave."""

    named: Named = field(default_factory=Named)
    versions: int = 0
    unreadable: list[str] = field(default_factory=list)
    """Versions that cannot be opened, with the reason: what they name is not known."""

    @property
    def is_complete(self) -> bool:
        """Tell whether everything that any version names is known."""
        return not self.unreadable


def listed_files(dataset: LanceDataset) -> dict[str, Stored]:
    """List all files below a table's directory, by their paths in it."""
    found: dict[str, Stored] = {}
    for batch in dataset.all_files():
        for row in batch.to_pylist():
            found[row["path"]] = Stored(row["size_bytes"], row["last_modified"].timestamp())
    return found


def newest_that_opens(location: str, options: dict[str, str] | None, names: list[str]) -> LanceDataset | None:
    """Open the newest version that can be opened at all, of those whose files are named."""
    import lance

    versions = sorted((parsed[0] for name in names if (parsed := naming.parsed(name)) is not None), reverse=True)
    for version in versions:
        try:
            return lance.dataset(location, version=version, storage_options=options)
        except _DAMAGE:
            continue
    return None


def read_versions(dataset: LanceDataset, listed: Mapping[str, Stored], branches: list[str], young: float) -> Reading:
    """Read every version that the listing shows, and detached ones that were written after `young` (store's clock)."""
    reading = Reading()
    for branch in [None, *branches]:
        prefix = "" if branch is None else f"tree/{branch}/"
        folder = f"{prefix}{VERSIONS}/"
        names = {path.removeprefix(folder): stored for path, stored in listed.items() if path.startswith(folder)}
        opened = dataset if branch is None else _opened(reading, dataset, branch, None)
        if opened is None:
            continue
        for name, stored in sorted(names.items()):
            parsed = naming.parsed(name)
            if parsed is not None:
                reading.versions += 1
                _read(reading, opened, branch, parsed[0], prefix)
            elif branch is None and stored.modified >= young and (detached := detached_version(name)) is not None:
                reading.named.files.add(folder + name)
                _read(reading, opened, None, detached, prefix, deletions=True)
        if reading.is_complete:
            _track(reading, opened, dataset.uri)
    return reading


def _opened(reading: Reading, dataset: LanceDataset, branch: str | None, version: int | None) -> LanceDataset | None:
    shown = f"version {version}" if branch is None else f"version {version or 'latest'} of branch {branch!r}"
    try:
        return dataset.checkout_version(version if branch is None and version is not None else (branch, version))
    except _DAMAGE as error:
        reading.unreadable.append(f"{shown} cannot be opened: {_first_line(error)}")
        return None


def _read(
    reading: Reading, dataset: LanceDataset, branch: str | None, version: int, prefix: str, *, deletions: bool = False
) -> None:
    """Learn from one version: its files, with the sizes that only it tells."""
    opened = _opened(reading, dataset, branch, version)
    if opened is None:
        return
    try:
        bases = opened.base_paths()
        for fragment in opened.get_fragments():
            metadata = fragment.metadata
            if deletions and (path := fragment.deletion_file()) is not None:
                reading.named.files.add(prefix + path)
            overlays = [overlay.data_file for overlay in getattr(metadata, "overlays", None) or ()]
            for file in [*metadata.files, *overlays]:
                inside = _base(bases, getattr(file, "base_id", None), dataset.uri, prefix)
                name = str(file.path)
                _add(reading.named, inside, f"{DATA}/{name}")
                if file.file_size_bytes:
                    reading.named.sizes[name] = file.file_size_bytes
        _read_indexes(reading.named, opened, bases, dataset.uri, prefix)
    except _DAMAGE as error:
        reading.unreadable.append(f"version {version} cannot be read: {_first_line(error)}")


def _read_indexes(named: Named, opened: LanceDataset, bases: Any, uri: str, prefix: str) -> None:
    for index in opened.describe_indices():
        for segment in index.segments:
            inside = _base(bases, segment.base_id, uri, prefix) is not None
            named.indexes[segment.uuid] = segment.size_bytes if inside else None


def _track(reading: Reading, opened: LanceDataset, uri: str) -> None:
    """Take in everything that Lance itself tracks: deletion files, transactions and manifests too."""
    try:
        batches = list(opened.tracked_files())
    except _DAMAGE as error:
        reading.unreadable.append(f"not all versions can be read: {_first_line(error)}")
        return
    for batch in batches:
        for row in batch.select(["base_uri", "path", "type"]).to_pylist():
            base = row["base_uri"]
            inside = base == uri or base.startswith(uri.rstrip("/") + "/")
            prefix = base.removeprefix(uri.rstrip("/")).strip("/")
            if row["type"] == "index file":
                reading.named.indexes.setdefault(row["path"].split("/")[1], None)
            else:
                _add(reading.named, (prefix + "/" if prefix else "") if inside else None, row["path"])


def _add(named: Named, prefix: str | None, path: str) -> None:
    if prefix is None:
        named.external.add(path)
    else:
        named.files.add(prefix + path)


def _base(bases: Any, number: int | None, uri: str, prefix: str) -> str | None:
    """Give the directory, below the table's, to which a path is relative; None if it is elsewhere."""
    if number is None:
        return prefix
    base = bases.get(number)
    path = None if base is None else str(base.path).rstrip("/")
    root = uri.rstrip("/")
    if path is None or not (path == root or path.startswith(root + "/")):
        return None
    inner = path.removeprefix(root).strip("/")
    return f"{inner}/" if inner else ""


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0][:300] if text else type(error).__name__
