"""Properties of a table: its metadata in Lance, and those that begin with `lance.`, which are Lance's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.identifiers import Identifier, format_identifier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance import LanceDataset

_SETTINGS = "lance."


def get_table_properties(dataset: LanceDataset) -> dict[str, str]:
    """Give the properties of a table."""
    settings = {key: value for key, value in dataset.config().items() if key.startswith(_SETTINGS)}
    return {**dict(dataset.metadata), **settings}


def change_properties(
    dataset: LanceDataset, table: Identifier, changes: Mapping[str, str | None], *, missing_ok: bool = True
) -> None:
    """Set and remove (None) properties, in one commit for each of the two kinds; errors 13."""
    if not missing_ok:
        there = get_table_properties(dataset)
        missing = [key for key, value in changes.items() if value is None and key not in there]
        if missing:
            raise InvalidInputError(f"Table {format_identifier(table)} has no property {missing[0]!r} to remove")
    settings = {key: value for key, value in changes.items() if key.startswith(_SETTINGS)}
    others = {key: value for key, value in changes.items() if not key.startswith(_SETTINGS)}
    if others:
        dataset.update_metadata(others)
    if settings:
        dataset.update_config(settings)
