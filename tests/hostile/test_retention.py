"""A dropped table with an unreadable retention is kept and listed, and only purged with force."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest

from tests.hostile.planted import (
    DAY_MS,
    DISK_BUT_IN_THE_SOAK,
    contents,
    everyday_root,
    manifest_rows,
    now_ms,
    plant_marker,
    plant_row,
    plant_table,
    plant_trash_row,
    values_at,
)
from tests.support import create_table, drop_table, fails, ipc, list_namespaces, list_tables

NOW = now_ms()
OLD = NOW - DAY_MS
RETENTIONS = {
    "no ttl": {"deleted_at_ms": OLD},
    "no time": {"ttl_ms": 1000},
    "a text": {"deleted_at_ms": OLD, "ttl_ms": "7d"},
    "digits in a text": {"deleted_at_ms": OLD, "ttl_ms": "1000"},
    "negative": {"deleted_at_ms": OLD, "ttl_ms": -1},
    "true": {"deleted_at_ms": OLD, "ttl_ms": True},
    "null": {"deleted_at_ms": OLD, "ttl_ms": None},
    "a list": {"deleted_at_ms": OLD, "ttl_ms": [1000]},
    "a float": {"deleted_at_ms": OLD, "ttl_ms": 1000.0},
    "not a number": {"deleted_at_ms": OLD, "ttl_ms": float("nan")},
    "huge": {"deleted_at_ms": OLD, "ttl_ms": 10**40},
    "seconds": {"deleted_at_ms": OLD // 1000, "ttl_ms": 1000},
    "microseconds": {"deleted_at_ms": OLD * 1000, "ttl_ms": 1000},
    "nanoseconds": {"deleted_at_ms": OLD * 1_000_000, "ttl_ms": 1000},
    "the future": {"deleted_at_ms": NOW + 3 * DAY_MS, "ttl_ms": 0},
    "negative time": {"deleted_at_ms": -1, "ttl_ms": 1000},
    "a time in a text": {"deleted_at_ms": "yesterday", "ttl_ms": 1000},
}
RAW = {
    "1e999": b'{"deleted_at_ms": %d, "ttl_ms": 1e999}' % OLD,
    "5,000 digits": b'{"deleted_at_ms": %d, "ttl_ms": %s}' % (OLD, b"9" * 5000),
    "1e999 as time": b'{"deleted_at_ms": 1e999, "ttl_ms": 1000}',
}
STATE = {"state": "deleted", "deletion_id": "d" * 32}
FIRST_FORM = ("no ttl", "no time", "a text", "seconds")
# At sizes up to 512 bytes and at multiples of 512, the size of a marker has no meaning, so the marker is read.
BODIES = {
    **{name: json.dumps({**STATE, **retention}).encode() for name, retention in RETENTIONS.items()},
    **{f"{name}, first form": json.dumps(RETENTIONS[name]).encode().ljust(64) for name in FIRST_FORM},
    **{name: body.ljust(512 if len(body) < 512 else 5120) for name, body in RAW.items()},
}


@pytest.fixture(params=DISK_BUT_IN_THE_SOAK)
def place(request, tmp_path):
    return everyday_root(request, tmp_path)


@pytest.fixture(params=["v1", "compatibility", "v2"])
def ns(request, place, open_namespace):
    return open_namespace(place, request.param)


@pytest.fixture(params=["v1", "compatibility"])
def listing(request, place, open_namespace):
    """Open the root in a mode that lists its directories."""
    return open_namespace(place, request.param)


@pytest.mark.parametrize("body", list(BODIES.values()), ids=list(BODIES))
def test_a_marker_with_an_unreadable_retention_keeps_the_data(listing, place, body):
    plant_table(place, "t.lance", [1, 2])
    plant_marker(place, "t", body)
    before = contents(place)

    report = listing.purge_tables()

    assert report.tables == report.failed == []
    assert [(kept.id, bool(kept.reason), "force" in kept.fix) for kept in report.kept] == [(["t"], True, True)]
    assert contents(place) == before
    (dropped,) = listing.list_dropped_tables()[0]
    assert (dropped.id, dropped.fault) == (["t"], report.kept[0].reason)
    assert listing.list_purgable_tables() == []
    assert listing.table_status(["t"]).status == "SoftDeleted"
    (problem,) = listing.list_problems()
    assert (problem.entry, problem.fix) == ("t.deleted", report.kept[0].fix)
    with fails(19, naming=report.kept[0].reason):
        listing.purge_table(["t"])
    assert contents(place) == before

    (purged,) = listing.purge_table(["t"], force=True).tables

    assert purged.error is None
    assert contents(place, "t.lance") == {}
    assert listing.list_dropped_tables()[0] == []


@pytest.mark.parametrize("before", [timedelta(0), timedelta(days=400)], ids=["now", "later"])
def test_deleted_before_does_not_purge_unreadable_retentions(listing, place, before):
    plant_table(place, "t.lance", [1])
    plant_marker(place, "t", BODIES["no ttl"])
    until = datetime.now(timezone.utc) + before
    assert listing.purge_tables(deleted_before=until).tables == []
    assert listing.list_purgable_tables(until) == []
    assert values_at(place, "t.lance") == [1]


def test_a_table_with_an_unreadable_retention_can_be_restored(listing, place):
    plant_table(place, "t.lance", [1, 2])
    plant_marker(place, "t", BODIES["a text, first form"])
    listing.undrop_table(["t"])
    assert list_tables(listing) == ["t"]
    assert listing.list_problems() == []


def test_failed_creation_over_a_dropped_table_keeps_its_retention(listing, place, monkeypatch):
    plant_table(place, "t.lance", [1, 2])
    plant_marker(place, "t", BODIES["a text"])

    def fail(*_args, **_options):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("pennon.directory.root_tables.create.write_version", fail)
        with fails(18):
            create_table(listing, "t", data=ipc({"x": [3]}))

    assert [kept.id for kept in listing.purge_tables().kept] == [["t"]]
    assert values_at(place, "t.lance") == [1, 2]
    create_table(listing, "t", data=ipc({"x": [3]}))
    assert values_at(place, "t.lance") == [3]


ROWS = {
    "no ttl": {"ttl_ms": None},
    "no time": {"deleted_at_ms": None},
    "a float": {"ttl_ms": 604800000.0},
    "a float in a text": {"ttl_ms": "604800000.0"},
    "a time as float": {"deleted_at_ms": float(OLD)},
    "7d": {"ttl_ms": "7d"},
    "negative": {"ttl_ms": "-1"},
    "other digits": {"ttl_ms": "١٢٣"},
    "superscript": {"ttl_ms": "²"},
    "5,000 digits": {"ttl_ms": "9" * 5000},
    "true": {"ttl_ms": True},
    "a list": {"ttl_ms": [1]},
    "seconds": {"deleted_at_ms": str(OLD // 1000)},
    "microseconds": {"deleted_at_ms": str(OLD * 1000)},
    "nanoseconds": {"deleted_at_ms": str(OLD * 1_000_000)},
}


@pytest.mark.parametrize("content", list(ROWS.values()), ids=list(ROWS))
@pytest.mark.parametrize("mode", ["v2", "compatibility"])
def test_a_row_with_an_unreadable_retention_keeps_the_data(mode, place, open_namespace, content):
    ns = open_namespace(place, mode)
    plant_table(place, "0badcafe_t", [1, 2])
    deletion_id = plant_trash_row(place, "0badcafe_t", "t", **content)
    before = contents(place)

    report = ns.purge_tables()

    assert report.tables == []
    assert [(kept.id, kept.deletion_id) for kept in report.kept] == [(["t"], deletion_id)]
    assert [table.fault for table in ns.list_dropped_tables()[0]] == [report.kept[0].reason]
    assert [problem.entry for problem in ns.list_problems()] == [f"__trash${deletion_id}"]
    assert ns.list_purgable_tables() == []
    with fails(19, naming=report.kept[0].reason):
        ns.purge_table(["t"])
    assert contents(place) == before

    assert ns.purge_table(["t"], force=True).failed == []

    assert contents(place, "0badcafe_t") == {}
    assert manifest_rows(place) == {}


def test_a_dropped_namespace_with_an_unreadable_retention_is_not_forgotten(place, open_namespace):
    ns = open_namespace(place, "v2")
    content = {"state": "dropped", "object_id": "kept", "deleted_at_ms": str(OLD), "ttl_ms": "7d"}
    plant_row(place, "__trash$d1", "namespace", None, content)
    plant_row(place, "__trash$d2", "namespace", None, {**content, "ttl_ms": "1000"})
    ns.purge_tables()
    assert list(manifest_rows(place)) == ["__trash$d1"]
    ns.undrop_namespace(["kept"])
    assert list_namespaces(ns) == ["kept"]


@pytest.mark.parametrize("ttl", ["0", "1s", "36h", "7d", "999999999999w"])
def test_retention_written_by_this_version_is_readable(ns, ttl):
    create_table(ns, "t", data=ipc({"x": [1]}))
    drop_table(ns, "t", ttl=ttl)
    (dropped,) = ns.list_dropped_tables()[0]
    assert dropped.fault is None
    assert ns.list_problems() == []
    report = ns.purge_tables()
    assert (len(report.tables), report.kept) == (int(ttl == "0"), [])


@pytest.mark.parametrize("mode", ["v1", "compatibility"])
def test_unreadable_retentions_are_kept_while_due_tables_are_purged(mode, somewhere, open_namespace):
    ns = open_namespace(somewhere, mode)
    for number, body in enumerate(BODIES.values()):
        plant_table(somewhere, f"m{number}.lance", [1])
        plant_marker(somewhere, f"m{number}", body)
    for number, content in enumerate(ROWS.values() if mode != "v1" else []):
        plant_table(somewhere, f"0badcafe_r{number}", [1])
        plant_trash_row(somewhere, f"0badcafe_r{number}", f"r{number}", **content)
    create_table(ns, "due")
    drop_table(ns, "due", ttl="0")
    kept = len(BODIES) + (0 if mode == "v1" else len(ROWS))
    report = ns.purge_tables()
    assert [(table.id, table.error) for table in report.tables] == [(["due"], None)]
    assert len(report.kept) == len(ns.list_problems()) == kept
    assert all(values_at(somewhere, f"m{number}.lance") == [1] for number in range(len(BODIES)))


def test_one_unreadable_retention_does_not_protect_other_tables(ns, place):
    for name in ("bad", "due"):
        create_table(ns, name, data=ipc({"x": [1]}))
        drop_table(ns, name, ttl="0")
    if ns._settings.dir_listing_enabled:
        plant_marker(place, "bad", BODIES["no ttl, first form"])
        expected = ["bad"]
    else:
        plant_table(place, "0badcafe_bad", [1])
        plant_trash_row(place, "0badcafe_bad", "bad2", ttl_ms="7d")
        expected = ["bad2"]
    report = ns.purge_tables()
    assert ["due"] in [table.id for table in report.tables]
    assert [kept.id for kept in report.kept] == [expected]
