"""The ids that Lance assigns to the fields of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lance import LanceDataset


def list_field_ids(dataset: LanceDataset) -> dict[str, tuple[int, ...]]:
    """Return for each column its field id, followed by those of its nested fields."""
    return {field.name(): _list_ids(field) for field in dataset.lance_schema.fields()}


def _list_ids(field: Any) -> tuple[int, ...]:
    return (field.id(), *(one for child in field.children() for one in _list_ids(child)))
