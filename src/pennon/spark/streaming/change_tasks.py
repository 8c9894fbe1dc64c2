"""The tasks that deliver the changes of a version row by row, from the fragments that differ."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.spark.reading.splits import group_fragments
from pennon.spark.streaming.stream_splits import split_fragments
from pennon.spark.streaming.stream_tasks import (
    DELETE,
    INSERT,
    POSTIMAGE,
    PREIMAGE,
    MovedRowsTask,
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


@dataclass(frozen=True)
class ChangeTasks:
    """Creates the tasks for one change; `before` and `after` are scans of the two versions."""

    settings: StreamSettings
    columns: StreamColumns
    commit: FeedCommit
    change: VersionDifference
    before: Scan
    after: Scan

    def new_row_tasks(self) -> Iterator[StreamTask]:
        """Yield tasks for new rows and for rows with new values."""
        yield from self._split_tasks(self.after, self.change.new, INSERT)
        yield from self._rewritten_row_tasks(images=False)

    def feed_tasks(self, *, paired: bool) -> Iterator[StreamTask]:
        """Yield tasks for all changes; with `paired`, row ids identify the old row of a new row."""
        gone, new, marked = self.change.gone, self.change.new, self.change.marked
        if not paired:
            yield from self._split_tasks(self.before, gone, DELETE)
            yield from self._split_tasks(self.after, new, INSERT)
            gone, new = (), ()
        old, now = (*gone, *marked), (*new, *marked)
        yield from self._moved_row_tasks(self.before, self.after, old, now if paired else (), (PREIMAGE, DELETE))
        yield from self._moved_row_tasks(self.after, self.before, now, old if paired else (), (POSTIMAGE, INSERT))
        yield from self._rewritten_row_tasks(images=True)

    def _split_tasks(self, wanted: Scan, fragments: Sequence[FragmentSize], label: str) -> Iterator[StreamTask]:
        for split in split_fragments(wanted, fragments, self.settings):
            yield SplitTask(self.columns, self.commit, wanted, split, label)

    def _moved_row_tasks(
        self,
        here: Scan,
        there: Scan,
        fragments: Sequence[FragmentSize],
        counterparts: Sequence[FragmentSize],
        labels: tuple[str, str],
    ) -> Iterator[StreamTask]:
        in_both, others = _ids(self.change.marked), _ids(counterparts)
        share = math.ceil(sum(one.rows for one in fragments) / self.settings.parallelism)
        for group in group_fragments(fragments, share, lambda fragment: fragment.rows):
            yield MovedRowsTask(self.columns, self.commit, here, group, there.table, in_both, others, labels)

    def _rewritten_row_tasks(self, *, images: bool) -> Iterator[StreamTask]:
        for fragment in self.change.rewritten:
            for split in split_fragments(self.after, [fragment], self.settings):
                yield RewrittenRowsTask(self.columns, self.commit, self.before, self.after, split, images)


def _ids(fragments: Sequence[FragmentSize]) -> tuple[int, ...]:
    return tuple(one.id for one in fragments)
