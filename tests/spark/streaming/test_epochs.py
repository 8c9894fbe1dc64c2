"""Epochs of a stream are written once. The source's writer and its commits run in this process, without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from pennon import connect
from pennon.spark import types
from pennon.spark.options import SourceOptions
from pennon.spark.streaming.epochs import EpochLog, StreamEpoch
from pennon.spark.streaming.stream_writer import stream_writer
from pennon.spark.tables import job_commits
from tests.spark.streaming.streams import Table, rows
from tests.support import describe_table, drop_table, fails, remove_table

QUERY = "4730cc7d-c6b6-4458-8a66-29c59e6e267c"


class Sink:
    """A query that writes to a table, without Spark."""

    def __init__(self, root: str, query: str | None = QUERY, *, overwrite: bool = False, **options: str) -> None:
        self.asked = SourceOptions.of({"root": root, "path": "t", "checkpointLocation": "there", **options})
        self.query = query
        self.overwrite = overwrite

    def staged(self, data: pa.Table, tasks: int = 2) -> list:
        """Plan an epoch and run its tasks; each task writes a part of the rows."""
        schema = types.spark_schema(data.schema)
        writer = stream_writer(self.asked, schema, overwrite=self.overwrite)
        each = -(-data.num_rows // tasks)
        parts = [data.slice(number * each, each).to_batches() for number in range(tasks)]
        return [replace(writer.write(iter(part)), query=self.query) for part in parts]

    def committed(self, messages: list, number: int, data: pa.Table | None = None) -> None:
        schema = types.spark_schema((rows(0, 1) if data is None else data).schema)
        stream_writer(self.asked, schema, overwrite=self.overwrite).commit(messages, number)

    def aborted(self, messages: list, number: int) -> None:
        schema = types.spark_schema(rows(0, 1).schema)
        stream_writer(self.asked, schema, overwrite=self.overwrite).abort(messages, number)

    def epoch(self, number: int, data: pa.Table) -> None:
        """Write and commit an epoch."""
        self.committed(self.staged(data), number, data)


@pytest.fixture(params=[False, True], ids=["plain", "managed"])
def table(request, root):
    return Table(root, managed=request.param)


def _files(table: Table) -> set[str]:
    return {path.name for path in Path(describe_table(table.catalog, "t").location, "data").iterdir()}


def test_each_epoch_is_one_version_that_names_it(table, root):
    sink = Sink(root)
    sink.epoch(0, rows(3, 6))
    sink.epoch(1, rows(6, 7))
    assert table.ids() == list(range(7))
    opened = table.open()
    assert opened.version == 3
    properties = opened.read_transaction(3).transaction_properties
    assert properties["pennon.stream"] == QUERY
    assert properties["pennon.epoch"] == "1"


def test_epoch_repeated_after_its_commit_changes_nothing(table, root):
    Sink(root).epoch(0, rows(3, 6))
    before = _files(table)
    Sink(root).epoch(0, rows(3, 6))
    Sink(root).epoch(0, rows(3, 6))
    assert table.ids() == list(range(6))
    assert table.open().version == 2
    assert _files(table) == before
    Sink(root).epoch(1, rows(6, 7))
    assert table.ids() == list(range(7))


def test_repeated_epoch_finds_its_commit_among_others(table, root):
    Sink(root).epoch(0, rows(3, 6))
    for first in range(100, 105):
        table.write(rows(first, first + 1))
    table.open().create_scalar_index("id", "BTREE")
    table.open().optimize.compact_files()
    Sink(root).epoch(0, rows(3, 6))
    assert table.ids() == [*range(6), *range(100, 105)]


def test_epoch_repeated_before_its_commit_is_written_once(table, root):
    sink = Sink(root)
    lost = sink.staged(rows(3, 6))
    destination = lost[0].prepared.destination
    with destination.files() as files:
        EpochLog(files, destination, QUERY).begin(StreamEpoch(QUERY, QUERY, 0))
    table.write(rows(100, 101))
    Sink(root).epoch(0, rows(3, 6))
    assert table.ids() == [*range(6), 100]


def test_epoch_that_creates_the_table_is_written_once(root):
    sink = Sink(root)
    sink.epoch(0, rows(0, 4))
    catalog = connect("dir", {"root": root})
    assert describe_table(catalog, "t", load_detailed_metadata=True).version == 1
    for _ in range(3):
        sink.epoch(0, rows(0, 4))
    sink.epoch(1, rows(4, 5))
    read = Table.__new__(Table)
    read.catalog = catalog
    assert read.ids() == [0, 1, 2, 3, 4]


def test_two_drivers_of_one_query_do_not_write_an_epoch_twice(table, root):
    Sink(root).epoch(0, rows(3, 4))
    ours, theirs = Sink(root).staged(rows(4, 6)), Sink(root).staged(rows(4, 6))
    Sink(root).committed(theirs, 1)
    Sink(root).committed(ours, 1)
    assert table.ids() == [0, 1, 2, 3, 4, 5]


def test_epoch_without_rows_creates_no_version(table, root):
    Sink(root).epoch(0, rows(0, 0))
    Sink(root).committed([], 1)
    assert table.open().version == 1


def test_complete_mode_replaces_all_rows_once_for_each_epoch(table, root):
    sink = Sink(root, overwrite=True)
    sink.epoch(0, rows(10, 12))
    sink.epoch(1, rows(20, 23))
    version = table.open().version
    sink.epoch(1, rows(20, 23))
    assert table.ids() == [20, 21, 22]
    assert table.open().version == version
    sink.epoch(2, rows(0, 0))
    assert table.ids() == []


def test_streams_to_one_table_are_independent(table, root):
    one, other = Sink(root, "query one"), Sink(root, "query two")
    one.epoch(0, rows(3, 4))
    other.epoch(0, rows(4, 5))
    other.epoch(1, rows(5, 6))
    one.epoch(1, rows(6, 7))
    other.epoch(1, rows(5, 6))
    assert table.ids() == list(range(7))


def test_a_named_stream_refuses_another_checkpoint(table, root):
    Sink(root, "first query", queryId="orders").epoch(7, rows(3, 4))
    messages = Sink(root, "second query", queryId="orders").staged(rows(4, 5))
    with fails(19, "checkpoint of query first query"):
        Sink(root, queryId="orders").committed(messages, 0)
    assert table.ids() == [0, 1, 2, 3]
    Sink(root, "first query", queryId="orders").epoch(8, rows(4, 5))
    assert table.ids() == [0, 1, 2, 3, 4]


def test_older_checkpoint_is_refused(table, root):
    for number in range(3):
        Sink(root).epoch(number, rows(3 + number, 4 + number))
    with fails(19, "has written epoch 2"):
        Sink(root).epoch(1, rows(4, 5))
    assert table.ids() == list(range(6))


def test_epoch_in_deleted_versions_is_refused(table, root):
    Sink(root).epoch(0, rows(3, 4))
    Sink(root).epoch(1, rows(4, 5))
    for first in range(100, 103):
        table.write(rows(first, first + 1))
    table.open().cleanup_old_versions(retain_versions=1)
    with fails(19, "may or may not have written epoch 1"):
        Sink(root).epoch(1, rows(4, 5))
    Sink(root).epoch(2, rows(5, 6))
    assert table.ids() == [*range(6), *range(100, 103)]


def test_stream_without_a_query_id_is_refused(table, root):
    with fails(13, "queryId"):
        Sink(root, None).epoch(0, rows(3, 4))
    Sink(root, None, queryId="orders").epoch(0, rows(3, 4))
    Sink(root, None, queryId="orders").epoch(0, rows(3, 4))
    assert table.ids() == [0, 1, 2, 3]


def test_an_aborted_epoch_leaves_no_files_and_no_table(table, root):
    before = _files(table)
    messages = Sink(root).staged(rows(3, 6))
    assert len(_files(table)) == len(before) + 2
    Sink(root).aborted([messages[0], None], 0)
    assert _files(table) == before
    remove_table(table.catalog, "t")
    messages = Sink(root).staged(rows(3, 6))
    place = Path(messages[0].prepared.destination.uri)
    assert place.exists()
    Sink(root).aborted(messages, 0)
    assert not place.exists()
    Sink(root).aborted([None, None], 0)


def test_an_epoch_whose_commit_failed_can_be_repeated(table, root):
    before = _files(table)
    messages = Sink(root).staged(rows(3, 6))
    drop_table(table.catalog, "t")
    with fails(4):
        Sink(root).committed(messages, 0)
    Sink(root).aborted(messages, 0)
    table.catalog.undrop_table(["t"])
    assert _files(table) == before
    Sink(root).epoch(0, rows(3, 6))
    assert table.ids() == list(range(6))


def test_new_columns_are_added_with_merge_schema(table, root):
    wider = rows(3, 5).append_column("y", pa.array([1.5, None]))
    with fails(13, "y"):
        Sink(root).epoch(0, wider)
    sink = Sink(root, mergeSchema="true")
    sink.epoch(0, wider)
    sink.epoch(0, wider)
    assert table.open().to_table().sort_by("id")["y"].to_pylist() == [None, None, None, 1.5, None]


@pytest.mark.parametrize("option", ["version", "columns", "where", "jobId"])
def test_options_that_do_not_apply_to_stream_writes_are_refused(table, root, option):
    with fails(13, option):
        Sink(root, **{option: "1"}).staged(rows(table.open().count_rows(), 5))


def test_an_epoch_costs_the_same_however_long_the_history_is(table, root, monkeypatch):
    looked: list[str] = []
    listed = job_commits._find_first_attempt
    monkeypatch.setattr(job_commits, "_find_first_attempt", lambda *known: looked.append("listed") or listed(*known))
    searched = job_commits._search_versions
    monkeypatch.setattr(job_commits, "_search_versions", lambda *known: looked.append(known[2:]) or searched(*known))
    Sink(root).epoch(0, rows(3, 4))
    assert looked[0] == "listed"
    for first in range(100, 110):
        table.write(rows(first, first + 1))
    looked.clear()
    Sink(root).epoch(1, rows(4, 5))
    assert looked == [(12, 12)]
