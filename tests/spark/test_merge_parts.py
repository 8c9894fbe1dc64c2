"""Parts of merges that need no Spark: clauses, columns that expressions mention, rows by address."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

from pennon.spark.merging import clauses, deletions, row_lookup
from pennon.spark.merging.clauses import Delete, Insert, Update
from pennon.spark.merging.conditions import find_mentioned_columns
from pennon.spark.reading.pinned import PinnedTable
from tests.support import fails


def test_words_are_parsed_as_clauses():
    read = clauses.parse_clauses("update", "insert", None)
    assert read.all() == (Update(), Insert())
    assert clauses.parse_clauses("delete", "ignore", "delete").all() == (Delete(), Delete())
    assert clauses.parse_clauses("delete", None, None).only_deletes_matches
    assert not clauses.parse_clauses([Delete("x > 1")], None, None).only_deletes_matches
    assert clauses.parse_clauses(Delete("a"), [], ()).matched == (Delete("a"),)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("upsert", None, None), "'update', 'delete', 'ignore'"),
        ((None, "update", None), "when_not_matched"),
        (("ignore", "ignore", None), "needs at least one clause"),
        (([Insert()], None, None), "Update and Delete"),
        ((None, [Delete()], None), "Insert"),
        (([Delete(), Update()], None, None), "only the last clause"),
        ((None, None, [Update()]), "must name the columns to set"),
        (([Update({})], None, None), "sets no column"),
        (([Update({"a": ""})], None, None), "SQL expressions"),
        (([Update({"a": 1})], None, None), "SQL expressions"),
    ],
)
def test_invalid_clauses_raise_invalid_input(given, said):
    with fails(13, said):
        clauses.parse_clauses(*given)


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("target.A + 1", ["a"]),
        ("`odd ``name` = 1 OR `b c` > 2", ["b c", "odd `name"]),
        ("struct(target.*)", ["a", "b c", "odd `name", "ü"]),
        ("hash(*) = 1", ["a", "b c", "odd `name", "ü"]),
        ("* EXCEPT (a)", ["a", "b c", "odd `name", "ü"]),
        ("a * 2 = (1) * 3", ["a"]),
        ("count > 1", []),
        ("concat(Ü, 'x')", ["ü"]),
    ],
)
def test_mentioned_columns_are_found(text, columns):
    assert find_mentioned_columns(["a", "b c", "odd `name", "ü"], [None, text]) == columns


@pytest.mark.parametrize("stable", [False, True])
def test_rows_by_address_are_in_order_whether_looked_up_or_scanned(tmp_path, stable):
    data = pa.table({"id": pa.array(range(4000), pa.int64()), "text": [f"t{number}" for number in range(4000)]})
    uri = str(tmp_path / "t.lance")
    dataset = lance.write_dataset(data, uri, max_rows_per_file=1000, enable_stable_row_ids=stable)
    dataset.delete("id = 5 OR id = 1500")
    table = PinnedTable(("t",), uri, dataset.version)
    few = [3, 900, (1 << 32) + 499, (3 << 32) + 999]
    many = [number for number in range(1000) if number != 5]
    for wanted in (few, many):
        addresses = pa.array(wanted, pa.uint64())
        found = pa.concat_tables(row_lookup.read_rows(table, addresses, ["text"], row_ids=True))
        ids = [(address >> 32) * 1000 + (address & 0xFFFFFFFF) for address in wanted]
        assert found["text"].to_pylist() == [f"t{number}" for number in ids]
        assert found["_rowid"].to_pylist() == (ids if stable else wanted)
    with fails(18, "lacks rows"):
        list(row_lookup.read_rows(table, pa.array([5], pa.uint64()), ["text"], row_ids=False))


def test_deleted_rows_are_reported_by_fragment():
    gone = deletions.DeletedRows()
    gone.add(pa.array([1, 7, (2 << 32) + 3], pa.uint64()))
    gone.add(pa.array([9, (2 << 32) + 4_000_000_000], pa.uint64()))
    of_another_task = deletions.DeletedRows()
    of_another_task.add(pa.array([5, 9], pa.uint64()))
    told = [deletions.create_report("written", "{}"), *gone.reports(), *of_another_task.reports()]
    others, rows = deletions.split_reports(pa.Table.from_batches(told))
    assert others == [{"kind": "written", "fragment": None, "content": b"{}"}]
    assert [(row["kind"], row["fragment"]) for row in rows.to_pylist()] == [("gone", 0), ("gone", 2)]
    first, second = rows["content"].to_pylist()
    assert deletions._unpack_offsets(first).tolist() == [1, 5, 7, 9]
    assert deletions._unpack_offsets(second).tolist() == [3, 4_000_000_000]
