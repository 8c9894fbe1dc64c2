"""What is known of one version of a table, and its row in the manifest.

The row's key is the table's id and the number. Its metadata are texts, as other clients expect them: where the table's
manifest of that version is (below the root), its size, and where it was staged. As long as the two paths are the same,
the version is committed but not yet finished: its file has to be copied to the name under which readers look for it.

Anybody who can write to the root can write such a row, so its paths are compared with those that the version can have:
its file's name, and names of files staged for it, in the `_versions` directory of the table. A row that says anything
else is no version, and nothing that it names is read, copied or deleted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pennon.directory.manifest import TABLE_VERSION, Row, is_version, version_key
from pennon.directory.manifest.skipped import shown_id
from pennon.directory.problems import Problem
from pennon.identifiers import parent_and_name
from pennon.store.root_paths import shorten_text
from pennon.stored_json import UnreadableJsonError, parse_digits, parse_stored_object
from pennon.table import naming

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance_namespace_urllib3_client.models.table_version import TableVersion

    from pennon.store import Store


@dataclass(frozen=True)
class Record:
    """One version of a table."""

    version: int
    path: str
    """Where its manifest is, below the root."""
    scheme: str = naming.V2
    size: int | None = None
    e_tag: str | None = None
    timestamp_ms: int | None = None
    staged: str | None = None
    """Where its manifest was staged, if it was."""
    metadata: Mapping[str, str] | None = None

    @property
    def is_staged(self) -> bool:
        """Tell whether the version still has to be finished."""
        return self.path == self.staged

    def final_path(self, location: str) -> str:
        """Give the path at which readers look for the version."""
        return f"{location}/{naming.VERSIONS_FOLDER}/{naming.format_name(self.version, self.scheme)}"

    def finished(self, location: str, e_tag: str | None) -> Record:
        """Give the record of the version once its file is in place."""
        return replace(self, path=self.final_path(location), e_tag=e_tag)

    def row(self, table: str) -> Row:
        """Give the row of the version in the manifest."""
        content = {
            "manifest_path": self.path,
            "naming_scheme": self.scheme,
            "manifest_size": None if self.size is None else str(self.size),
            "e_tag": self.e_tag,
            "timestamp_millis": None if self.timestamp_ms is None else str(self.timestamp_ms),
            "staged_path": self.staged,
            "metadata": json.dumps(dict(self.metadata)) if self.metadata else None,
        }
        known = {key: value for key, value in content.items() if value is not None}
        return Row(
            version_key(table, self.version),
            TABLE_VERSION,
            None,
            json.dumps(known, ensure_ascii=False, separators=(",", ":")),
        )

    def shown(self, store: Store) -> TableVersion:
        """Give the version as clients know it, with the path as Lance writes it."""
        # Imported late: a catalog that is only looked at does without the SDK's models (docs/adr/0010).
        from lance_namespace_urllib3_client.models.table_version import TableVersion  # noqa: PLC0415

        return TableVersion(
            version=self.version,
            manifest_path=store.absolute(self.path),
            manifest_size=self.size,
            e_tag=self.e_tag,
            timestamp_millis=self.timestamp_ms,
            metadata=dict(self.metadata) if self.metadata else None,
        )


def of_row(row: Row | None, location: str) -> Record | None:
    """Read the row of a version of the table at a location; None if there is none, or one that cannot be used."""
    if row is None:
        return None
    try:
        return _parse(row, location)
    except UnreadableJsonError:
        return None


def problem_of(row: Row, location: str) -> Problem | None:
    """Return what is wrong with the row of a version and how to fix it, or None if it can be used."""
    try:
        _parse(row, location)
    except UnreadableJsonError as error:
        fix = "the next commit to the table replaces it; until then the table's files decide"
        return Problem(shown_id(row.object_id), f"the version cannot be used: {error}", fix)
    return None


def _parse(row: Row, location: str) -> Record:
    """Read the row of a version; its manifest is where Lance puts those of the table at `location`, or nowhere."""
    _, number = parent_and_name(row.object_id)
    if row.object_type != TABLE_VERSION or not is_version(number):
        raise UnreadableJsonError("its id does not end with the number of a version")
    version = int(number)
    if version >= naming.LARGEST:
        raise UnreadableJsonError("no table has so many versions")
    content = row.parse_metadata()
    path, staged = content.get("manifest_path"), content.get("staged_path")
    scheme = content.get("naming_scheme", naming.V2)
    if scheme not in {naming.V1, naming.V2}:
        raise UnreadableJsonError(f"its naming scheme is {shorten_text(scheme)}")
    record = Record(
        version=version,
        path="",
        scheme=scheme,
        size=parse_digits(content.get("manifest_size")),
        e_tag=content.get("e_tag"),
        timestamp_ms=parse_digits(content.get("timestamp_millis")),
        staged=staged if is_staged(staged, location, version) else None,
        metadata=_texts(content.get("metadata")),
    )
    final = record.final_path(location)
    if path is None or (path != final and not is_staged(path, location, version)):
        raise UnreadableJsonError(f"its manifest path {shorten_text(str(path))} is not one of the table")
    return replace(record, path=path)


def is_staged(path: str | None, location: str, version: int) -> bool:
    """Return True if a path is one under which Lance stages a version of the table at a location."""
    folder = f"{location}/{naming.VERSIONS_FOLDER}/"
    if path is None or not path.startswith(folder):
        return False
    staged = naming.parse_staged_name(path.removeprefix(folder))
    return staged is not None and staged[0] == version


def _texts(text: str | None) -> dict[str, str] | None:
    content = parse_stored_object(text) if text else {}
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in content.items()} or None
