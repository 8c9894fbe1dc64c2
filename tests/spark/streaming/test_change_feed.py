"""The change feed, which reproduces the table version by version when it is applied."""

from __future__ import annotations

import random
from datetime import datetime, timezone

import pyarrow as pa
import pytest

from pennon.spark.streaming.batch_planner import BatchLimits
from tests.spark.streaming.streams import Table, apply_feed, rows, summarize_feed
from tests.support import fails


@pytest.fixture(params=[False, True], ids=["addresses", "stable ids"])
def stable(request):
    return request.param


@pytest.fixture
def table(root, stable):
    return Table(root, stable=stable)


def _sorted(state: list[dict]) -> list[dict]:
    return sorted(state, key=lambda row: row["id"])


def test_feed_has_inserts_and_deletes_with_version_and_time(table):
    before = datetime.now(timezone.utc)
    stream = table.stream(changes="feed", startingVersion="0")
    table.write(rows(3, 4))
    table.open().delete("id IN (0, 3)")
    feed = stream.all()
    assert summarize_feed(feed) == [
        (1, "insert", 0, "x0"),
        (1, "insert", 1, "x1"),
        (1, "insert", 2, "x2"),
        (2, "insert", 3, "x3"),
        (3, "delete", 0, "x0"),
        (3, "delete", 3, "x3"),
    ]
    times = sorted({row["_commit_timestamp"] for row in feed})
    assert len(times) == 3
    assert all(one <= datetime.now(timezone.utc) for one in times)
    assert times[-1] >= before


def test_feed_has_both_images_of_an_update_with_stable_row_ids(table, stable):
    stream = table.stream(changes="feed", startingVersion="1")
    table.open().update({"x": "'new'"}, where="id = 1")
    old, new = ("update_preimage", "update_postimage") if stable else ("delete", "insert")
    assert summarize_feed(stream.all()) == sorted([(2, old, 1, "x1"), (2, new, 1, "new")])


def test_feed_of_a_merge_distinguishes_updates_inserts_and_deletes(table, stable):
    stream = table.stream(changes="feed", startingVersion="1")
    source = pa.table({"id": [1, 5], "x": ["new", "x5"]})
    merge = table.open().merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.when_not_matched_by_source_delete("id = 0").execute(source)
    old, new = ("update_preimage", "update_postimage") if stable else ("delete", "insert")
    expected = [(2, old, 1, "x1"), (2, new, 1, "new"), (2, "insert", 5, "x5"), (2, "delete", 0, "x0")]
    assert summarize_feed(stream.all()) == sorted(expected)


def test_an_overwrite_deletes_all_and_inserts_all(table):
    stream = table.stream(changes="feed", startingVersion="1")
    table.write(rows(2, 4), "overwrite")
    expected = [(2, "delete", one, f"x{one}") for one in range(3)] + [(2, "insert", one, f"x{one}") for one in (2, 3)]
    assert summarize_feed(stream.all()) == sorted(expected)


def test_feed_of_a_restore_has_removed_and_returned_rows(table):
    stream = table.stream(changes="feed", startingVersion="1")
    table.open().delete("id = 1")
    table.write(rows(3, 4))
    table.open().checkout_version(1).restore()
    feed = [row for row in stream.all() if row["_commit_version"] == 4]
    assert summarize_feed(feed) == [(4, "delete", 3, "x3"), (4, "insert", 1, "x1")]


def test_feed_of_a_compaction_is_empty_even_if_it_drops_deleted_rows(table):
    table.open().delete("id = 1")
    table.write(rows(3, 4))
    stream = table.stream(changes="feed", startingVersion="latest")
    stream.batch()
    table.open().create_scalar_index("id", "BTREE")
    table.open().optimize.compact_files()
    assert stream.all() == []
    table.open().delete("id = 2")
    assert summarize_feed(stream.all()) == [(table.open().version, "delete", 2, "x2")]


def test_feed_of_rewritten_columns_has_only_rows_that_differ(table):
    table.open().add_columns({"y": "CAST(id AS double)"})
    stream = table.stream(changes="feed", startingVersion="latest")
    stream.batch()
    opened = table.open()
    merge = opened.merge_insert("id").when_matched_update_all().write_mode("rewrite_columns")
    merge.execute(pa.table({"id": [0, 1, 2], "y": [0.0, 8.0, 2.0]}))
    feed = stream.all()
    assert [(row["_change_type"], row["id"], row["y"]) for row in feed] == [
        ("update_preimage", 1, 1.0),
        ("update_postimage", 1, 8.0),
    ]
    assert table.stream(changes="ignore", startingVersion="2").all()[-1] == {"id": 1, "x": "x1", "y": 8.0}
    assert table.stream(columns="id", startingVersion="2").all() == []


def test_filled_column_is_an_update_after_a_restart(table):
    stream = table.stream(changes="feed")
    stream.all()
    table.open().add_columns({"y": "id * 2"})
    feed = stream.again().all()
    assert {(row["_change_type"], row["id"], row["y"]) for row in feed} == {
        *(("update_preimage", one, None) for one in range(3)),
        *(("update_postimage", one, 2 * one) for one in range(3)),
    }


def test_columns_and_a_predicate_apply_to_every_row_of_the_feed(table, stable):
    stream = table.stream(changes="feed", startingVersion="1", columns="x", where="id > 0 AND x <> 'gone'")
    table.write(rows(3, 5))
    table.open().delete("id IN (0, 4)")
    table.open().update({"x": "'gone'"}, where="id = 1")
    feed = sorted((row["_commit_version"], row["_change_type"], row["x"]) for row in stream.all())
    old = "update_preimage" if stable else "delete"
    assert feed == [(2, "insert", "x3"), (2, "insert", "x4"), (3, "delete", "x4"), (4, old, "x1")]


def test_new_rows_of_a_feed_are_limited_and_changes_are_not_divided(table):
    stream = table.stream(changes="feed", startingVersion="1")
    table.write(rows(3, 8))
    table.open().delete("id < 5")
    sizes = [(batch[0]["_commit_version"], len(batch)) for batch in stream.batches(BatchLimits(rows=2))]
    assert sizes == [(2, 2), (2, 2), (2, 1), (3, 5)]


def test_feed_has_many_deleted_rows(root, stable):
    table = Table(root, stable=stable, data=rows(0, 9000))
    stream = table.stream(changes="feed", startingVersion="1")
    table.open().delete("id % 3 = 0")
    assert [row["id"] for row in stream.all()] == list(range(0, 9000, 3))


def test_a_table_with_columns_of_the_feed_is_refused(root):
    table = Table(root, data=pa.table({"id": [1], "_change_type": ["x"]}))
    with fails(13, "_change_type"):
        table.stream(changes="feed")
    assert table.stream(changes="feed", columns="id").all()[0]["_change_type"] == "insert"


class Changing:
    """Changes a table at random."""

    def __init__(self, table: Table, chance: random.Random) -> None:
        self.table = table
        self.chance = chance
        self.following = 20

    def change(self) -> None:
        kinds = [self.append, self.delete, self.update, self.merge, self.compact, self.overwrite, self.restore]
        self.chance.choice(kinds)(self.table.open(), self.chance.randrange(self.following))

    def append(self, _, __) -> None:
        first, self.following = self.following, self.following + 5
        self.table.write(rows(first, self.following), max_rows_per_file=self.chance.randint(2, 5))

    def delete(self, opened, low) -> None:
        opened.delete(f"id >= {low} AND id < {low + 4}")

    def update(self, opened, low) -> None:
        opened.update({"x": f"'u{self.chance.random()}'"}, where=f"id >= {low} AND id < {low + 4}")

    def merge(self, opened, low) -> None:
        merge = opened.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(rows(low, low + 6))
        self.following = max(self.following, low + 6)

    def compact(self, opened, low) -> None:
        if low % 2 and not opened.has_index:
            opened.create_scalar_index("id", "BTREE")
        opened.optimize.compact_files()

    def overwrite(self, _, low) -> None:
        self.table.write(rows(low, low + 7), "overwrite")
        self.following = max(self.following, low + 7)

    def restore(self, opened, _) -> None:
        opened.checkout_version(self.chance.randint(1, opened.version)).restore()


@pytest.mark.parametrize("seed", range(4))
def test_feed_of_random_changes_reproduces_the_table(root, stable, seed):
    chance = random.Random(seed)
    table = Table(root, stable=stable, managed=seed % 2 == 1, data=rows(0, 20))
    stream = table.stream(changes="feed")
    state = apply_feed(stream.all())
    changing = Changing(table, chance)
    for _ in range(6):
        for _ in range(chance.randint(1, 3)):
            changing.change()
        state = apply_feed(stream.all(BatchLimits(rows=chance.randint(1, 20))), state)
        stream = stream.again()
        assert _sorted(state) == _sorted(table.open().to_table().to_pylist())
