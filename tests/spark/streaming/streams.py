"""A stream for tests: the planner of the source and its tasks run in this process, without Spark's engine."""

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
    """Return rows with ids from `first` on."""
    ids = range(first, stop)
    return pa.table({"id": pa.array(ids, pa.int64()), "x": pa.array([f"x{one}" for one in ids], pa.string())})


class Table:
    """A table of a catalog, which is changed with plain Lance."""

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
        """Return the ids of all rows."""
        return sorted(self.open().to_table(columns=["id"])["id"].to_pylist())

    def stream(self, **options: str) -> Stream:
        """Start a stream of the table."""
        return Stream(self, options)


class Stream:
    """A streaming query, which can be restarted from its checkpoint."""

    def __init__(self, table: Table, options: dict[str, str], position: dict[str, Any] | None = None) -> None:
        self.table = table
        self.options = options
        self.position = position
        self.planner = self._create_planner()

    def _create_planner(self) -> BatchPlanner:
        settings = StreamSettings.of(SourceOptions.of({"root": self.table.root, "path": "t", **self.options}))
        wanted = plan_scan(settings.address, settings.identifier, columns=settings.columns)
        columns = StreamColumns.of(wanted.projected_schema(), settings.identifier, feed=settings.feed)
        return BatchPlanner(settings, columns.spark_schema())

    def again(self, **options: str) -> Stream:
        """Restart the query from its checkpoint, optionally with other options."""
        return Stream(self.table, {**self.options, **options}, self.position)

    def batch(self, limits: BatchLimits | None = None, target: int | None = None) -> list[dict[str, Any]] | None:
        """Run one micro-batch and return its rows; None if there is nothing to do."""
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
        """Return the rows between two offsets, read by tasks that were pickled."""
        tasks = pickle.loads(
            pickle.dumps(self.planner.plan_tasks(StreamPosition.from_offset(start), StreamPosition.from_offset(end)))
        )
        return [row for task in tasks for batch in task.read() for row in batch.to_pylist()]

    def batches(self, limits: BatchLimits | None = None) -> list[list[dict[str, Any]]]:
        """Run micro-batches until there is nothing left; return their rows."""
        found = []
        while (batch := self.batch(limits)) is not None:
            found.append(batch)
        return found

    def all(self, limits: BatchLimits | None = None) -> list[dict[str, Any]]:
        """Run all micro-batches; return their rows together."""
        return [row for batch in self.batches(limits) for row in batch]

    def ids(self, limits: BatchLimits | None = None) -> list[int]:
        """Run all micro-batches; return the ids of their rows in order."""
        return [row["id"] for row in self.all(limits)]


def summarize_feed(feed: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Return version, change type, id and x of a change feed, sorted, because the order of tasks varies."""
    return sorted((row["_commit_version"], row["_change_type"], row["id"], row["x"]) for row in feed)


def apply_feed(feed: list[dict[str, Any]], state: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    """Return the rows after a change feed is applied, version by version; removed rows must exist."""
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
