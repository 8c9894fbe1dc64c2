"""Metadata of a table's schema and its columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.identifiers import format_identifier
from pennon.table import computed_columns, field_paths
from pennon.table.lance_errors import translate_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance import LanceDataset

    from pennon.identifiers import Identifier


@dataclass(frozen=True)
class FieldMetadataUpdate:
    """A change to the metadata of a column. A value of None removes the key."""

    path: str
    metadata: Mapping[str, str | None]
    replace: bool = False


def replace_schema_metadata(
    dataset: LanceDataset, identifier: Identifier, metadata: Mapping[str, str]
) -> dict[str, str]:
    """Replace all metadata of the schema and return the result.

    Raises InvalidInputError, ConcurrentModificationError.
    """
    with translate_errors(f"Schema metadata of table {format_identifier(identifier)}"):
        dataset.update_schema_metadata(dict(metadata), replace=True)
    return {str(key): str(value) for key, value in dataset.schema_metadata.items()}


def update_fields(
    dataset: LanceDataset, identifier: Identifier, updates: Sequence[FieldMetadataUpdate]
) -> dict[str, dict[str, str]]:
    """Update the metadata of columns in one commit, and return the metadata of each by its path.

    Raises TableColumnNotFoundError, InvalidInputError, ConcurrentModificationError.
    """
    if not updates:
        raise InvalidInputError(f"There is no metadata to update in table {format_identifier(identifier)}")
    result: dict[str, dict[str, str]] = {}
    for one in updates:
        path, field = field_paths.find_column(dataset, identifier, one.path)
        computed_columns.require_no_declaration_keys(identifier, path, one.metadata)
        metadata = result.get(path, decode_metadata(field.metadata))
        if one.replace:
            # The declaration of a computed column stays.
            metadata = {key: metadata[key] for key in metadata if computed_columns.is_declaration_key(key)}
        merged = metadata | {key: value for key, value in one.metadata.items() if value is not None}
        result[path] = {key: value for key, value in merged.items() if one.metadata.get(key, value) is not None}
    with translate_errors(f"Field metadata of table {format_identifier(identifier)}"):
        dataset.update_field_metadata({path: dict(values) for path, values in result.items()}, replace=True)
    return result


def decode_metadata(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    """Return the metadata of a schema or a field as text."""
    return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in (metadata or {}).items()}
