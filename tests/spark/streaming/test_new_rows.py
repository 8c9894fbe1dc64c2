"""Streams of new rows: each row once, in order of versions, from any start, in batches of any size."""

from __future__ import annotations

import threading

import lance
import pytest

from pennon.spark.streaming.batch_planner import BatchLimits
from tests.spark.streaming.streams import Table, rows
from tests.support import fails


@pytest.fixture(params=[False, True], ids=["plain", "managed"])
def table(request, root):
    return Table(root, managed=request.param)


def test_new_stream_starts_with_all_rows_and_continues_with_new_rows(table):
    table.write(rows(3, 5))
    stream = table.stream()
    assert stream.batch() == rows(0, 5).to_pylist()
    assert stream.batch() is None
    table.write(rows(5, 6))
    table.write(rows(6, 8))
    assert stream.batch() == rows(5, 8).to_pylist()


def test_stream_continues_from_its_checkpoint(table):
    stream = table.stream()
    stream.all()
    table.write(rows(3, 5))
    again = stream.again()
    assert again.ids() == [3, 4]
    assert again.again().batch() is None


@pytest.mark.parametrize(
    ("starting", "expected"),
    [("0", [0, 1, 2, 3, 4]), ("1", [3, 4]), ("2", [4]), ("3", []), ("earliest", [0, 1, 2, 3, 4]), ("LATEST", [])],
)
def test_stream_starts_after_the_starting_version(table, starting, expected):
    table.write(rows(3, 4))
    table.write(rows(4, 5))
    stream = table.stream(startingVersion=starting)
    assert stream.ids() == expected
    table.write(rows(5, 6))
    assert stream.ids() == [5]


def test_earliest_is_the_oldest_existing_version(table):
    table.write(rows(3, 4))
    table.write(rows(4, 5))
    table.open().cleanup_old_versions(retain_versions=1)
    assert table.stream(startingVersion="earliest").ids() == [0, 1, 2, 3, 4]
    with fails(11, "version 1"):
        table.stream(startingVersion="1").all()


def test_a_start_in_the_future_is_refused(table):
    with fails(11, "version 7"):
        table.stream(startingVersion="7").all()


def test_rows_of_a_batch_are_limited_within_a_snapshot_and_within_a_version(table):
    table.write(rows(3, 8), max_rows_per_file=2)
    stream = table.stream()
    first = [[row["id"] for row in batch] for batch in stream.batches(BatchLimits(rows=3))]
    assert first == [[0, 1, 2], [3, 4, 5], [6, 7]]
    table.write(rows(8, 15), max_rows_per_file=3)
    table.write(rows(15, 17))
    again = stream.again()
    second = [[row["id"] for row in batch] for batch in again.batches(BatchLimits(rows=2))]
    assert second == [[8, 9], [10, 11], [12, 13], [14, 15], [16]]


def test_versions_of_a_batch_are_limited(table):
    for first in range(3, 8):
        table.write(rows(first, first + 1))
    stream = table.stream(startingVersion="1")
    assert [[row["id"] for row in batch] for batch in stream.batches(BatchLimits(versions=2))] == [[3, 4], [5, 6], [7]]


def test_versions_after_the_target_of_a_run_are_not_read(table):
    stream = table.stream()
    table.write(rows(3, 4))
    assert [row["id"] for row in stream.batch(target=2)] == [0, 1, 2, 3]
    table.write(rows(4, 5))
    assert stream.batch(target=2) is None
    assert stream.ids() == [4]


def test_snapshot_is_not_later_than_the_target_of_a_run(table):
    stream = table.stream()
    table.write(rows(3, 4))
    assert stream.planner.initial_position(target=1).next == 1


def test_stream_of_a_branch_reads_only_the_branch(root):
    table = Table(root)
    branch = table.open().create_branch("dev")
    table.write(rows(100, 101))
    stream = table.stream(branch="dev")
    assert stream.ids() == [0, 1, 2]
    lance.write_dataset(rows(3, 5), branch, mode="append")
    assert stream.again().ids() == [3, 4]
    assert table.stream().ids() == [0, 1, 2, 100]


def test_batch_always_reads_the_same_rows(table):
    table.write(rows(3, 9), max_rows_per_file=4)
    stream = table.stream(startingVersion="1")
    start = stream.planner.initial_position()
    middle = stream.planner.next_position(start, BatchLimits(rows=5))
    assert (middle.next, middle.rows) == (2, 5)
    table.write(rows(9, 12))
    table.open().optimize.compact_files()
    again = stream.again()
    assert [row["id"] for row in again.read(start.to_offset(), middle.to_offset())] == [3, 4, 5, 6, 7]


def test_compaction_indexes_and_settings_deliver_nothing(table):
    stream = table.stream()
    stream.all()
    table.write(rows(3, 6), max_rows_per_file=1)
    table.open().create_scalar_index("id", "BTREE")
    table.open().optimize.compact_files()
    table.open().update_config({"some": "setting"})
    table.write(rows(6, 7))
    table.open().optimize.optimize_indices()
    assert stream.ids() == [3, 4, 5, 6]
    assert stream.batch() is None


def test_versions_without_rows_are_passed_so_that_they_can_be_deleted(table):
    stream = table.stream()
    stream.all()
    table.open().update_config({"some": "setting"})
    assert stream.batch() == []
    table.open().cleanup_old_versions(retain_versions=1)
    table.write(rows(3, 4))
    assert stream.again().ids() == [3]


def test_rows_that_a_merge_only_inserts_are_new_rows(table):
    stream = table.stream(startingVersion="latest")
    stream.batch()
    table.open().merge_insert("id").when_not_matched_insert_all().execute(rows(2, 5))
    assert stream.ids() == [3, 4]


def test_overwrite_of_an_empty_table_delivers_new_rows(root):
    table = Table(root, data=rows(0, 0))
    stream = table.stream()
    assert stream.all() == []
    table.write(rows(0, 2), "overwrite")
    assert stream.ids() == [0, 1]


def test_columns_and_predicate_are_applied(table):
    stream = table.stream(columns="x", where="id % 2 = 1")
    table.write(rows(3, 8))
    assert stream.all(BatchLimits(rows=2)) == [{"x": "x1"}, {"x": "x3"}, {"x": "x5"}, {"x": "x7"}]


def test_invalid_predicate_is_refused(table):
    with fails(13, "'t'"):
        table.stream(where="no such thing")


@pytest.mark.parametrize(
    "options",
    [
        {"changes": "perhaps"},
        {"startingVersion": "soon"},
        {"startingVersion": "-1"},
        {"maxRowsPerTrigger": "0"},
        {"maxVersionsPerTrigger": "x"},
        {"version": "1"},
        {"tag": "t"},
        {"asOf": "2026-01-01"},
        {"limit": "3"},
    ],
)
def test_options_that_do_not_apply_to_streams_are_refused(table, options):
    with fails(13):
        table.stream(**options)


def test_a_checkpoint_of_another_source_is_refused(table):
    stream = table.stream()
    stream.position = {"topic": {"0": 12}}
    with fails(13, "topic"):
        stream.batch()


def test_rows_of_concurrent_writers_are_read_once_in_order_of_versions(table):
    writers, appends, each = 3, 6, 4
    stream = table.stream(startingVersion="latest")
    stream.batch()
    barrier = threading.Barrier(writers + 1)

    def write(number: int) -> None:
        barrier.wait()
        for turn in range(appends):
            first = 1000 * number + each * turn
            table.write(rows(first, first + each))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(1, writers + 1)]
    for thread in threads:
        thread.start()
    barrier.wait()
    found: list[int] = []
    while any(thread.is_alive() for thread in threads):
        found += stream.ids(BatchLimits(rows=5))
    for thread in threads:
        thread.join()
    found += stream.ids(BatchLimits(rows=5))
    in_order = [
        one for fragment in table.open().get_fragments() for one in fragment.to_table(columns=["id"])["id"].to_pylist()
    ]
    assert len(found) == writers * appends * each
    assert found == in_order[3:]
