"""A snapshot of the manifest reflects its rows after fragments were added and dropped."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pennon.directory.manifest.loaded_snapshot import LoadedSnapshot
from pennon.directory.manifest.name_list import NameList
from pennon.directory.manifest.row import NAMESPACE, SCHEMA, TABLE, Row

NAMES = [f"n{number:02}" for number in range(80)]


def create_rows(kinds):
    """Return a row for each name: a namespace for odd kinds, a table for even ones, at a location with the kind."""
    return [
        Row(name, NAMESPACE, metadata=f'{{"k": "{kind}"}}') if kind % 2 else Row(name, TABLE, location=f"{kind}_{name}")
        for name, kind in kinds.items()
    ]


contents = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5), max_size=len(NAMES))
large = st.fixed_dictionaries({name: st.integers(0, 5) for name in NAMES})


@given(st.lists(contents | large, min_size=1, max_size=5), st.lists(st.booleans(), min_size=1, max_size=5))
def test_replaced_fragment_leaves_no_name_and_no_location_behind(steps, merged):
    snapshot = LoadedSnapshot()
    for number, kinds in enumerate(steps):
        rows = create_rows(kinds)
        stale = set(snapshot.keys_in([number - 1])) if number else set()
        for offset, row in enumerate(rows):
            snapshot.put(row, (number, offset))
            stale.discard(row.object_id)
        for key in stale:
            snapshot.remove(key)
        if merged[number % len(merged)]:
            snapshot.merge(SCHEMA)

        assert list(snapshot.namespace_names("")) == sorted(
            row.object_id for row in rows if row.object_type == NAMESPACE
        )
        assert list(snapshot.table_names("")) == sorted(row.object_id for row in rows if row.object_type == TABLE)
        assert len(snapshot) == len(rows)
        for row in rows:
            assert snapshot.get(row.object_id) == row
            if row.location is not None:
                assert snapshot.object_ids_at(row.location) == (row.object_id,)


@given(
    st.sets(st.sampled_from(NAMES), min_size=1),
    st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), max_size=40),
    st.integers(-90, 90),
    st.integers(-90, 90),
)
def test_long_list_of_names_is_a_sorted_list(stored, changes, start, stop):
    column = sorted(stored)
    names, expected = NameList(np.arange(len(column)), lambda some: [column[at] for at in some]), set(stored)
    for name, added in changes:
        if added and name not in expected:
            names.add(name)
            expected.add(name)
        elif not added:
            names.remove(name)
            expected.discard(name)

    assert list(names) == sorted(expected)
    assert [names[at] for at in range(len(names))] == sorted(expected)
    assert names[start:stop] == sorted(expected)[start:stop]


def test_namespace_of_many_tables_is_listed_with_its_changes():
    snapshot = LoadedSnapshot()
    for number in range(12_000):
        snapshot.put(Row(f"n${number:05}", TABLE, location=f"{number:08x}_n"), (0, number))
    snapshot.merge(SCHEMA)
    snapshot.remove("n$00003")
    before = list(snapshot.table_names("n", "00001", 3))
    snapshot.remove("n$00004")
    snapshot.put(Row("n$00002x", TABLE, location="x"), (1, 0))

    assert before == ["00002", "00004", "00005"]
    assert list(snapshot.table_names("n", "00001", 4)) == ["00002", "00002x", "00005", "00006"]
    assert len(snapshot.table_names("n")) == 11_999
