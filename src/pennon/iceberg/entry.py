"""A table as the server describes it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pennon import json_answers as answers
from pennon.iceberg.settings import IMPL
from pennon.identifiers import format_identifier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pennon.identifiers import Identifier

TABLE_TYPE = "table_type"
MANAGED_BY = "managed_by"
LANCE = "lance"
OURS = "pennon."
"""The prefix of properties that only Pennon uses."""
CREATION_ID = OURS + "creation-id"
CHOSEN = OURS + "location-chosen"
"""Marks a table whose directory was created for it, so no other table can use it."""
NO_SNAPSHOT = -1
# SeaweedFS adds a UUID to the number if there is such a file already.
_NUMBERED = re.compile(r"(.+)/metadata/v[0-9]+[^/]*\.metadata\.json(?:\.gz)?")
MAIN = "main"


@dataclass(frozen=True)
class Entry:
    """A table as LoadTable returns it."""

    identifier: Identifier
    uuid: str
    location: str
    properties: dict[str, str]
    version: int | None
    """The current snapshot, which is the Lance version if the catalog manages versions."""
    metadata: Mapping[str, Any]
    config: dict[str, str] = field(repr=False)
    credentials: list[Any] = field(repr=False)
    metadata_location: str = ""
    """The location of the server's newest metadata file, if the server returns it."""

    @property
    def is_lance(self) -> bool:
        """True if it is a Lance table."""
        return self.properties.get(TABLE_TYPE, "").strip().lower() == LANCE

    @property
    def is_managed(self) -> bool:
        """True if the catalog manages its versions."""
        return self.properties.get(MANAGED_BY, "").strip().lower() == IMPL

    def is_below(self, directory: str) -> bool:
        """Return True if the table's location is this directory, or below it."""
        return f"{_path(self.location)}/".startswith(f"{_path(directory)}/")

    @property
    def has_numbered_metadata(self) -> bool:
        """Return True if the names of the server's metadata files begin with a number: `metadata/v<number>…`.

        Other servers give each file a unique name, and change a pointer to it atomically.
        """
        return _NUMBERED.fullmatch(self.metadata_location) is not None

    @property
    def is_deleted_with_entry(self) -> bool:
        """Return True if the server deletes the table's directory with the entry, although the request forbids it.

        A server with numbered metadata files deletes the directory above them with the entry, as Hadoop's catalog
        does.
        """
        found = _NUMBERED.fullmatch(self.metadata_location)
        if found is None:
            return False
        doomed, mine = f"{_path(found[1])}/", f"{_path(self.location)}/"
        return doomed.startswith(mine) or mine.startswith(doomed)

    @property
    def snapshots(self) -> dict[int, dict[str, Any]]:
        """The snapshots by their ids."""
        what = f"Table {format_identifier(self.identifier)}"
        found = [answers.mapping(one, f"{what}: a snapshot") for one in _list(self.metadata, "snapshots", what)]
        return {answers.number(one, "snapshot-id", what): one for one in found}

    @property
    def schemas(self) -> dict[int, dict[str, Any]]:
        """The schemas by their ids."""
        what = f"Table {format_identifier(self.identifier)}"
        found = [answers.mapping(one, f"{what}: a schema") for one in _list(self.metadata, "schemas", what)]
        return {one["schema-id"] if isinstance(one.get("schema-id"), int) else 0: one for one in found}

    @property
    def schema_id(self) -> int:
        """The id of the current schema."""
        value = self.metadata.get("current-schema-id")
        return value if isinstance(value, int) else 0

    @property
    def shown_properties(self) -> dict[str, str]:
        """The properties without those that only Pennon uses."""
        return {key: value for key, value in self.properties.items() if not key.startswith(OURS)}

    def whole(self, key: str) -> int:
        """Return a number of the metadata, or 0."""
        value = self.metadata.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0


def parse_entry(identifier: Identifier, answer: Mapping[str, Any]) -> Entry:
    """Return the table in the answer to LoadTable, CreateTable or UpdateTable."""
    what = f"Table {format_identifier(identifier)}"
    metadata = answers.mapping(answer.get("metadata"), f"{what}: 'metadata'")
    credentials = answers.items(answer, "storage-credentials", what, required=False)
    place = answer.get("metadata-location")
    return Entry(
        identifier,
        answers.optional_text(metadata, "table-uuid", what) or "",
        answers.text(metadata, "location", what),
        answers.texts(metadata, "properties", what),
        _current(metadata, what),
        metadata,
        answers.texts(answer, "config", what),
        credentials,
        place if isinstance(place, str) else "",
    )


def _current(metadata: Mapping[str, Any], what: str) -> int | None:
    """Return the snapshot of the main branch, or the current one if there are no branches."""
    refs = metadata.get("refs")
    if isinstance(refs, dict) and MAIN in refs:
        return answers.number(answers.mapping(refs[MAIN], f"{what}: branch main"), "snapshot-id", what)
    if metadata.get("current-snapshot-id") is None:
        return None
    current = answers.number(metadata, "current-snapshot-id", what)
    return None if current == NO_SNAPSHOT else current


def _list(metadata: Mapping[str, Any], key: str, what: str) -> list[Any]:
    return answers.items(metadata, key, what, required=False)


def _path(location: str) -> str:
    """Return a location without its scheme, whose spelling differs (`file:/x`, `s3a://x`)."""
    return location.partition(":")[2].strip("/") if ":" in location else location.strip("/")
