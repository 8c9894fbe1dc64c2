"""The Lance operations that publish changed rows: new fragments, deletion vectors and new columns at once."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pennon.spark import types
from pennon.spark.merging.clauses import INSERT, UPDATE
from pennon.spark.merging.rewrite import with_columns
from pennon.spark.tables.schema_evolution import Evolution
from pennon.spark.tables.staged_write import StagedWrite
from pennon.spark.types.extension import plain_schema
from pennon.spark.types.field_ids import list_field_ids

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance import LanceOperation

    from pennon.spark.merging.rewrite import RewriteBase, RewriteResult, RowActions

COUNTED = "pennon.rows."
"""Properties of a transaction: how many rows it inserted, updated and deleted."""


def stage_rewrite(
    base: RewriteBase, actions: RowActions, done: RewriteResult, *, predicate: str | None = None
) -> StagedWrite:
    """Return the staged write that publishes a rewrite; with a predicate, it is a delete."""
    drops_fragments = bool(actions.new_columns and done.emptied)
    if drops_fragments:
        done = replace(done, shortened=(*done.shortened, *_keep_emptied(base, done)), emptied=())
    written = [file for fragment in done.added for file in fragment["files"]]
    files = [f"data/{file['path']}" for file in written]
    files += [_parse_fragment(one).deletion_file.path(one["id"]) for one in done.shortened]
    return StagedWrite(
        base.identifier,
        _create_operation(base, actions, done, predicate) if done.rows else None,
        base.table.version,
        done.rows,
        sum(file["file_size_bytes"] or 0 for file in written),
        tuple(files),
        base.destination,
        done.run,
        blobs=types.has_blobs(base.schema),
        drops_fragments=drops_fragments,
        transaction={f"{COUNTED}{kind}": str(count) for kind, count in done.counts.items()},
    )


def _create_operation(
    base: RewriteBase, actions: RowActions, done: RewriteResult, predicate: str | None
) -> LanceOperation.BaseOperation:
    from lance import LanceOperation

    shortened = [_parse_fragment(one) for one in done.shortened]
    if actions.new_columns:
        return _create_evolution(base, done, shortened, actions.new_columns)
    added = [_parse_fragment(one) for one in done.added]
    if predicate is not None:
        return LanceOperation.Delete(shortened, list(done.emptied), predicate)
    if done.counts[INSERT]:
        anchor = _find_anchor(base)
        if anchor is None:
            # Two merges into an empty table must conflict, so that one sees what the other has inserted.
            return LanceOperation.Merge(added, base.dataset.lance_schema)
        if anchor.id not in {*done.emptied, *(one.id for one in shortened)}:
            shortened.append(anchor)
    return LanceOperation.Update(
        removed_fragment_ids=list(done.emptied),
        updated_fragments=shortened,
        new_fragments=added,
        # With stable row ids, Lance treats new fragments as indexed unless a field of the index is listed here.
        fields_for_preserving_frag_bitmap=_list_updated_fields(base, actions),
        update_mode="rewrite_rows",
    )


def _list_updated_fields(base: RewriteBase, actions: RowActions) -> list[int]:
    """Return the ids of the fields that updates set, including nested fields."""
    changes = [one for one in actions.changes if one.kind == UPDATE]
    own = base.schema.names
    columns = {own[column] for change in changes for column, _ in change.values}
    return sorted(number for name, ids in list_field_ids(base.dataset).items() if name in columns for number in ids)


def _find_anchor(base: RewriteBase) -> Any:
    """Return the fragment that every inserting merge marks as changed, so that concurrent merges conflict.

    Without it, both could insert a row with the same new key. Returns None if there is no fragment.
    """
    fragments = [fragment.metadata for fragment in base.dataset.get_fragments()]
    return min(fragments, key=lambda one: one.id, default=None)


def _create_evolution(
    base: RewriteBase, done: RewriteResult, shortened: list[Any], new_columns: Sequence[pa.Field]
) -> LanceOperation.BaseOperation:
    """Return one operation with new columns, new fragments and deletion vectors.

    In such an operation Lance cannot keep row ids: changed rows get new ones.
    """
    schema = with_columns(plain_schema(base.schema), new_columns)
    added = tuple({**one, "row_id_meta": None} for one in done.added)
    operation: Any = Evolution(base.identifier, schema, base.schema, added).build_operation(base.dataset)
    there = len(base.dataset.get_fragments())
    now = {one.id: one for one in shortened}
    kept = [now.get(one.id, one) for one in operation.fragments[:there]]
    operation.fragments = [*kept, *operation.fragments[there:]]
    return operation  # type: ignore[no-any-return]


def _keep_emptied(base: RewriteBase, done: RewriteResult) -> Iterator[dict[str, Any]]:
    """Write a deletion vector for each fragment without rows, and yield the fragments.

    An operation that adds columns must list all fragments of the table. Lance writes no such vector itself, and drops
    the fragments when it commits.
    """
    fragments = {one.fragment_id: one.metadata for one in base.dataset.get_fragments()}
    with base.destination.files() as files:
        for number in done.emptied:
            described = fragments[number].to_json()
            rows = int(described["physical_rows"])
            vector = {"read_version": base.table.version, "id": secrets.randbits(63), "file_type": "array"}
            described["deletion_file"] = {**vector, "num_deleted_rows": rows, "base_id": None}
            path = _parse_fragment(described).deletion_file.path(number)
            files.note(done.run, path)
            files.write(path, _write_offsets(rows))
            yield described


def _write_offsets(rows: int) -> bytes:
    """Return the content of a deletion vector of all rows, in Lance's format."""
    offsets = pa.table(
        [pa.array(range(rows), pa.uint32())], pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, offsets.schema) as writer:
        writer.write_table(offsets)
    return bytes(sink.getvalue().to_pybytes())


def _parse_fragment(described: dict[str, Any]) -> Any:
    from lance.fragment import FragmentMetadata

    return FragmentMetadata.from_json(json.dumps(described))
