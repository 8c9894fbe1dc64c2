"""Planning micro-batches: how far each goes, and its tasks. Only metadata is read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError, InvalidTableStateError, LanceNamespaceError, TableVersionNotFoundError
from pennon.identifiers import format_identifier
from pennon.spark.reading import scan
from pennon.spark.reading.splits import FragmentSize, fragment_sizes
from pennon.spark.streaming.change_tasks import ChangeTasks
from pennon.spark.streaming.stream_columns import FeedCommit, StreamColumns
from pennon.spark.streaming.stream_history import StreamHistory
from pennon.spark.streaming.stream_position import StreamPosition
from pennon.spark.streaming.stream_settings import EARLIEST, LATEST
from pennon.spark.streaming.stream_splits import split_window
from pennon.spark.streaming.stream_tasks import SplitTask, StreamTask
from pennon.spark.streaming.version_effects import EffectClassifier, VersionEffect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance import LanceDataset
    from pyspark.sql.types import StructType

    from pennon.spark.reading.scan import Scan
    from pennon.spark.streaming.stream_settings import StreamSettings
    from pennon.spark.streaming.version_difference import VersionDifference


@dataclass(frozen=True)
class BatchLimits:
    """The maximum size of a micro-batch; None is no limit."""

    versions: int | None = None
    rows: int | None = None


class BatchPlanner:
    """Plans the micro-batches of one stream, in the driver's process."""

    def __init__(self, settings: StreamSettings, schema: StructType) -> None:
        self._settings = settings
        self.history = StreamHistory(settings.address, settings.identifier, settings.branch)
        self._since = self.history.refresh()
        """The version that defines the stream's schema, which Spark has just asked for."""
        self._columns = self._agree_on_columns(schema)
        self._effects = EffectClassifier(settings, self.history, self._columns, self._since)

    def initial_position(self, target: int | None = None) -> StreamPosition:
        """Return the position at which a new stream starts; versions after `target` are ignored."""
        starting = self._settings.starting
        latest = self.history.refresh()
        latest = latest if target is None else min(latest, target)
        if not isinstance(starting, int):
            if starting == LATEST:
                return self._position_after(latest)
            version = self.history.oldest if starting == EARLIEST else latest
            return StreamPosition(version, snapshot=True, mark=self.history.mark(version))
        if starting > latest:
            raise TableVersionNotFoundError(
                f"Table {format_identifier(self._settings.identifier)} has no version {starting} after which "
                f"a stream could start; its latest is {latest}"
            )
        if starting:
            self.history.open_version(starting)
        return self._position_after(starting)

    def next_position(self, start: StreamPosition, limits: BatchLimits, target: int | None = None) -> StreamPosition:
        """Return the end of the next micro-batch, at most version `target`.

        It stops before a version that the stream cannot deliver. The next micro-batch then fails.
        """
        last = self.history.refresh()
        self.history.verify(start)
        last = last if target is None else min(last, target)
        if limits.versions is not None:
            last = min(last, start.next + limits.versions - 1)
        here, rows = start, 0
        if start.snapshot:
            rows = sum(one.rows for one in fragment_sizes(self.history.open_version(start.next))) - start.rows
            if limits.rows is not None and rows > limits.rows:
                return replace(start, rows=start.rows + limits.rows)
            here = StreamPosition(start.next + 1)
        try:
            for effect in self._list_effects(here.next, last):
                left = effect.rows - here.rows
                there = _advance(effect, here, left, limits.rows, rows)
                if there is None:
                    break
                here, rows = there, rows + left
                if here.rows:
                    break
        except LanceNamespaceError:
            if here == start:
                raise
        return start if here == start else replace(here, mark=self.history.mark(here.marked_version))

    def plan_tasks(self, start: StreamPosition, end: StreamPosition) -> list[StreamTask]:
        """Return the tasks between two positions, always the same; InvalidInputError if `end` is before `start`."""
        if start == end:
            return []
        if not end.follows(start):
            raise InvalidInputError(
                f"A stream of table {format_identifier(self._settings.identifier)} cannot go from {start} to {end}"
            )
        if end.marked_version > self.history.latest:
            self.history.refresh()
        self.history.verify(start)
        self.history.verify(end)
        found: list[StreamTask] = []
        if start.snapshot:
            stop = end.rows if end.snapshot else None
            found += self._snapshot_tasks(start.next, start.rows, stop)
            if end.snapshot:
                return found
            start = StreamPosition(start.next + 1)
        last = end.next if end.rows else end.next - 1
        for effects in self._group_effects(start.next, last):
            if effects[0].change is None:
                found += self._append_tasks(effects, start, end)
            else:
                found += self._change_tasks(effects[0], effects[0].change)
        return found

    def last_seen_position(self) -> StreamPosition:
        """Return the position after the latest version at the last refresh."""
        return self._position_after(self.history.latest)

    def _position_after(self, version: int) -> StreamPosition:
        return StreamPosition(version + 1, mark=self.history.mark(version))

    def _agree_on_columns(self, schema: StructType) -> StreamColumns:
        """Return the stream's columns; raises InvalidTableStateError if the types differ from Spark's schema."""
        table = self.history.open_version(self._since)
        names = self._settings.columns
        identifier = self._settings.identifier
        wanted = scan.scan_pinned(
            self.history.pin_version(self._since), table, columns=names, where=self._settings.where
        ).projected_schema()
        columns = StreamColumns.of(wanted, identifier, feed=self._settings.feed, whole=names is None)
        columns = columns.select(schema.fieldNames()).with_field_ids(table)
        kinds = {field.name: field.dataType for field in columns.spark_schema()}
        for field in schema:
            if kinds[field.name] != field.dataType:
                raise InvalidTableStateError(
                    f"Column {field.name} of table {format_identifier(identifier)} is "
                    f"{kinds[field.name].simpleString()}, in the "
                    f"schema of the stream {field.dataType.simpleString()}; load the stream again"
                )
        return columns

    def _list_effects(self, first: int, last: int) -> Iterator[VersionEffect]:
        for origin in self.history.list_origins(first, last):
            yield self._effects.classify(origin)

    def _group_effects(self, first: int, last: int) -> Iterator[list[VersionEffect]]:
        """Yield the effects of versions in groups that are read together; a feed needs the version of each row."""
        effects = self._list_effects(first, last)
        for together, group in groupby(effects, key=lambda one: one.joins and not self._settings.feed):
            members = list(group)
            yield from [members] if together else [[one] for one in members]

    def _snapshot_tasks(self, version: int, skip: int, stop: int | None) -> list[StreamTask]:
        dataset = self.history.open_version(version)
        fragments = fragment_sizes(dataset)
        rows = sum(one.rows for one in fragments) if stop is None else stop
        return self._new_row_tasks(version, dataset, fragments, skip, rows - skip)

    def _append_tasks(
        self, effects: Sequence[VersionEffect], start: StreamPosition, end: StreamPosition
    ) -> list[StreamTask]:
        """Return the tasks for the rows between two positions that consecutive versions have added."""
        appends = [effect for effect in effects if effect.rows]
        if not appends:
            return []
        first, last = appends[0].version, appends[-1].version
        skip = start.rows if first == start.next else 0
        rows = sum(end.rows if effect.version == end.next else effect.rows for effect in appends)
        dataset = self.history.open_version(last)
        old = set() if first == 1 else set(self.history.open_version(first - 1).fragment_ids())
        fragments = [one for one in fragment_sizes(dataset) if one.id not in old]
        return self._new_row_tasks(last, dataset, fragments, skip, rows - skip)

    def _new_row_tasks(
        self, version: int, dataset: LanceDataset, fragments: Sequence[FragmentSize], skip: int, rows: int
    ) -> list[StreamTask]:
        ordered = sorted(fragments, key=lambda one: one.id)
        wanted, commit = self._scan(version, dataset), self._commit(version)
        splits = split_window(wanted, ordered, skip, rows, self._settings)
        return [SplitTask(self._columns, commit, wanted, split) for split in splits]

    def _change_tasks(self, effect: VersionEffect, change: VersionDifference) -> list[StreamTask]:
        before, after = self.history.open_version(effect.version - 1), self.history.open_version(effect.version)
        tasks = ChangeTasks(
            self._settings,
            self._columns,
            self._commit(effect.version),
            change,
            self._scan(effect.version - 1, before),
            self._scan(effect.version, after),
        )
        if not self._settings.feed:
            return list(tasks.new_row_tasks())
        paired = effect.operation == "Update" and before.has_stable_row_ids and after.has_stable_row_ids
        return list(tasks.feed_tasks(paired=paired))

    def _scan(self, version: int, dataset: LanceDataset) -> Scan:
        """Return a scan of the stream's columns that a version has; tasks get their fragments from a split."""
        present = self._columns.find_present(dataset, later=version > self._since)
        where = self._settings.where
        if where is not None and dataset.schema != self.history.open_version(self._since).schema:
            scan.check_predicate(dataset, self._settings.identifier, where)
        pinned = self.history.pin_version(version).identified_by(dataset)
        return scan.Scan(pinned, dataset.schema, (), present, where)

    def _commit(self, version: int) -> FeedCommit:
        return FeedCommit(version, self.history.commit_time(version))


def _advance(
    effect: VersionEffect, here: StreamPosition, left: int, limit: int | None, rows: int
) -> StreamPosition | None:
    """Return the position after an effect or a part of it, if `rows` are in the batch already; None if none fits.

    New rows can be divided anywhere. A change is never divided; if it is first, it may exceed the limit.
    """
    if limit is None or not left or rows + left <= limit or (effect.change is not None and not rows):
        return StreamPosition(effect.version + 1)
    if effect.change is None and rows < limit:
        return StreamPosition(effect.version, here.rows + limit - rows)
    return None
