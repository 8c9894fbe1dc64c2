"""Metadata of a table's schema and of its columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.identifiers import format_identifier
from pennon.table import computed, field_paths
from pennon.table.lance_errors import bad_input_told

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance import LanceDataset

    from pennon.identifiers import Identifier


@dataclass(frozen=True)
class FieldUpdate:
    """What is to become of a column's metadata; a value of None takes the key away."""

    path: str
    metadata: Mapping[str, str | None]
    replace: bool = False


def replace_schema_metadata(
    dataset: LanceDataset, identifier: Identifier, metadata: Mapping[str, str]
) -> dict[str, str]:
    """Replace the schema's metadata as a whole; gives what is there then. Errors 13, 14."""
    with bad_input_told(f"Schema metadata of table {format_identifier(identifier)}"):
        dataset.update_schema_metadata(dict(metadata), replace=True)
    return {str(key): str(value) for key, value in dataset.schema_metadata.items()}


def update_fields(
    dataset: LanceDataset, identifier: Identifier, updates: Sequence[FieldUpdate]
) -> dict[str, dict[str, str]]:
    """Update the metadata of columns, all in one commit; gives what each has then, by its path. Errors 12, 13, 14."""
    if not updates:
        raise InvalidInputError(f"There is no metadata to update in table {format_identifier(identifier)}")
    result: dict[str, dict[str, str]] = {}
    for one in updates:
        path, field = field_paths.resolved(dataset, identifier, one.path)
        computed.require_other_keys(identifier, path, one.metadata)
        there = result.get(path, decode_metadata(field.metadata))
        # A declaration of a computed column stays as it is.
        kept = {key: value for key, value in there.items() if not one.replace or computed.is_key(key)}
        merged = kept | {key: value for key, value in one.metadata.items() if value is not None}
        result[path] = {key: value for key, value in merged.items() if one.metadata.get(key, value) is not None}
    with bad_input_told(f"Field metadata of table {format_identifier(identifier)}"):
        dataset.update_field_metadata({path: dict(values) for path, values in result.items()}, replace=True)
    return result


def decode_metadata(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    """Return the metadata of a schema or a field as text."""
    return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in (metadata or {}).items()}
