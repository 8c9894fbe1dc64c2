"""Splitting scans into tasks: every row in exactly one task, tasks of about equal size."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pennon.spark.reading.splits import FragmentSize, fragment_sizes, plan_splits

fragments = st.lists(
    st.builds(
        FragmentSize,
        id=st.integers(0, 2**20),
        rows=st.integers(0, 5_000_000),
        bytes=st.integers(0, 2**36),
    ),
    max_size=30,
    unique_by=lambda one: one.id,
)


@given(fragments, st.integers(1, 64), st.floats(0.01, 1), st.integers(1_000_000, 2**30))
def test_every_row_is_in_exactly_one_split(sizes, parallelism, share, max_bytes):
    ranges: dict[int, list[tuple[int, int]]] = {}
    rows = {one.id: one.rows for one in sizes}
    for split in plan_splits(sizes, parallelism=parallelism, share=share, max_bytes=max_bytes):
        assert split.fragments
        for fragment in split.fragments:
            start, stop = (0, rows[fragment]) if split.start is None else (split.start, split.stop)
            ranges.setdefault(fragment, []).append((start, stop))
    for fragment, count in rows.items():
        covered = sorted(ranges.get(fragment, []))
        assert [stop for _, stop in covered[:-1]] == [start for start, _ in covered[1:]]
        assert (covered[0][0], covered[-1][1]) == (0, count) if count else not covered


@given(fragments, st.integers(1, 64))
def test_no_split_is_much_larger_than_its_share(sizes, parallelism):
    rows = {one.id: one.rows for one in sizes}
    splits = plan_splits(sizes, parallelism=parallelism, max_bytes=2**60)
    total = sum(rows.values())
    for split in splits:
        held = sum(rows[one] for one in split.fragments) if split.start is None else split.stop - split.start
        assert held <= max(total / parallelism * 1.5, 32_768 * 1.5) + 1


@pytest.mark.parametrize(
    ("sizes", "parallelism", "count"),
    [
        ([FragmentSize(0, 1_000_000, 64_000_000)], 4, 4),  # one large fragment feeds all cores
        ([FragmentSize(0, 1_000, 64_000)], 8, 1),  # small tables are not split
        ([FragmentSize(n, 10, 640) for n in range(1000)], 8, 1),  # tiny fragments share a task
        ([FragmentSize(n, 100_000, 6_400_000) for n in range(8)], 4, 4),
        ([FragmentSize(0, 1_000, 2**30)], 1, 8),  # rows of a megabyte: by bytes, not by rows
        ([], 4, 0),
        ([FragmentSize(0, 0, 0)], 4, 0),
    ],
)
def test_the_number_of_splits_follows_cores_and_bytes(sizes, parallelism, count):
    assert len(plan_splits(sizes, parallelism=parallelism)) == count


def test_conditions_of_splits_read_each_row_once_despite_deleted_rows(tmp_path):
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"x": range(200_000)}), path, max_rows_per_file=150_000)
    dataset = lance.dataset(path)
    dataset.delete("x % 7 = 0")
    splits = plan_splits(fragment_sizes(dataset), parallelism=5)
    assert len(splits) > len(dataset.get_fragments())
    read: list[int] = []
    for split in splits:
        parts = [dataset.get_fragment(number) for number in split.fragments]
        read += dataset.scanner(filter=split.condition(), fragments=parts).to_table()["x"].to_pylist()
    assert sorted(read) == [x for x in range(200_000) if x % 7]
