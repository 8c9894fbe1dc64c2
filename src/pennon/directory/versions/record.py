"""One version of a table, and the manifest row that stores it.

The row's key is the table's key and the version number. Its metadata holds only strings, because other clients expect
that: the path of the version's manifest file below the root, its size, and the path at which it was staged. While both
paths are equal, the version is committed but unfinished: its file still has to be copied to its final name.

Anyone who can write to the root can write such a row. So its paths must be paths that the version can have: its final
name, or the name of a file staged for it, in the `_versions` directory of its table. A row with other paths is skipped,
and no file that it names is read, copied or deleted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pennon.directory.manifest import TABLE_VERSION, Row, is_version, version_key
from pennon.directory.manifest.skipped import shorten_id
from pennon.identifiers import parent_and_name
from pennon.results import Problem
from pennon.store.root_paths import shorten_text
from pennon.stored_json import UnreadableJsonError, parse_digits, parse_stored_object
from pennon.table import naming

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_namespace_urllib3_client.models.table_version import TableVersion

    from pennon.store import Store


@dataclass(frozen=True)
class VersionRecord:
    """One version of a table."""

    version: int
    path: str
    """The path of its manifest file, below the root."""
    scheme: str = naming.V2
    size: int | None = None
    e_tag: str | None = None
    timestamp_ms: int | None = None
    staged_path: str | None = None
    """The path at which its manifest file was staged, if it was."""
    metadata: Mapping[str, str] | None = None

    @property
    def is_unfinished(self) -> bool:
        """Return True if the manifest file still has to be copied to its final name."""
        return self.path == self.staged_path

    def final_path(self, location: str) -> str:
        """Return the path at which readers look for the version."""
        return f"{location}/{naming.VERSIONS_FOLDER}/{naming.format_name(self.version, self.scheme)}"

    def with_final_path(self, location: str, e_tag: str | None) -> VersionRecord:
        """Return the record of the finished version."""
        return replace(self, path=self.final_path(location), e_tag=e_tag)

    def with_manifest(self, body: bytes, timestamp_ms: int) -> VersionRecord:
        """Return the record of a version whose manifest is staged at its path."""
        return replace(self, size=len(body), timestamp_ms=timestamp_ms, staged_path=self.path)

    def to_row(self, table: str) -> Row:
        """Return the manifest row of the version."""
        content = {
            "manifest_path": self.path,
            "naming_scheme": self.scheme,
            "manifest_size": None if self.size is None else str(self.size),
            "e_tag": self.e_tag,
            "timestamp_millis": None if self.timestamp_ms is None else str(self.timestamp_ms),
            "staged_path": self.staged_path,
            "metadata": json.dumps(dict(self.metadata)) if self.metadata else None,
        }
        present = {key: value for key, value in content.items() if value is not None}
        return Row(
            version_key(table, self.version),
            TABLE_VERSION,
            None,
            json.dumps(present, ensure_ascii=False, separators=(",", ":")),
        )

    def to_response(self, store: Store) -> TableVersion:
        """Return the version as a model of the SDK, with the path as Lance writes it."""
        # Imported here because commands that only read a catalog do not load the SDK's models (docs/adr/0010).
        from lance_namespace_urllib3_client.models.table_version import TableVersion  # noqa: PLC0415

        return TableVersion(
            version=self.version,
            manifest_path=store.absolute(self.path),
            manifest_size=self.size,
            e_tag=self.e_tag,
            timestamp_millis=self.timestamp_ms,
            metadata=dict(self.metadata) if self.metadata else None,
        )


def parse_version_row(row: Row | None, location: str) -> VersionRecord | None:
    """Return the version that a row of the table at `location` stores, or None if the row is missing or unusable."""
    if row is None:
        return None
    try:
        return _parse(row, location)
    except UnreadableJsonError:
        return None


def find_version_problem(row: Row, location: str) -> Problem | None:
    """Return what is wrong with a version row and how to fix it, or None if the row is usable."""
    try:
        _parse(row, location)
    except UnreadableJsonError as error:
        fix = "the next commit to the table replaces it; until then the table's files decide"
        return Problem(shorten_id(row.object_id), f"the version cannot be used: {error}", fix)
    return None


def is_staged_path(path: str | None, location: str, version: int) -> bool:
    """Return True if Lance stages this version of the table at `location` under such a path."""
    folder = f"{location}/{naming.VERSIONS_FOLDER}/"
    if path is None or not path.startswith(folder):
        return False
    staged = naming.parse_staged_name(path.removeprefix(folder))
    return staged is not None and staged[0] == version


def _parse(row: Row, location: str) -> VersionRecord:
    _, number = parent_and_name(row.object_id)
    if row.object_type != TABLE_VERSION or not is_version(number):
        raise UnreadableJsonError("its id does not end with the number of a version")
    version = int(number)
    if version >= naming.LARGEST:
        raise UnreadableJsonError("no table has so many versions")
    content = row.parse_metadata()
    path, staged_path = content.get("manifest_path"), content.get("staged_path")
    scheme = content.get("naming_scheme", naming.V2)
    if scheme not in {naming.V1, naming.V2}:
        raise UnreadableJsonError(f"its naming scheme is {shorten_text(scheme)}")
    record = VersionRecord(
        version=version,
        path="",
        scheme=scheme,
        size=parse_digits(content.get("manifest_size")),
        e_tag=content.get("e_tag"),
        timestamp_ms=parse_digits(content.get("timestamp_millis")),
        staged_path=staged_path if is_staged_path(staged_path, location, version) else None,
        metadata=_parse_texts(content.get("metadata")),
    )
    if path is None or (path != record.final_path(location) and not is_staged_path(path, location, version)):
        raise UnreadableJsonError(f"its manifest path {shorten_text(str(path))} is not one of the table")
    return replace(record, path=path)


def _parse_texts(text: str | None) -> dict[str, str] | None:
    content = parse_stored_object(text) if text else {}
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in content.items()} or None
