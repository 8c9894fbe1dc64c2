"""Appending rows with columns that the table lacks: the columns and the rows are added in one commit."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.errors import ConcurrentModificationError
from pennon.identifiers import format_identifier

if TYPE_CHECKING:
    from lance import LanceDataset, LanceOperation

    from pennon.identifiers import Identifier


@dataclass(frozen=True)
class Evolution:
    """Fragments with columns that a table does not have. Their field ids are those of a new table."""

    identifier: Identifier
    schema: pa.Schema
    """The schema of the fragments."""
    base: pa.Schema
    """The schema of the table when they were written."""
    fragments: tuple[dict[str, Any], ...]

    def build_operation(self, dataset: LanceDataset) -> LanceOperation.BaseOperation:
        """Return the operation that adds columns and rows to exactly this version."""
        from lance import LanceOperation
        from lance.fragment import FragmentMetadata
        from lance.schema import LanceSchema

        there = [fragment.metadata for fragment in dataset.get_fragments()]
        wanted = self._extend_schema(dataset, there)
        written = _field_ids(LanceSchema.from_pyarrow(self.schema).fields())
        final = _field_ids(wanted.fields())
        renumbered = {number: final[path] for path, number in written.items()}
        added = [FragmentMetadata.from_json(_renumber(fragment, renumbered)) for fragment in self.fragments]
        return LanceOperation.Merge([*there, *added], wanted)

    def _extend_schema(self, dataset: LanceDataset, there: list[Any]) -> Any:
        """Return the schema with the new columns; Lance assigns their ids in memory, so that none is reused."""
        from lance import LanceDataset, LanceOperation
        from lance.fragment import FragmentMetadata

        new = self._new_columns(dataset.schema)
        # Lance accepts only fragments without deleted rows here.
        whole = [FragmentMetadata.from_json(json.dumps({**one.to_json(), "deletion_file": None})) for one in there]
        draft = LanceDataset.commit(
            f"memory://pennon-{uuid.uuid4().hex}", LanceOperation.Overwrite(dataset.lance_schema, whole)
        )
        if new:
            draft.add_columns(pa.schema(new))
        return draft.lance_schema

    def _new_columns(self, now: pa.Schema) -> list[pa.Field]:
        """Return the columns that the table lacks; raises ConcurrentModificationError if others have changed one."""
        for field in self.schema:
            before = self.base.field(field.name) if field.name in self.base.names else field
            there = now.field(field.name) if field.name in now.names else None
            if (there is None and field.name in self.base.names) or (there is not None and there.type != before.type):
                raise ConcurrentModificationError(
                    f"Column {field.name!r} of table {format_identifier(self.identifier)} was changed while "
                    "rows were written"
                )
        return [field for field in self.schema if field.name not in now.names]


def _field_ids(fields: list[Any], above: tuple[str, ...] = ()) -> dict[tuple[str, ...], int]:
    """Return the id of each field by its path."""
    found: dict[tuple[str, ...], int] = {}
    for field in fields:
        path = (*above, field.name())
        found[path] = field.id()
        found.update(_field_ids(field.children(), path))
    return found


def _renumber(fragment: dict[str, Any], numbers: dict[int, int]) -> str:
    files = [{**file, "fields": [numbers.get(one, one) for one in file["fields"]]} for file in fragment["files"]]
    return json.dumps({**fragment, "files": files})
