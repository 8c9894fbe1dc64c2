"""Planning micro-batches: how far each goes, and its tasks. Only metadata is read."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from pennon.spark.streaming.stream_splits import split_window, without_fragments
from pennon.spark.streaming.stream_tasks import SplitTask, StreamTask
from pennon.spark.streaming.version_effects import EffectClassifier, VersionEffect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance import LanceDataset
    from pyspark.sql.types import StructType

    from pennon.spark.reading.scan import Scan
    from pennon.spark.streaming.stream_settings import StreamSettings


@dataclass(frozen=True)
class BatchLimits:
    """The maximum size of a micro-batch; None is no limit."""

    versions: int | None = None
    rows: int | None = None


@dataclass(frozen=True)
class _AppendRun:
    """Consecutive versions that only add rows and are read together; `skip` rows are left out, `rows` are read."""

    first: int
    last: int
    skip: int = 0
    rows: int = 0


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
        for part in self._combine_effects(start, end):
            found += self._run_tasks(part) if isinstance(part, _AppendRun) else self._change_tasks(part)
        return found

    def latest_position(self) -> StreamPosition:
        """Return the position after the latest version."""
        self.history.refresh()
        return self.last_seen_position()

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

    def _combine_effects(self, start: StreamPosition, end: StreamPosition) -> Iterator[_AppendRun | VersionEffect]:
        """Yield effects, and combine appends that can be read together; a feed needs the version of each row."""
        run: _AppendRun | None = None
        last = end.next if end.rows else end.next - 1
        for effect in self._list_effects(start.next, last):
            skip = start.rows if effect.version == start.next else 0
            rows = (end.rows if effect.version == end.next else effect.rows) - skip
            if run is not None and (not effect.joins or self._settings.feed):
                yield run
                run = None
            if effect.change is not None:
                yield effect
            elif run is not None:
                run = _AppendRun(run.first, effect.version, run.skip, run.rows + rows)
            elif rows:
                run = _AppendRun(effect.version, effect.version, skip, rows)
            if run is not None and not effect.joins:
                yield run
                run = None
        if run is not None:
            yield run

    def _snapshot_tasks(self, version: int, skip: int, stop: int | None) -> list[StreamTask]:
        dataset = self.history.open_version(version)
        fragments = sorted(fragment_sizes(dataset), key=lambda one: one.id)
        rows = sum(one.rows for one in fragments) if stop is None else stop
        return self._new_row_tasks(version, dataset, fragments, skip, rows - skip)

    def _run_tasks(self, run: _AppendRun) -> list[StreamTask]:
        if not run.rows:
            return []
        dataset = self.history.open_version(run.last)
        old = set() if run.first == 1 else set(self.history.open_version(run.first - 1).fragment_ids())
        fragments = [one for one in fragment_sizes(dataset) if one.id not in old]
        return self._new_row_tasks(run.last, dataset, sorted(fragments, key=lambda one: one.id), run.skip, run.rows)

    def _new_row_tasks(
        self, version: int, dataset: LanceDataset, fragments: Sequence[FragmentSize], skip: int, rows: int
    ) -> list[StreamTask]:
        wanted = self._scan(version, dataset, fragments)
        commit = self._commit(version)
        splits = split_window(wanted, fragments, skip, rows, self._settings)
        return [SplitTask(self._columns, commit, without_fragments(wanted), split) for split in splits]

    def _change_tasks(self, effect: VersionEffect) -> list[StreamTask]:
        assert effect.change is not None
        before, after = self.history.open_version(effect.version - 1), self.history.open_version(effect.version)
        changes = ChangeTasks(
            self._settings,
            self._columns,
            self._commit(effect.version),
            effect.change,
            before=self._scan(effect.version - 1, before, fragment_sizes(before)),
            after=self._scan(effect.version, after, fragment_sizes(after)),
        )
        if not self._settings.feed:
            return list(changes.new_row_tasks())
        paired = effect.operation == "Update" and before.has_stable_row_ids and after.has_stable_row_ids
        return list(changes.feed_tasks(paired=paired))

    def _scan(self, version: int, dataset: LanceDataset, fragments: Sequence[FragmentSize]) -> Scan:
        """Return a scan of the stream's columns that a version has."""
        present = self._columns.find_present(dataset, later=version > self._since)
        where = self._settings.where
        if where is not None and dataset.schema != self.history.open_version(self._since).schema:
            scan.check_predicate(dataset, self._settings.identifier, where)
        pinned = self.history.pin_version(version).identified_by(dataset)
        return scan.Scan(pinned, dataset.schema, tuple(fragments), present, where)

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
