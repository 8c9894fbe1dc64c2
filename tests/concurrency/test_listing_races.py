"""Listings while other processes create and drop."""

from __future__ import annotations

import pytest

from pennon.store import local
from tests.concurrency import workers
from tests.support import create_table, list_tables, remove_table

pytestmark = pytest.mark.concurrency

STABLE = [f"stable_{number}" for number in range(20)]


def test_unchanged_tables_are_in_every_listing(crew, disk, mode, open_namespace):
    ns = open_namespace(disk, mode)
    for name in STABLE:
        create_table(ns, name)
    results = crew.run(workers.create_and_drop_or_list, disk, mode, 12)
    listings = [listing for told in results for listing in told]
    assert listings
    for listing in listings:
        assert set(STABLE) <= set(listing)
        assert listing == sorted(set(listing))
    assert list_tables(ns) == sorted(STABLE)


@pytest.mark.parametrize("listing_mode", ["v1", "compatibility"])
def test_table_dropped_during_a_listing_hides_no_other_table(disk, listing_mode, open_namespace, monkeypatch):
    ns, other = open_namespace(disk, listing_mode), open_namespace(disk, listing_mode)
    for name in STABLE:
        create_table(ns, name)
    judge = local._has_table_links
    gone: list[str] = []

    def drop_one_then_judge(root, directory, device):
        if not gone:
            gone.append(next(name for name in STABLE if directory != f"{name}.lance"))
            remove_table(other, gone[0])
            gone.append(next(name for name in reversed(STABLE) if directory != f"{name}.lance"))
            remove_table(other, gone[1])
        return judge(root, directory, device)

    monkeypatch.setattr(local, "_has_table_links", drop_one_then_judge)
    assert set(list_tables(ns)) >= set(STABLE) - set(gone)
    assert len(gone) == 2
