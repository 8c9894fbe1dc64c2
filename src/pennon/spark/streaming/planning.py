"""How far a micro-batch goes, and the tasks that read it; decided by manifests alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError, InvalidTableStateError, LanceNamespaceError, TableVersionNotFoundError
from pennon.identifiers import format_identifier
from pennon.spark.reading import scan
from pennon.spark.reading.splits import FragmentSize, fragment_sizes
from pennon.spark.streaming.columns import Commit, StreamColumns
from pennon.spark.streaming.cutting import light, window
from pennon.spark.streaming.history import History
from pennon.spark.streaming.position import Position
from pennon.spark.streaming.settings import EARLIEST, LATEST
from pennon.spark.streaming.steps import Step, Steps
from pennon.spark.streaming.tasks import Rows, Task
from pennon.spark.streaming.telling import Telling

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lance import LanceDataset
    from pyspark.sql.types import StructType

    from pennon.spark.reading.scan import Scan
    from pennon.spark.streaming.settings import StreamSettings


@dataclass(frozen=True)
class Limits:
    """How much a micro-batch may hold; None is no limit."""

    versions: int | None = None
    rows: int | None = None


@dataclass(frozen=True)
class _Run:
    """Versions that only add rows, read together: those from `first` to `last`, without what stands outside of it."""

    first: int
    last: int
    skip: int = 0
    rows: int = 0


class Planner:
    """Plans the micro-batches of one stream, in the driver's process."""

    def __init__(self, settings: StreamSettings, schema: StructType) -> None:
        self._settings = settings
        self.history = History(settings.address, settings.identifier, settings.branch)
        self._since = self.history.refresh()
        """The version that gave the stream its schema: Spark asked for it a moment ago."""
        self._columns = self._agreed(schema)
        self._steps = Steps(settings, self.history, self._columns, self._since)

    def initial(self, target: int | None = None) -> Position:
        """Give the place at which a new stream begins; what came after version `target` is not there for it."""
        starting = self._settings.starting
        latest = self.history.refresh()
        latest = latest if target is None else min(latest, target)
        if not isinstance(starting, int):
            if starting == LATEST:
                return self._after(latest)
            version = self.history.oldest if starting == EARLIEST else latest
            return Position(version, snapshot=True, mark=self.history.mark(version))
        if starting > latest:
            raise TableVersionNotFoundError(
                f"Table {format_identifier(self._settings.identifier)} has no version {starting} after which "
                "a stream could "
                f"begin; its latest is {latest}"
            )
        if starting:
            self.history.at(starting)
        return self._after(starting)

    def reach(self, start: Position, limits: Limits, target: int | None = None) -> Position:
        """Tell how far the next micro-batch goes, at most to version `target`.

        It stops before a version that cannot be told: what comes before is delivered first, and then the stream fails.
        """
        last = self.history.refresh()
        self.history.verify(start)
        last = last if target is None else min(last, target)
        if limits.versions is not None:
            last = min(last, start.next + limits.versions - 1)
        here, rows = start, 0
        if start.snapshot:
            rows = sum(one.rows for one in fragment_sizes(self.history.at(start.next))) - start.rows
            if limits.rows is not None and rows > limits.rows:
                return replace(start, rows=start.rows + limits.rows)
            here = Position(start.next + 1)
        try:
            for step in self._between(here.next, last):
                left = step.rows - here.rows
                there = _within(step, here, left, limits.rows, rows)
                if there is None:
                    break
                here, rows = there, rows + left
                if here.rows:
                    break
        except LanceNamespaceError:
            if here == start:
                raise
        return start if here == start else replace(here, mark=self.history.mark(here.known))

    def tasks(self, start: Position, end: Position) -> list[Task]:
        """Give the tasks that read what lies between two places; the same whenever it is asked."""
        if start == end:
            return []
        if not end.follows(start):
            raise InvalidInputError(
                f"A stream of table {format_identifier(self._settings.identifier)} cannot go from {start} to {end}"
            )
        if end.known > self.history.latest:
            self.history.refresh()
        self.history.verify(start)
        self.history.verify(end)
        found: list[Task] = []
        if start.snapshot:
            stop = end.rows if end.snapshot else None
            found += self._snapshot(start.next, start.rows, stop)
            if end.snapshot:
                return found
            start = Position(start.next + 1)
        for part in self._parts(start, end):
            found += self._of_run(part) if isinstance(part, _Run) else self._of_change(part)
        return found

    def latest(self) -> Position:
        """Give the place at which everything that is there now has been read."""
        self.history.refresh()
        return self.seen()

    def seen(self) -> Position:
        """Give the same as of the last look."""
        return self._after(self.history.latest)

    def _after(self, version: int) -> Position:
        return Position(version + 1, mark=self.history.mark(version))

    def _agreed(self, schema: StructType) -> StreamColumns:
        """Find the stream's columns in the table as it is, and make sure that Spark means the same."""
        table = self.history.at(self._since)
        names = self._settings.columns
        identifier = self._settings.identifier
        wanted = scan.of_pinned(
            self.history.pinned(self._since), table, columns=names, where=self._settings.where
        ).projected()
        columns = StreamColumns.of(wanted, identifier, feed=self._settings.feed, whole=names is None)
        columns = columns.picked(schema.fieldNames()).numbered(table)
        kinds = {field.name: field.dataType for field in columns.spark_schema()}
        for field in schema:
            if kinds[field.name] != field.dataType:
                raise InvalidTableStateError(
                    f"Column {field.name} of table {format_identifier(identifier)} is "
                    f"{kinds[field.name].simpleString()}, in the "
                    f"schema of the stream {field.dataType.simpleString()}; load the stream again"
                )
        return columns

    def _between(self, first: int, last: int) -> Iterator[Step]:
        for made in self.history.made(first, last):
            yield self._steps.step(made)

    def _parts(self, start: Position, end: Position) -> Iterator[_Run | Step]:
        """Put versions together that can be read together; not for a feed, which names the version of each row."""
        run: _Run | None = None
        last = end.next if end.rows else end.next - 1
        for step in self._between(start.next, last):
            skip = start.rows if step.version == start.next else 0
            rows = (end.rows if step.version == end.next else step.rows) - skip
            if run is not None and (not step.joins or self._settings.feed):
                yield run
                run = None
            if step.change is not None:
                yield step
            elif run is not None:
                run = _Run(run.first, step.version, run.skip, run.rows + rows)
            elif rows:
                run = _Run(step.version, step.version, skip, rows)
            if run is not None and not step.joins:
                yield run
                run = None
        if run is not None:
            yield run

    def _snapshot(self, version: int, skip: int, stop: int | None) -> list[Task]:
        dataset = self.history.at(version)
        fragments = sorted(fragment_sizes(dataset), key=lambda one: one.id)
        rows = sum(one.rows for one in fragments) if stop is None else stop
        return self._new_rows(version, dataset, fragments, skip, rows - skip)

    def _of_run(self, run: _Run) -> list[Task]:
        if not run.rows:
            return []
        dataset = self.history.at(run.last)
        old = set() if run.first == 1 else set(self.history.at(run.first - 1).fragment_ids())
        fragments = [one for one in fragment_sizes(dataset) if one.id not in old]
        return self._new_rows(run.last, dataset, sorted(fragments, key=lambda one: one.id), run.skip, run.rows)

    def _new_rows(
        self, version: int, dataset: LanceDataset, fragments: Sequence[FragmentSize], skip: int, rows: int
    ) -> list[Task]:
        wanted = self._scan(version, dataset, fragments)
        commit = self._commit(version)
        splits = window(wanted, fragments, skip, rows, self._settings)
        return [Rows(self._columns, commit, light(wanted), split) for split in splits]

    def _of_change(self, step: Step) -> list[Task]:
        assert step.change is not None
        before, after = self.history.at(step.version - 1), self.history.at(step.version)
        telling = Telling(
            self._settings,
            self._columns,
            self._commit(step.version),
            step.change,
            before=self._scan(step.version - 1, before, fragment_sizes(before)),
            after=self._scan(step.version, after, fragment_sizes(after)),
        )
        if not self._settings.feed:
            return list(telling.news())
        paired = step.operation == "Update" and before.has_stable_row_ids and after.has_stable_row_ids
        return list(telling.feed(paired=paired))

    def _scan(self, version: int, dataset: LanceDataset, fragments: Sequence[FragmentSize]) -> Scan:
        """Read the stream's columns of a version, as far as it has them."""
        present = self._columns.present(dataset, later=version > self._since)
        where = self._settings.where
        if where is not None and dataset.schema != self.history.at(self._since).schema:
            scan.check_predicate(dataset, self._settings.identifier, where)
        pinned = self.history.pinned(version).identified_by(dataset)
        return scan.Scan(pinned, dataset.schema, tuple(fragments), present, where)

    def _commit(self, version: int) -> Commit:
        return Commit(version, self.history.committed(version))


def _within(step: Step, here: Position, left: int, limit: int | None, rows: int) -> Position | None:
    """Tell how far a step can be taken if `rows` are taken already; None if not at all.

    New rows can be cut anywhere. A change is told as a whole, with as many rows as it has if it is the first.
    """
    if limit is None or not left or rows + left <= limit or (step.change is not None and not rows):
        return Position(step.version + 1)
    if step.change is None and rows < limit:
        return Position(step.version, here.rows + limit - rows)
    return None
