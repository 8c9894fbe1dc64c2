"""A stream as a test drives it: the planner of the source and its tasks in this process, without Spark's engine."""

from __future__ import annotations

import pickle
from typing import Any

import lance
import pyarrow as pa

from pennon import connect
from pennon.spark.options import SourceOptions
from pennon.spark.reading.scan import plan_scan
from pennon.spark.streaming.batch_planner import BatchLimits, BatchPlanner
from pennon.spark.streaming.stream_columns import StreamColumns
from pennon.spark.streaming.stream_position import StreamPosition
from pennon.spark.streaming.stream_settings import StreamSettings

CHANGE_COLUMNS = {"_change_type", "_commit_version", "_commit_timestamp"}


def rows(first: int, stop: int) -> pa.Table:
    """Make rows with ids from `first` on."""
    ids = range(first, stop)
    return pa.table({"id": pa.array(ids, pa.int64()), "x": pa.array([f"x{one}" for one in ids], pa.string())})


class Table:
    """A table of a catalog, changed as any client of Lance would."""

    def __init__(self, root: str, *, managed: bool = False, stable: bool = False, data: pa.Table | None = None) -> None:
        self.root = root
        self.catalog = connect("dir", {"root": root})
        self.write(rows(0, 3) if data is None else data, "create", enable_stable_row_ids=stable)
        if managed:
            self.catalog.enable_table_version_management()

    def write(self, data: pa.Table, mode: str = "append", **options: Any) -> None:
        """Write rows with Lance."""
        lance.write_dataset(data, mode=mode, namespace_client=self.catalog, table_id=["t"], **options)

    def open(self) -> lance.LanceDataset:
        """Open the latest version."""
        return lance.dataset(namespace_client=self.catalog, table_id=["t"])

    def ids(self) -> list[int]:
        """Give the ids of all rows."""
        return sorted(self.open().to_table(columns=["id"])["id"].to_pylist())

    def stream(self, **options: str) -> Stream:
        """Start a stream of the table."""
        return Stream(self, options)


class Stream:
    """A query's life: it goes on from where it is, and can be started again from its checkpoint."""

    def __init__(self, table: Table, options: dict[str, str], position: dict[str, Any] | None = None) -> None:
        self.table = table
        self.options = options
        self.position = position
        self.planner = self._started()

    def _started(self) -> BatchPlanner:
        settings = StreamSettings.of(SourceOptions.of({"root": self.table.root, "path": "t", **self.options}))
        wanted = plan_scan(settings.address, settings.identifier, columns=settings.columns)
        columns = StreamColumns.of(wanted.projected_schema(), settings.identifier, feed=settings.feed)
        return BatchPlanner(settings, columns.spark_schema())

    def again(self, **options: str) -> Stream:
        """Start the query again from its checkpoint, perhaps with other options."""
        return Stream(self.table, {**self.options, **options}, self.position)

    def batch(self, limits: BatchLimits | None = None, target: int | None = None) -> list[dict[str, Any]] | None:
        """Do one micro-batch, and give its rows; None if there was nothing to do."""
        if self.position is None:
            self.position = self.planner.initial_position().to_offset()
        start = StreamPosition.from_offset(self.position)
        end = self.planner.next_position(start, limits or BatchLimits(), target)
        if end == start:
            return None
        read = self.read(start.to_offset(), end.to_offset())
        self.position = end.to_offset()
        return read

    def read(self, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
        """Read what lies between two offsets, by tasks that have travelled."""
        tasks = pickle.loads(
            pickle.dumps(self.planner.plan_tasks(StreamPosition.from_offset(start), StreamPosition.from_offset(end)))
        )
        return [row for task in tasks for batch in task.read() for row in batch.to_pylist()]

    def batches(self, limits: BatchLimits | None = None) -> list[list[dict[str, Any]]]:
        """Do micro-batches until there is nothing left."""
        found = []
        while (batch := self.batch(limits)) is not None:
            found.append(batch)
        return found

    def all(self, limits: BatchLimits | None = None) -> list[dict[str, Any]]:
        """Give the rows of all micro-batches that there are to do."""
        return [row for batch in self.batches(limits) for row in batch]

    def ids(self, limits: BatchLimits | None = None) -> list[int]:
        """Give the ids of all rows that there are to read, in the order in which they come."""
        return [row["id"] for row in self.all(limits)]


def told(feed: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Give what a change feed tells, in an order that does not depend on tasks."""
    return sorted((row["_commit_version"], row["_change_type"], row["id"], row["x"]) for row in feed)


def applied(feed: list[dict[str, Any]], state: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    """Apply a change feed, version by version, to what its reader has; what it takes away must be there."""
    held = list(state or [])
    for version in sorted({row["_commit_version"] for row in feed}):
        of_version = [row for row in feed if row["_commit_version"] == version]
        for row in _images(of_version, "delete", "update_preimage"):
            held.remove(row)
        held += _images(of_version, "insert", "update_postimage")
    return held


def _images(feed: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in row.items() if key not in CHANGE_COLUMNS}
        for row in feed
        if row["_change_type"] in kinds
    ]
