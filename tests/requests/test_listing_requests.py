"""Listing the root costs one request per 1,000 entries and nothing per table."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta, timezone

import pytest

from pennon.directory.clock import now_ms
from pennon.directory.markers.marker import DELETED, Marker
from tests.support import Root, create_table, declare_table, deregister_table, drop_table, list_all_tables, list_tables

pytestmark = pytest.mark.s3

MANIFEST_REQUESTS = {"v1": 0, "compatibility": 1}
"""What a read of the root costs besides the listing: the look at the manifest's latest version."""
HIDING = json.dumps({"state": "purging", "nonce": "n", "lease_until_ms": 1 << 60, "owner": None}).encode()


def seed(s3, prefix, objects):
    """Return a root with these objects."""
    s3.fill(prefix, objects)
    return Root(s3.endpoint.uri(prefix), s3.endpoint.storage_options())


def summarize(count):
    """Show the first requests of many."""
    return "\n".join(count.summary().splitlines()[:40])


def listing_requests(count, root):
    """Pick the requests that list the root itself."""
    prefix = root.uri.partition("://")[2].partition("/")[2]
    return [request for request in count.requests if f"prefix={prefix}%2F&" in f"{request.query}&"]


@pytest.fixture(scope="module")
def many_tables(s3) -> Root:
    """Return a root with 2,500 root tables without rows."""
    return seed(s3, "many-tables", {f"t{number:05}.lance/_versions/x": b"x" for number in range(2500)})


@pytest.fixture(scope="module")
def mixed_tables(s3) -> Root:
    """Return a root with 1,000 live tables, 100 that are hidden, 100 deregistered, and 20 declared."""
    objects = {f"live{number:04}.lance/_versions/x": b"x" for number in range(1000)}
    for number in range(100):
        objects[f"hidden{number:04}.lance/_versions/x"] = b"x"
        objects[f"hidden{number:04}.deleted"] = HIDING
        objects[f"deregistered{number:04}.lance/_versions/x"] = b"x"
        objects[f"deregistered{number:04}.lance/.lance-deregistered"] = b"reserved"
        objects[f"deregistered{number:04}.deregistered"] = b"reserved"
    for number in range(20):
        objects[f"declared{number:04}.lance/.lance-reserved"] = b"reserved"
        objects[f"declared{number:04}.declared"] = b"reserved"
    return seed(s3, "mixed-tables", objects)


@pytest.fixture(scope="module")
def half_dropped(s3) -> Root:
    """Return a root with 1,000 live tables and 1,000 dropped ones; 10 of these have no retention."""
    objects = {f"live{number:04}.lance/_versions/x": b"x" for number in range(1000)}
    for number in range(1000):
        ttl_ms = 0 if number < 10 else 7 * 86_400_000
        objects[f"dropped{number:04}.lance/_versions/x"] = b"x"
        objects[f"dropped{number:04}.deleted"] = Marker(
            DELETED, deletion_id=f"{number:032}", deleted_at_ms=now_ms(), ttl_ms=ttl_ms
        ).body()
    return seed(s3, "half-dropped", objects)


HALF_DROPPED_ENTRIES = 1000 + 2 * 1000
MIXED_ENTRIES = 1000 + 2 * 100 + 2 * 100 + 2 * 20


@pytest.mark.parametrize("mode", list(MANIFEST_REQUESTS))
@pytest.mark.parametrize("options", [{}, {"limit": 5}, {"limit": 5, "include_declared": True}], ids=str)
def test_listing_2500_tables_costs_three_listings(mode, options, s3, many_tables, open_namespace):
    ns = open_namespace(many_tables, mode)
    list_tables(ns, limit=1)

    with s3.count() as count:
        names = list_tables(ns, **options)

    assert names == [f"t{number:05}" for number in range(options.get("limit", 2500))]
    assert count.total <= 3 + MANIFEST_REQUESTS[mode], summarize(count)
    assert len(listing_requests(count, many_tables)) <= 3, summarize(count)


@pytest.mark.parametrize("mode", list(MANIFEST_REQUESTS))
def test_listing_without_declared_costs_no_more_where_none_is_declared(mode, s3, many_tables, open_namespace):
    ns = open_namespace(many_tables, mode)

    with s3.count() as count:
        names = list_tables(ns, include_declared=False)

    assert len(names) == 2500
    assert count.total <= 3 + MANIFEST_REQUESTS[mode], summarize(count)


@pytest.mark.parametrize("mode", list(MANIFEST_REQUESTS))
def test_hidden_and_deregistered_tables_cost_no_request_of_their_own(mode, s3, mixed_tables, open_namespace):
    ns = open_namespace(mixed_tables, mode)

    with s3.count() as count:
        names = list_tables(ns)

    expected = [f"declared{number:04}" for number in range(20)] + [f"live{number:04}" for number in range(1000)]
    assert names == expected
    assert count.total <= math.ceil(MIXED_ENTRIES / 1000) + MANIFEST_REQUESTS[mode], summarize(count)


@pytest.mark.parametrize("mode", list(MANIFEST_REQUESTS))
def test_dropped_tables_cost_no_request_of_their_own(mode, s3, half_dropped, open_namespace):
    ns = open_namespace(half_dropped, mode)

    with s3.count() as count:
        names = list_tables(ns)

    assert names == [f"live{number:04}" for number in range(1000)]
    assert count.total <= HALF_DROPPED_ENTRIES / 1000 + MANIFEST_REQUESTS[mode], summarize(count)


@pytest.mark.parametrize("mode", list(MANIFEST_REQUESTS))
@pytest.mark.parametrize("before", [None, timedelta(days=-1), timedelta(hours=1)], ids=str)
def test_listing_purgeable_tables_reads_one_marker_for_each(mode, before, s3, half_dropped, open_namespace):
    ns = open_namespace(half_dropped, mode)

    with s3.count() as count:
        tables = ns.list_purgable_tables(None if before is None else datetime.now(timezone.utc) + before)

    assert len(tables) == {None: 10, timedelta(days=-1): 0, timedelta(hours=1): 1000}[before]
    listing = HALF_DROPPED_ENTRIES / 1000 + MANIFEST_REQUESTS[mode]
    assert count.total <= listing + len(tables), summarize(count)


@pytest.mark.parametrize("mode", list(MANIFEST_REQUESTS))
def test_a_page_of_dropped_tables_costs_one_small_read_for_each(mode, s3, half_dropped, open_namespace):
    ns = open_namespace(half_dropped, mode)

    with s3.count() as count:
        tables, token = ns.list_dropped_tables(limit=20)

    assert (len(tables), token is None) == (20, False)
    assert count.total <= HALF_DROPPED_ENTRIES / 1000 + MANIFEST_REQUESTS[mode] + 20, summarize(count)


def test_listing_purgeable_tables_in_v2_reads_only_the_manifest(s3, s3_root, open_namespace):
    ns = open_namespace(s3_root, "v2")
    for number in range(6):
        create_table(ns, f"t{number}")
        drop_table(ns, f"t{number}", ttl="0" if number % 2 else "7d")

    with s3.count() as count:
        tables = ns.list_purgable_tables()

    assert [table.id for table in tables] == [["t1"], ["t3"], ["t5"]]
    assert count.total <= 1 + 1, summarize(count)


@pytest.mark.parametrize("mode", list(MANIFEST_REQUESTS))
def test_omitting_declared_tables_costs_one_request_for_each_of_them(mode, s3, mixed_tables, open_namespace):
    ns = open_namespace(mixed_tables, mode)

    with s3.count() as count:
        names = list_tables(ns, include_declared=False)

    assert names == [f"live{number:04}" for number in range(1000)]
    limit = math.ceil(MIXED_ENTRIES / 1000) + MANIFEST_REQUESTS[mode] + 20
    assert count.total <= limit, summarize(count)


@pytest.mark.parametrize("mode", list(MANIFEST_REQUESTS))
def test_listing_all_tables_lists_the_root_once(mode, s3, many_tables, open_namespace):
    ns = open_namespace(many_tables, mode)

    with s3.count() as count:
        names = list_all_tables(ns)

    assert len(names) == 2500
    assert len(listing_requests(count, many_tables)) <= 3, summarize(count)
    # In compatibility mode the manifest is checked once before and once after the listing.
    assert count.total <= 3 + 2 * MANIFEST_REQUESTS[mode], summarize(count)


@pytest.mark.parametrize("mode", list(MANIFEST_REQUESTS))
def test_tables_created_by_this_client_are_listed_at_the_same_cost(mode, s3, s3_root, open_namespace):
    ns = open_namespace(s3_root, mode)
    for number in range(3):
        create_table(ns, f"t{number}")
        declare_table(ns, f"d{number}")
    deregister_table(ns, "t2")

    with s3.count() as count:
        names = list_tables(ns)
    with s3.count() as without_declared:
        with_data = list_tables(ns, include_declared=False)

    assert names == ["d0", "d1", "d2", "t0", "t1"]
    assert with_data == ["t0", "t1"]
    assert count.total <= 1 + MANIFEST_REQUESTS[mode], summarize(count)
    assert without_declared.total <= 1 + MANIFEST_REQUESTS[mode] + 3, summarize(without_declared)


@pytest.mark.parametrize("mode", list(MANIFEST_REQUESTS))
def test_listing_probes_every_table_only_where_legacy_markers_are_asked_for(mode, s3, s3_root, open_namespace):
    plain = open_namespace(s3_root, mode)
    for number in range(4):
        create_table(plain, f"t{number}")
    prefix = s3_root.uri.partition("://")[2].partition("/")[2]
    s3.fill(prefix, {"t3.lance/.lance-deregistered": b"reserved"})
    legacy = open_namespace(s3_root, mode, legacy_markers="true")
    list_tables(legacy)

    with s3.count() as count:
        names = list_tables(legacy)

    assert names == ["t0", "t1", "t2"]
    # 1 + N, and one read of a marker inside a table. The listing already shows the markers in the root.
    assert count.total <= 1 + 4 + 1 + MANIFEST_REQUESTS[mode], summarize(count)


def test_a_page_in_v2_costs_one_request_and_no_listing_of_the_root(s3, many_tables, open_namespace):
    ns = open_namespace(many_tables, "v2")
    list_tables(ns)

    with s3.count() as count:
        assert list_tables(ns, limit=5) == []

    assert count.total <= 1, summarize(count)
    assert not listing_requests(count, many_tables)
