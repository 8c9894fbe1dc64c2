"""What is known of one version of a table, and its row in the manifest.

The row's key is the table's id and the number. Its metadata are texts, as other clients expect them: where the table's
manifest of that version is (below the root), its size, and where it was staged. As long as the two paths are the same,
the version is committed but not yet finished: its file has to be copied to the name under which readers look for it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pennon.directory.manifest import TABLE_VERSION, Row, version_key
from pennon.identifiers import parent_and_name
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
        return f"{location}/{naming.FOLDER}/{naming.file_name(self.version, self.scheme)}"

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


def of_row(row: Row) -> Record:
    """Read the row of a version."""
    content = row.properties()
    _, number = parent_and_name(row.object_id)
    metadata = content.get("metadata")
    return Record(
        version=int(number),
        path=content.get("manifest_path", ""),
        scheme=content.get("naming_scheme", naming.V2),
        size=_number(content.get("manifest_size")),
        e_tag=content.get("e_tag"),
        timestamp_ms=_number(content.get("timestamp_millis")),
        staged=content.get("staged_path"),
        metadata=json.loads(metadata) if metadata else None,
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
