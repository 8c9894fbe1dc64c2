"""Update the Iceberg schema of an entry to the schema of its Lance table."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance

from pennon.errors import InvalidInputError
from pennon.iceberg import schema

if TYPE_CHECKING:
    import pyarrow as pa

    from pennon.iceberg.entry import Entry
    from pennon.iceberg.files import VersionFile


def schema_updates(entry: Entry, columns: pa.Schema) -> list[dict[str, Any]]:
    """Return the updates that change the entry's schema to these columns, or none."""
    current = entry.schemas.get(entry.schema_id)
    wanted = schema.convert_schema(columns, current, entry.whole("last-column-id"))
    if current is not None and schema.same_fields(current, wanted):
        return []
    for number, known in entry.schemas.items():
        if schema.same_fields(known, wanted):
            return [{"action": "set-current-schema", "schema-id": number}]
    number = max(entry.schemas, default=0) + 1
    last = max(schema.largest_id(wanted), entry.whole("last-column-id"))
    return [
        {"action": "add-schema", "schema": {**wanted, "schema-id": number}, "last-column-id": last},
        {"action": "set-current-schema", "schema-id": number},
    ]


def schema_of(staged: VersionFile, body: bytes) -> pa.Schema:
    """Return the schema of a staged manifest. Lance opens it in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="pennon-manifest-") as directory:
        place = Path(directory, staged.place())
        place.parent.mkdir()
        place.write_bytes(body)
        try:
            return lance.dataset(directory).schema
        except (OSError, ValueError) as error:
            raise InvalidInputError(f"The staged manifest {staged.path!r} cannot be read: {error}") from error
