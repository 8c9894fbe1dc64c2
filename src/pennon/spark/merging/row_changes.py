"""The task of a merge or an update: it writes new rows, and reports which old rows are deleted.

The input of a task has the columns ACTION (the number of a change), ADDRESS (of the table's row, null for a new row)
and the values that changes set: first the fields of the struct COPIED, if there is one, then columns with the prefix
VALUE. All rows of one address are in one task, and addresses ascend. So a row that would be changed twice is detected.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from pennon.errors import InvalidInputError
from pennon.spark.merging import deletions, row_lookup
from pennon.spark.merging.clauses import DELETE, INSERT, UPDATE
from pennon.spark.types.write_cast import cast_array

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.spark.reading.pinned import PinnedTable
    from pennon.spark.tables.fragment_writer import FragmentWriter
    from pennon.spark.types import WriteTarget

ACTION = "__pennon_action"
ADDRESS = "__pennon_address"
COPIED = "__pennon_copied"
VALUE = "__pennon_value_"

WRITTEN, TWICE, REFUSED = "written", "twice", "refused"


@dataclass(frozen=True)
class RowChange:
    """A change to a row: its kind, and pairs of a column's number and the number of the value that it gets.

    Other columns keep their values, or are null in new rows.
    """

    kind: str
    values: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class RewriteTask:
    """The task of a rewrite, which is sent to executors."""

    table: PinnedTable
    changes: tuple[RowChange, ...]
    targets: tuple[WriteTarget, ...]
    """How each value is cast to the type of its column."""
    writer: FragmentWriter
    stable_row_ids: bool
    width: int
    """The number of columns of the table; further columns of written rows are new."""
    repeatable: bool = False
    """Whether several rows of the source may change the same row, because all of them delete it."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of written rows."""
        return self.writer.plan.schema

    def list_kept(self, change: RowChange) -> list[str]:
        """Return the columns of the table that a change does not set."""
        given = dict(change.values)
        return [name for number, name in enumerate(self.schema.names[: self.width]) if number not in given]


def apply_changes(rewrite: RewriteTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Apply the changes of a task, and yield reports of written and of deleted rows (see `deletions.REPORT`)."""
    rows = _ChangedRows(rewrite, batches)
    try:
        written = rewrite.writer.write(iter(rows))
    except RowChangedTwiceError as error:
        yield deletions.create_report(TWICE, str(error.address))
        return
    except InvalidInputError as error:
        # Spark would retry a task that fails, so the error is reported instead.
        yield deletions.create_report(REFUSED, str(error))
        return
    if not any(rows.counts.values()):
        return
    fragments = rows.restore_row_ids(written.fragments)
    yield deletions.create_report(WRITTEN, json.dumps({"fragments": fragments, "rows": rows.counts}))
    yield from rows.deleted.reports()


class RowChangedTwiceError(Exception):
    """Several rows of the source would change the same row of the table."""

    def __init__(self, address: int) -> None:
        super().__init__(address)
        self.address = address


class _ChangedRows:
    """Iterates over the rows to write; collects deleted rows and the number of changes of each kind."""

    def __init__(self, rewrite: RewriteTask, batches: Iterator[pa.RecordBatch]) -> None:
        self._rewrite = rewrite
        self._batches = batches
        self._last: int | None = None
        self._row_ids: list[pa.Array] = []
        self._kept_columns = [rewrite.list_kept(change) for change in rewrite.changes]
        # Lance assigns given row ids to the first rows of a fragment, so new rows, which have none, come last.
        self._order = sorted(enumerate(rewrite.changes), key=lambda one: one[1].kind == INSERT)
        self.deleted = deletions.DeletedRows()
        self.counts = dict.fromkeys((INSERT, UPDATE, DELETE), 0)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            yield from self._apply(batch)

    def _apply(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        batch = self._require_once(batch)
        actions = batch.column(ACTION)
        for number, change in self._order:
            rows = batch.filter(pc.equal(actions, number))
            if not rows.num_rows:
                continue
            self.counts[change.kind] += rows.num_rows
            if change.kind == INSERT:
                yield self._assemble(rows, change, {})
                continue
            addresses = rows.column(ADDRESS).cast(pa.uint64())
            self.deleted.add(addresses)
            if change.kind == UPDATE:
                yield from self._update(rows, change, addresses, self._kept_columns[number])

    def _require_once(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch without repeated rows; raises RowChangedTwiceError if repeats are not allowed."""
        addresses = batch.column(ADDRESS)
        if not len(addresses):
            return batch
        before = pa.concat_arrays([pa.array([self._last], pa.int64()), addresses.slice(0, len(addresses) - 1)])
        again = pc.fill_null(pc.equal(addresses, before), fill_value=False)
        self._last = addresses[-1].as_py()
        if not pc.any(again).as_py():
            return batch
        if not self._rewrite.repeatable:
            raise RowChangedTwiceError(addresses.filter(again)[0].as_py())
        return batch.filter(pc.invert(again))

    def _update(
        self, rows: pa.RecordBatch, change: RowChange, addresses: pa.Array, kept: list[str]
    ) -> Iterator[pa.RecordBatch]:
        stable = self._rewrite.stable_row_ids
        if not kept and not stable:
            yield self._assemble(rows, change, {})
            return
        start = 0
        for original in row_lookup.read_rows(self._rewrite.table, addresses, kept, row_ids=stable):
            if stable:
                self._row_ids.append(original.column(row_lookup.ROW_ID).combine_chunks())
            columns = {name: original.column(name).combine_chunks() for name in kept}
            yield self._assemble(rows.slice(start, original.num_rows), change, columns)
            start += original.num_rows

    def _assemble(self, rows: pa.RecordBatch, change: RowChange, kept: dict[str, pa.Array]) -> pa.RecordBatch:
        schema, targets = self._rewrite.schema, self._rewrite.targets
        given = rows.column(COPIED).flatten() if COPIED in rows.schema.names else []
        given += [rows.column(f"{VALUE}{number}") for number in range(len(given), len(targets))]
        values = dict(change.values)
        arrays = []
        for column, field in enumerate(schema):
            if column in values:
                arrays.append(cast_array(given[values[column]], targets[values[column]]))
            elif field.name in kept:
                arrays.append(row_lookup.cast_to_field(kept[field.name], field))
            else:
                arrays.append(pa.nulls(rows.num_rows, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def restore_row_ids(self, fragments: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
        """Return the fragments with the row ids of changed rows, which come first, if row ids are stable."""
        if not self._row_ids:
            return list(fragments)
        # Lance must not be imported before a worker forks.
        from lance.fragment import RowIdSequence

        ids = pa.concat_arrays(self._row_ids)
        result = []
        for fragment in fragments:
            own, ids = ids.slice(0, fragment["physical_rows"]), ids.slice(fragment["physical_rows"])
            metadata: Any = RowIdSequence(own).to_inline_metadata() if len(own) else None
            result.append({**fragment, "row_id_meta": None if metadata is None else metadata.asdict()})
        return result
