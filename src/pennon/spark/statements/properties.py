"""Properties of a table in SQL.

Keys that begin with `lance.` are stored in the Lance config of the table, all others in its metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.identifiers import Identifier, format_identifier

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lance import LanceDataset

_SETTINGS = "lance."


def get_table_properties(dataset: LanceDataset) -> dict[str, str]:
    """Return the properties of a table."""
    settings = {key: value for key, value in dataset.config().items() if key.startswith(_SETTINGS)}
    return {**dict(dataset.metadata), **settings}


def change_properties(
    dataset: LanceDataset, table: Identifier, changes: Mapping[str, str | None], *, missing_ok: bool = True
) -> None:
    """Set properties, or remove those with the value None.

    Config and metadata change in one commit each. Raises InvalidInputError if a property to remove is missing and
    `missing_ok` is False.
    """
    if not missing_ok:
        existing = get_table_properties(dataset)
        missing = [key for key, value in changes.items() if value is None and key not in existing]
        if missing:
            raise InvalidInputError(f"Table {format_identifier(table)} has no property {missing[0]!r} to remove")
    settings = {key: value for key, value in changes.items() if key.startswith(_SETTINGS)}
    others = {key: value for key, value in changes.items() if not key.startswith(_SETTINGS)}
    if others:
        dataset.update_metadata(others)
    if settings:
        dataset.update_config(settings)
