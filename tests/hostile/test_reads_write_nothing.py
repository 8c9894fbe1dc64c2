"""Operations that only look change nothing, whatever dead clients and others have left in the root."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime, timezone

import lance
import pyarrow as pa
import pytest
from lance_namespace import (
    CountTableRowsRequest,
    DescribeTableRequest,
    DescribeTableVersionRequest,
    ListTablesRequest,
    ListTableVersionsRequest,
    QueryTableRequest,
)
from lance_namespace.errors import LanceNamespaceError

from pennon.api.catalog import LakeCatalog
from pennon.cli import descriptions, dropping
from pennon.directory import inspection
from pennon.directory.markers.marker import DELETED, PURGING, REVIVING, Marker
from tests.hostile.planted import contents, now_ms, plant_file, plant_marker, plant_row, plant_table, plant_trash_row
from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    describe_namespace,
    describe_table,
    drop_table,
    list_all_tables,
    list_namespaces,
    list_tables,
    namespace_exists,
    table_exists,
)


def dropped_marker(**more) -> Marker:
    return Marker(DELETED, deletion_id="d" * 32, deleted_at_ms=now_ms() - 1000, ttl_ms=0, **more).with_new_nonce()


LEFTOVERS = {
    "dead_purge": Marker(PURGING, what="purge", deletion_id="d" * 32, deleted_at_ms=now_ms() - 1000).with_new_nonce(),
    "dead_create": Marker(REVIVING, what="create").with_new_nonce(),
    "dead_create_over_dropped": Marker(
        REVIVING, what="create", prior=dropped_marker(version=1, burn=True)
    ).with_new_nonce(),
    "dead_restore": Marker(REVIVING, what="undrop", prior=dropped_marker()).with_new_nonce(),
    "dead_clearing": Marker(PURGING, what="purge").with_new_nonce(),
    "dropped": dropped_marker(),
    "no_ttl": json.dumps({"deleted_at_ms": now_ms() - 1000}).encode().ljust(64),
    "garbage": b"\xff" * 64,
    "later_version": json.dumps({"state": "archived", "padding": "x" * 64}).encode(),
}


@pytest.fixture(params=["v1", "v2", "compatibility"])
def ns(request, somewhere, open_namespace):
    """Open a root in which every kind of leftover is."""
    ns = open_namespace(somewhere, request.param)
    for name, marker in LEFTOVERS.items():
        plant_table(somewhere, f"{name}.lance", [1])
        plant_marker(somewhere, name, marker.body() if isinstance(marker, Marker) else marker)
        # The same marker without a table.
        plant_marker(somewhere, f"{name}_alone", marker.body() if isinstance(marker, Marker) else marker)
    plant_file(somewhere, "unfinished.lance/data/0.lance", b"x")
    plant_marker(somewhere, "unfinished", LEFTOVERS["dead_create"].body())
    plant_table(somewhere, "live.lance", [1, 2])
    plant_file(somewhere, "promised.lance/.lance-reserved", b"reserved")
    plant_file(somewhere, "gone.lance/.lance-deregistered", b"reserved")
    if request.param != "v1":
        _fill_manifest(ns, somewhere)
    return ns


def _fill_manifest(ns, root) -> None:
    create_namespace(ns, "a")
    create_table(ns, "a", "t")
    declare_table(ns, "a", "empty")
    create_table(ns, "a", "old")
    drop_table(ns, "a", "old", ttl="0")
    plant_table(root, "0badcafe_dying", [1])
    plant_trash_row(root, "0badcafe_dying", "a$dying", state="purging")
    plant_trash_row(root, "raw", "a$strange", ttl_ms="7d")
    plant_row(root, "dead_row", "table", "dead_row.lance")
    plant_row(root, "a$nowhere", "table", "0badcafe_nowhere")


def _readings(ns):
    """Yield every operation that only reads, on every name."""
    catalog, lake = ns._catalog, LakeCatalog(ns)
    yield lambda: list_tables(ns)
    yield lambda: list_all_tables(ns)
    yield lambda: ns.list_tables(ListTablesRequest(id=[], include_declared=False))
    yield lambda: list_namespaces(ns)
    yield lambda: describe_namespace(ns)
    yield lambda: namespace_exists(ns, "a")
    yield lambda: list_tables(ns, "a")
    yield lambda: ns.list_dropped_tables(detailed=True)
    yield lambda: ns.list_dropped_tables(["a"], detailed=True)
    yield lambda: ns.list_purgable_tables(detailed=True)
    yield lambda: ns.list_purgable_tables(datetime.now(timezone.utc))
    yield lambda: ns.purge_tables(dry_run=True)
    yield ns.list_problems
    yield lambda: ns.migrate_markers(dry_run=True)
    yield lambda: ns.migrate_to_manifest(dry_run=True)
    yield lambda: inspection.inspect(catalog)
    yield lambda: descriptions.describe_object(lake, (), with_size=False)
    yield lambda: dropping.list_trash(lake, (), due=False, detailed=True)
    names = [*LEFTOVERS, *(f"{name}_alone" for name in LEFTOVERS), "unfinished", "live", "promised", "gone", "dead_row"]
    for identifier in [[name] for name in names] + [["a", name] for name in ("t", "empty", "old", "dying", "nowhere")]:
        yield from _readings_of(ns, catalog, lake, identifier)


def _readings_of(ns, catalog, lake, identifier):
    yield lambda: ns.table_status(identifier)
    yield lambda: table_exists(ns, *identifier)
    yield lambda: describe_table(ns, *identifier, check_declared=True)
    yield lambda: ns.describe_table(DescribeTableRequest(id=identifier, load_detailed_metadata=True))
    yield lambda: ns.count_table_rows(CountTableRowsRequest(id=identifier))
    yield lambda: ns.query_table(QueryTableRequest(id=identifier, k=5, vector={}))
    yield lambda: ns.list_table_versions(ListTableVersionsRequest(id=identifier))
    yield lambda: ns.describe_table_version(DescribeTableVersionRequest(id=identifier))
    yield lambda: ns.purge_tables([identifier], dry_run=True, force=True)
    yield lambda: dropping.require_restorable(lake, tuple(identifier), None, None)
    yield lambda: descriptions.describe_object(lake, tuple(identifier), with_size=True)
    yield lambda: inspection.list_version_rows(catalog, tuple(identifier))


def _contents(root):
    """Describe the root; lock files are no contents."""
    return {path: about for path, about in contents(root).items() if ".lance-locks" not in path}


def test_reading_changes_nothing(ns, somewhere):
    before = _contents(somewhere)
    answered = 0
    for number, read in enumerate(_readings(ns)):
        with suppress(LanceNamespaceError):
            read()
            answered += 1
        if number % 50 == 0:
            assert _contents(somewhere) == before
    assert _contents(somewhere) == before
    assert answered > 50


def test_table_status_does_not_settle_claims(ns, somewhere):
    before = _contents(somewhere)
    status = {name: ns.table_status([name]).status for name in LEFTOVERS}
    if ns._settings.dir_listing_enabled:
        assert status["dead_purge"] == "NotFound"
        assert status["dead_create"] == "Exists"
        assert status["dead_create_over_dropped"] == status["dead_restore"] == status["dropped"] == "SoftDeleted"
        assert status["no_ttl"] == status["garbage"] == status["later_version"] == "SoftDeleted"
    assert ns.table_status(["live"]).status == ("Exists" if ns._settings.dir_listing_enabled else "NotFound")
    assert _contents(somewhere) == before


@pytest.mark.parametrize("mode", ["v2", "compatibility"])
def test_reading_an_unfinished_version_finishes_it_and_deletes_nothing(somewhere, mode, open_namespace, monkeypatch):
    """A version exists as soon as its row does: readers copy its manifest into place, as Lance does."""
    ns = open_namespace(somewhere, mode)
    ns.enable_table_version_management()
    create_namespace(ns, "a")
    create_table(ns, "a", "t")
    with monkeypatch.context() as dying:
        dying.setattr(
            "pennon.directory.versions.managed.finish", lambda _, versions, **_how: [one for _, one in versions]
        )
        through = {"namespace_client": ns, "table_id": ["a", "t"], "storage_options": somewhere.options or None}
        lance.write_dataset(pa.table({"x": [4]}), mode="append", **through)
    reader = open_namespace(somewhere, mode)
    before = _contents(somewhere)
    assert reader.count_table_rows(CountTableRowsRequest(id=["a", "t"])).count == 4
    after = _contents(somewhere)
    assert before.keys() <= after.keys()
    changed = [path for path, about in before.items() if after[path] != about]
    assert [path for path in changed if not path.endswith("latest_version_hint.json")] == []
    new = [path for path in after if path not in before and "__manifest/" not in path]
    assert len(new) == 1
    assert "/_versions/" in new[0]
