"""Rows of the manifest and the schema that all Lance clients share."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from pennon.directory import layout
from pennon.errors import InvalidInputError, InvalidTableStateError
from pennon.identifiers import DELIMITER, format_object_id
from pennon.stored_json import UnreadableJsonError, parse_stored_object

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAMESPACE = "namespace"
TABLE = "table"
TABLE_VERSION = "table_version"
PROTECTED = "pennon.protected"
"""The property of a protected table or namespace."""
REQUEST = "pennon.request"
"""The property with the digest of the request that created an object, by which a repeated request is recognized."""
_RESERVED = frozenset({PROTECTED, REQUEST})
TRASH = "__trash"
"""The namespace of dropped objects: their rows are renamed to `__trash$<deletion id>`."""

SCHEMA = pa.schema(
    [
        pa.field(
            "object_id", pa.string(), nullable=False, metadata={"lance-schema:unenforced-primary-key:position": "0"}
        ),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.field("object_id", pa.string()))),
    ]
)
COLUMNS = SCHEMA.names


@dataclass(frozen=True, slots=True)
class Row:
    """One object of the catalog."""

    object_id: str
    object_type: str
    location: str | None = None
    metadata: str | None = None
    base_objects: tuple[str, ...] | None = None
    extra: tuple[object, ...] = ()
    """Values of unknown columns, in the table's order. They are preserved."""

    def properties(self) -> dict[str, str]:
        """Return the properties that users see. Values that are not strings are returned as JSON.

        Returns none if the metadata is unreadable: see `metadata_fault`.
        """
        return {key: value for key, value in self._readable_metadata().items() if key not in _RESERVED}

    def parse_metadata(self) -> dict[str, str]:
        """Return the metadata as strings. Raises UnreadableJsonError if it is unreadable."""
        loaded = parse_stored_object(self.metadata) if self.metadata else {}
        return {key: value if isinstance(value, str) else json.dumps(value) for key, value in loaded.items()}

    @property
    def metadata_fault(self) -> str:
        """Why the metadata is unreadable, or "" if it is readable."""
        try:
            self.parse_metadata()
        except UnreadableJsonError as error:
            return str(error)
        return ""

    @property
    def protected(self) -> bool:
        """True if drop and purge refuse this object, and also if its metadata is unreadable."""
        if PROTECTED not in (self.metadata or ""):
            return False
        try:
            return self.parse_metadata().get(PROTECTED) == "true"
        except UnreadableJsonError:
            return True

    def require_readable_metadata(self) -> None:
        """Raise InvalidTableStateError if the metadata is unreadable, so that a change would lose it."""
        fault = self.metadata_fault
        if fault:
            name = format_object_id(self.object_id)
            raise InvalidTableStateError(
                f"The metadata of {self.object_type} {name} cannot be read: {fault}; it is kept as it is. "
                "Drop the object and create it again, or have the client that wrote it repair it"
            )

    def with_protection(self, *, protected: bool) -> Row:
        """Return the row with or without protection. The properties stay."""
        self.require_readable_metadata()
        content = {key: value for key, value in self.parse_metadata().items() if key != PROTECTED}
        return replace(self, metadata=properties_json({**content, PROTECTED: "true"} if protected else content))

    def with_properties(self, metadata: str | None) -> Row:
        """Return the row with other properties, as `properties_json` formats them.

        Protection stays, and so does the request that created the object, unless there is another one.
        """
        changed = replace(self, metadata=metadata)
        if self.request and not changed.request and not changed.metadata_fault:
            changed = replace(changed, metadata=properties_json({**changed.parse_metadata(), REQUEST: self.request}))
        return changed.with_protection(protected=True) if self.protected and not changed.metadata_fault else changed

    def filled_by(self, given: Row) -> Row:
        """Return the row of a declared table that got rows. It keeps its properties unless `given` has some."""
        if given.properties():
            return self.with_properties(given.metadata)
        if not given.request or self.metadata_fault:
            return self
        return replace(self, metadata=properties_json({**self.parse_metadata(), REQUEST: given.request}))

    @property
    def request(self) -> str:
        """The digest of the request that created the object, or "" if that is unknown."""
        return self._readable_metadata().get(REQUEST, "") if REQUEST in (self.metadata or "") else ""

    def _readable_metadata(self) -> dict[str, str]:
        try:
            return self.parse_metadata()
        except UnreadableJsonError:
            return {}


def version_key(table: str, version: int) -> str:
    """Return the key of the row of a table's version."""
    return f"{table}{DELIMITER}{version}"


def is_live(object_id: str) -> bool:
    """Return True if the row with this id is not in the trash."""
    return not object_id.startswith(TRASH + DELIMITER)


def properties_json(properties: Mapping[str, str] | None) -> str | None:
    """Return properties as the metadata column stores them: None if there are none."""
    if not properties:
        return None
    text = json.dumps(dict(properties), ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"Properties must be valid Unicode text: {error}") from error
    return text


def rows_to_table(rows: Sequence[Row], schema: pa.Schema = SCHEMA) -> pa.Table:
    """Return an Arrow table of rows in the manifest's schema. New rows are null in unknown columns."""
    columns: dict[str, list[object]] = {
        "object_id": [row.object_id for row in rows],
        "object_type": [row.object_type for row in rows],
        "location": [row.location for row in rows],
        "metadata": [row.metadata for row in rows],
        "base_objects": [None if row.base_objects is None else list(row.base_objects) for row in rows],
    }
    for position, name in enumerate(extra_columns(schema)):
        columns[name] = [row.extra[position] if row.extra else None for row in rows]
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def table_to_rows(table: pa.Table, extra: Sequence[str] = ()) -> list[Row | None]:
    """Return the rows of an Arrow table that has the five columns and those named in `extra`.

    A row without an id or a type is None.
    """
    columns = [table.column(name).to_pylist() for name in COLUMNS]
    rows = [
        Row(
            object_id,
            object_type,
            None if location is None else layout.normalise_stored_location(location),
            metadata,
            None if bases is None else tuple(bases),
        )
        if object_id is not None and object_type is not None
        else None
        for object_id, object_type, location, metadata, bases in zip(*columns, strict=True)
    ]
    if extra:
        # Arrow scalars, because not every Arrow value has a Python type.
        values = zip(*(list(table.column(name)) for name in extra), strict=True)
        rows = [None if row is None else replace(row, extra=value) for row, value in zip(rows, values, strict=True)]
    return rows


def extra_columns(schema: pa.Schema) -> list[str]:
    """Return the names of the columns that Pennon does not know."""
    return [name for name in schema.names if name not in COLUMNS]
