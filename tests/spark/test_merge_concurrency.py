"""Merges with concurrent writers: what is rebased, what is repeated, and what conflicts."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

from pennon.spark import tables
from pennon.spark.merging.clauses import MergeSpec
from pennon.spark.merging.merge import stage_merge
from tests.spark.merging import assert_clean, open_latest, read_rows, write_table
from tests.support import fails

DATA = pa.table({"id": pa.array(range(8), pa.int64()), "name": [f"n{number}" for number in range(8)]})


def frame(spark, *values):
    return spark.createDataFrame(list(values), "id bigint, name string")


def names(lake, name="t"):
    return [(row["id"], row["name"]) for row in read_rows(lake, name)]


def staged(lake, *args, **options):
    return stage_merge(lake.address, args[0], ("t",), MergeSpec(on=["id"], **options))


def interrupting(spark, tmp_path, uri, change):
    """Return a source that changes the table when it is first read."""
    flag = str(tmp_path / "changed")

    def once(batches):
        import os

        import lance as theirs

        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            change(theirs.dataset(uri))
        yield from batches

    source = frame(spark, (1, "M1"), (20, "M20"))
    return source.repartition(1).mapInArrow(once, source.schema)


def test_staged_merge_is_rebased_on_appends_and_indexes(spark, lake):
    dataset = write_table(lake, "t", DATA)
    made = staged(lake, frame(spark, (1, "M1"), (20, "M20")))
    assert (made.rows, made.read_version, len(made.files)) == (2, 1, 2)
    assert open_latest(lake).version == 1
    lance.write_dataset(pa.table({"id": [30], "name": ["appended"]}), dataset.uri, mode="append")
    open_latest(lake).create_scalar_index("id", "BTREE")
    result = tables.publish(made, job_id="merge")
    assert (result.version, result.rows, result.already) == (4, 2, False)
    assert tables.publish(made, job_id="merge").already
    assert names(lake)[1] == (1, "M1")
    assert names(lake)[-2:] == [(20, "M20"), (30, "appended")]
    for number, name in ((1, "M1"), (20, "M20"), (30, "appended"), (5, "n5")):
        assert open_latest(lake).to_table(filter=f"id = {number}").to_pylist() == [{"id": number, "name": name}]
    assert_clean(lake)


def test_staged_merge_can_be_read_and_discarded(spark, lake):
    write_table(lake, "t", DATA)
    made = tables.make_readable(staged(lake, frame(spark, (1, "M1"), (20, "M20")), when_not_matched_by_source="delete"))
    assert [tuple(row.values()) for row in made.preview.open().to_table().sort_by("id").to_pylist()] == [
        (1, "M1"),
        (20, "M20"),
    ]
    assert len(names(lake)) == 8
    tables.discard(made)
    assert_clean(lake)


@pytest.mark.parametrize("change", ["delete", "update", "compact"])
def test_staged_merge_conflicts_with_changes_to_its_fragments(spark, lake, change):
    write_table(lake, "t", DATA)
    made = staged(lake, frame(spark, (1, "M1")))
    if change == "delete":
        open_latest(lake).delete("id = 2")
    elif change == "update":
        open_latest(lake).update({"name": "'other'"}, where="id = 2")
    else:
        open_latest(lake).optimize.compact_files()
    before = names(lake)
    with fails(14, "'t'"):
        tables.publish(made)
    assert names(lake) == before
    tables.discard(made)


def test_merge_is_repeated_after_concurrent_changes(spark, lake, tmp_path):
    dataset = write_table(lake, "t", DATA)
    source = interrupting(
        spark, tmp_path, dataset.uri, lambda there: there.update({"name": "'theirs'"}, where="id < 3")
    )
    result = lake.merge(source, "t", on="id", job_id="anew")
    assert (result.version, result.inserted, result.updated) == (3, 1, 1)
    assert names(lake)[:4] == [(0, "theirs"), (1, "M1"), (2, "theirs"), (3, "n3")]
    assert_clean(lake)


def test_key_inserted_by_a_concurrent_merge_is_updated(spark, lake):
    write_table(lake, "t", DATA)
    one, other = (staged(lake, frame(spark, (20, name))) for name in ("one", "other"))
    tables.publish(one)
    with fails(14, "'t'"):
        tables.publish(other)
    tables.discard(other)
    assert lake.merge(frame(spark, (20, "other")), "t", on="id").updated == 1
    assert names(lake)[-1] == (20, "other")
    assert_clean(lake)


def test_concurrent_merges_into_an_empty_table_insert_each_key_once(spark, lake):
    write_table(lake, "t", DATA)
    open_latest(lake).create_scalar_index("id", "BTREE")
    open_latest(lake).delete("true")
    one, other = (staged(lake, frame(spark, (5, name))) for name in ("one", "other"))
    tables.publish(one)
    with fails(14, "'t'"):
        tables.publish(other)
    assert open_latest(lake).to_table(filter="id = 5").to_pylist() == [{"id": 5, "name": "one"}]


def test_merge_gives_up_after_repeated_conflicts(spark, lake, tmp_path, monkeypatch):
    from pennon.spark.merging import attempts

    dataset = write_table(lake, "t", DATA)
    monkeypatch.setattr(attempts, "ATTEMPTS", 1)
    source = interrupting(spark, tmp_path, dataset.uri, lambda there: there.delete("id = 2"))
    with fails(14, "'t'"):
        lake.merge(source, "t", on="id")
    assert open_latest(lake).version == 2
    assert_clean(lake)
