"""Telling row by row what a version changed, from the fragments in which it differs from the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.spark.streaming.cutting import cut, grouped, light
from pennon.spark.streaming.tasks import DELETE, INSERT, Gained, Lost, Moved, Rewritten, Rows, Task

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pennon.spark.reading.scan import Scan
    from pennon.spark.reading.splits import FragmentSize
    from pennon.spark.streaming.columns import Commit, StreamColumns
    from pennon.spark.streaming.difference import Difference
    from pennon.spark.streaming.settings import StreamSettings


class Telling:
    """Makes the tasks that tell of one change: `before` and `after` are scans of the two versions."""

    def __init__(
        self,
        settings: StreamSettings,
        columns: StreamColumns,
        commit: Commit,
        change: Difference,
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

    def news(self) -> Iterator[Task]:
        """Tell rows that are new and rows that have new values, the one as the other."""
        yield from self._rows(self._after, self._change.new, INSERT)
        yield from self._rewritten(images=False)

    def feed(self, *, paired: bool) -> Iterator[Task]:
        """Tell all; `paired` says that row ids tell which new row was which old one."""
        change = self._change
        if not paired:
            yield from self._rows(self._before, change.gone, DELETE)
            yield from self._rows(self._after, change.new, INSERT)
        gone, new = (change.gone, change.new) if paired else ((), ())
        moved = Moved(
            self._before.table, self._after.table, _ids(change.gone), _ids(change.new), _ids(change.marked), paired
        )
        for fragments in grouped((*gone, *change.marked), self._settings):
            yield Lost(self._columns, self._commit, light(self._before), fragments, moved)
        for fragments in grouped((*new, *change.marked), self._settings):
            yield Gained(self._columns, self._commit, light(self._after), fragments, moved)
        yield from self._rewritten(images=True)

    def _rows(self, wanted: Scan, fragments: Sequence[FragmentSize], label: str) -> Iterator[Task]:
        for split in cut(wanted, fragments, self._settings):
            yield Rows(self._columns, self._commit, light(wanted), split, label)

    def _rewritten(self, *, images: bool) -> Iterator[Task]:
        before, after = light(self._before), light(self._after)
        for fragment in self._change.rewritten:
            for split in cut(self._after, [fragment], self._settings):
                yield Rewritten(self._columns, self._commit, before, after, split, images)


def _ids(fragments: Sequence[FragmentSize]) -> tuple[int, ...]:
    return tuple(one.id for one in fragments)
