"""A snapshot of the manifest reflects its rows after fragments were added and dropped."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pennon.directory.manifest.row import NAMESPACE, TABLE, Row
from pennon.directory.manifest.snapshot import Fragment, Snapshot

NAMES = [f"n{number:02}" for number in range(80)]


def fragment(rows):
    return Fragment(files="", deletions=None, ids=[row.object_id for row in rows], live=len(rows))


def create_rows(kinds):
    """Return a row for each name: a namespace for odd kinds, a table for even ones, at a location with the kind."""
    return [
        Row(name, NAMESPACE, metadata=f'{{"k": "{kind}"}}') if kind % 2 else Row(name, TABLE, location=f"{kind}_{name}")
        for name, kind in kinds.items()
    ]


contents = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 5), max_size=len(NAMES))
large = st.fixed_dictionaries({name: st.integers(0, 5) for name in NAMES})


@given(st.lists(contents | large, min_size=1, max_size=5))
def test_replaced_fragment_leaves_no_name_and_no_location_behind(steps):
    snapshot = Snapshot()
    for number, kinds in enumerate(steps):
        rows = create_rows(kinds)
        snapshot.add_fragment(number, fragment(rows), dict(enumerate(rows)))
        if number:
            snapshot.drop_fragment(number - 1)

        assert snapshot.namespace_names("") == sorted(row.object_id for row in rows if row.object_type == NAMESPACE)
        assert snapshot.table_names("") == sorted(row.object_id for row in rows if row.object_type == TABLE)
        assert len(snapshot) == len(rows)
        for row in rows:
            assert snapshot.get(row.object_id) == row
            if row.location is not None:
                assert snapshot.object_ids_at(row.location) == (row.object_id,)
