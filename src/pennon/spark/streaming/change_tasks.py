"""The tasks that deliver the changes of a version row by row, from the fragments that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.spark.streaming.stream_splits import group_fragments, split_fragments, without_fragments
from pennon.spark.streaming.stream_tasks import (
    DELETE,
    INSERT,
    AddedRowsTask,
    MovedRows,
    RemovedRowsTask,
    RewrittenRowsTask,
    SplitTask,
    StreamTask,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pennon.spark.reading.scan import Scan
    from pennon.spark.reading.splits import FragmentSize
    from pennon.spark.streaming.stream_columns import FeedCommit, StreamColumns
    from pennon.spark.streaming.stream_settings import StreamSettings
    from pennon.spark.streaming.version_difference import VersionDifference


class ChangeTasks:
    """Creates the tasks for one change; `before` and `after` are scans of the two versions."""

    def __init__(
        self,
        settings: StreamSettings,
        columns: StreamColumns,
        commit: FeedCommit,
        change: VersionDifference,
        *,
        before: Scan,
        after: Scan,
    ) -> None:
        self._settings = settings
        self._columns = columns
        self._commit = commit
        self._change = change
        self._before = before
        self._after = after

    def new_row_tasks(self) -> Iterator[StreamTask]:
        """Yield tasks for new rows and for rows with new values."""
        yield from self._split_tasks(self._after, self._change.new, INSERT)
        yield from self._rewritten_row_tasks(images=False)

    def feed_tasks(self, *, paired: bool) -> Iterator[StreamTask]:
        """Yield tasks for all changes; with `paired`, row ids identify the old row of a new row."""
        change = self._change
        if not paired:
            yield from self._split_tasks(self._before, change.gone, DELETE)
            yield from self._split_tasks(self._after, change.new, INSERT)
        gone, new = (change.gone, change.new) if paired else ((), ())
        moved = MovedRows(
            self._before.table, self._after.table, _ids(change.gone), _ids(change.new), _ids(change.marked), paired
        )
        for fragments in group_fragments((*gone, *change.marked), self._settings):
            yield RemovedRowsTask(self._columns, self._commit, without_fragments(self._before), fragments, moved)
        for fragments in group_fragments((*new, *change.marked), self._settings):
            yield AddedRowsTask(self._columns, self._commit, without_fragments(self._after), fragments, moved)
        yield from self._rewritten_row_tasks(images=True)

    def _split_tasks(self, wanted: Scan, fragments: Sequence[FragmentSize], label: str) -> Iterator[StreamTask]:
        for split in split_fragments(wanted, fragments, self._settings):
            yield SplitTask(self._columns, self._commit, without_fragments(wanted), split, label)

    def _rewritten_row_tasks(self, *, images: bool) -> Iterator[StreamTask]:
        before, after = without_fragments(self._before), without_fragments(self._after)
        for fragment in self._change.rewritten:
            for split in split_fragments(self._after, [fragment], self._settings):
                yield RewrittenRowsTask(self._columns, self._commit, before, after, split, images)


def _ids(fragments: Sequence[FragmentSize]) -> tuple[int, ...]:
    return tuple(one.id for one in fragments)
