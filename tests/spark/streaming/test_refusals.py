"""Versions that a stream cannot deliver: it fails with the version's number, after all earlier versions."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

from pennon.spark.streaming.batch_planner import BatchLimits
from tests.spark.streaming.streams import Table, rows
from tests.support import describe_table, drop_table, fails, remove_table


@pytest.fixture(params=[False, True], ids=["plain", "managed"])
def table(request, root):
    return Table(root, managed=request.param)


def _delete(table: Table) -> None:
    table.open().delete("id = 1")


def _update(table: Table) -> None:
    table.open().update({"x": "'new'"}, where="id = 1")


def _upsert(table: Table) -> None:
    table.open().merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(rows(2, 5))


def _overwrite(table: Table) -> None:
    table.write(rows(7, 9), "overwrite")


def _truncate(table: Table) -> None:
    table.open().truncate_table()


def _restore(table: Table) -> None:
    table.open().checkout_version(1).restore()


@pytest.mark.parametrize(
    ("change", "operation"),
    [
        (_delete, "Delete"),
        (_update, "Update"),
        (_upsert, "Update"),
        (_overwrite, "Overwrite"),
        (_truncate, "Delete"),
        (_restore, "Restore"),
    ],
)
def test_changes_stop_a_stream_after_earlier_versions_are_delivered(table, change, operation):
    stream = table.stream(startingVersion="1")
    table.write(rows(3, 5))
    change(table)
    table.write(rows(9, 10))
    assert [row["id"] for row in stream.batch()] == [3, 4]
    with fails(19, f"Version 3 of table 't' ({operation})"):
        stream.batch()
    with fails(19, "Version 3"):
        stream.again().batch()
    assert table.stream(startingVersion="3").ids() == [9]


def test_deletes_and_updates_can_be_ignored(table):
    stream = table.stream(startingVersion="1", changes="ignore")
    _delete(table)
    _update(table)
    table.open().update({"x": "'new'"}, where="id = 2")
    _upsert(table)
    assert [(row["id"], row["x"]) for row in stream.all()] == [(2, "new"), (2, "x2"), (3, "x3"), (4, "x4")]


@pytest.mark.parametrize("change", [_overwrite, _restore])
def test_replaced_tables_cannot_be_ignored(table, change):
    stream = table.stream(startingVersion="1", changes="ignore")
    table.write(rows(3, 5))
    change(table)
    stream.batch()
    with fails(19, "Version 3"):
        stream.batch()


def test_failed_stream_continues_if_changes_are_ignored(table):
    stream = table.stream()
    stream.all()
    _delete(table)
    table.write(rows(3, 4))
    with fails(19):
        stream.batch()
    assert stream.again(changes="ignore").ids() == [3]


def test_dropped_table_stops_the_stream(table):
    stream = table.stream()
    stream.all()
    drop_table(table.catalog, "t")
    with fails(4):
        stream.batch()


@pytest.mark.parametrize("appends", [0, 1, 4])
def test_recreated_table_stops_the_stream_for_any_version(table, appends):
    table.write(rows(3, 5))
    stream = table.stream()
    stream.all()
    remove_table(table.catalog, "t")
    table.write(rows(0, 3), "create")
    for number in range(appends):
        table.write(rows(10 + number, 11 + number))
    with fails(19, "'t'"):
        stream.again().batch()


@pytest.mark.parametrize("appends", [1, 2])
def test_table_recreated_at_the_same_location_stops_a_running_stream(root, appends):
    table = Table(root)
    table.write(rows(3, 5))
    stream = table.stream()
    stream.all()
    location = describe_table(table.catalog, "t").location
    remove_table(table.catalog, "t")
    table.write(rows(0, 3), "create")
    assert describe_table(table.catalog, "t").location == location
    for number in range(appends):
        table.write(rows(10 + number, 11 + number))
    with fails(19, "'t'"):
        stream.batch()


def test_history_forgets_a_replaced_table(root):
    table = Table(root)
    table.write(rows(3, 5))
    stream = table.stream()
    history = stream.planner.history
    assert [one.rows for one in history.list_origins(2, 2)] == [2]
    remove_table(table.catalog, "t")
    table.write(rows(0, 3), "create")
    table.write(rows(3, 9))
    assert history.refresh() == 2
    assert [one.rows for one in history.list_origins(2, 2)] == [6]
    assert history.open_version(2).count_rows() == 9


def test_older_copy_of_a_table_stops_the_stream(root, tmp_path):
    import shutil

    table = Table(root)
    location = describe_table(table.catalog, "t").location
    shutil.copytree(location, tmp_path / "copy")
    table.write(rows(3, 5))
    stream = table.stream()
    stream.all()
    shutil.rmtree(location)
    shutil.copytree(tmp_path / "copy", location)
    with fails(19, "latest version is 1"):
        stream.again().batch()
    lance.write_dataset(rows(20, 22), location, mode="append")
    with fails(19, "Version 2"):
        stream.again().batch()


def test_deleted_versions_stop_the_stream(table):
    stream = table.stream()
    stream.all()
    table.write(rows(3, 5))
    table.write(rows(5, 6))
    table.open().cleanup_old_versions(retain_versions=1)
    with fails(11, "version 1"):
        stream.again().batch()


def test_deleted_snapshot_stops_the_stream(table):
    stream = table.stream()
    stream.batch(BatchLimits(rows=1))
    table.write(rows(3, 5))
    table.open().cleanup_old_versions(retain_versions=1)
    with fails(11, "version 1"):
        stream.again().batch()


def test_added_column_stops_the_stream_and_is_read_after_a_restart(table):
    stream = table.stream()
    stream.all()
    table.write(rows(3, 4))
    table.open().add_columns({"y": "id * 2"})
    table.write(rows(4, 5).append_column("y", pa.array([8], pa.int64())))
    assert stream.batch() == rows(3, 4).to_pylist()
    with fails(19, "column y was added"):
        stream.batch()
    assert stream.again().all() == [{"id": 4, "x": "x4", "y": 8}]


def test_rows_from_before_a_column_was_added_have_null_in_it(table):
    stream = table.stream()
    stream.all()
    table.write(rows(3, 4))
    table.open().add_columns({"y": "id * 2"})
    assert stream.again().all() == [{"id": 3, "x": "x3", "y": None}]


def test_columns_that_a_stream_does_not_read_may_change(table):
    stream = table.stream(columns="id", startingVersion="1")
    table.open().add_columns({"y": "id * 2"})
    table.open().drop_columns(["x"])
    table.write(pa.table({"id": [3], "y": [6]}))
    assert stream.all() == [{"id": 3}]


@pytest.mark.parametrize(
    ("alter", "naming"),
    [
        (lambda opened: opened.drop_columns(["x"]), "column x is gone"),
        (lambda opened: opened.alter_columns({"path": "x", "name": "z"}), "column z was added"),
        (lambda opened: opened.alter_columns({"path": "id", "data_type": pa.int32()}), "column id is int32"),
    ],
)
def test_other_changes_of_the_schema_stop_the_stream(table, alter, naming):
    stream = table.stream()
    stream.all()
    alter(table.open())
    with fails(19, naming):
        stream.batch()


def test_rows_of_another_type_are_refused_after_a_restart_too(table):
    stream = table.stream()
    stream.all()
    table.write(rows(3, 4))
    table.open().alter_columns({"path": "id", "data_type": pa.int32()})
    with fails(19, "column id is int64"):
        stream.again().batch()


def test_rows_from_before_a_rename_are_refused_after_a_restart(table):
    stream = table.stream()
    stream.all()
    table.write(rows(3, 4))
    table.open().alter_columns({"path": "x", "name": "z"})
    with fails(19, "column z is called x there"):
        stream.again().batch()


def test_feed_refuses_rows_of_an_overwritten_schema(table):
    stream = table.stream(changes="feed")
    stream.all()
    table.write(pa.table({"k": ["a"], "v": [1.0]}), "overwrite")
    with fails(19, "Version 2"):
        stream.batch()
    with fails(19, "column k is called id there"):
        stream.again().batch()


def test_batch_cannot_go_backwards(table):
    stream = table.stream(startingVersion="1")
    table.write(rows(3, 4))
    start = stream.planner.initial_position().to_offset()
    stream.all()
    with fails(13, "cannot go"):
        stream.read(stream.position, start)
    with fails(13, "cannot go"):
        stream.read(start, {**stream.position, "snapshot": True, "rows": 1})
