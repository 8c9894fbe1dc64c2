"""Jobs over whole catalogs in every mode: stats, verify, cleanup, purge and migrate."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import lance
import pyarrow as pa
import pytest

from pennon.spark import attach
from pennon.spark.jobs import cleanup, migrate, purge, stats, verify
from tests.spark.jobs.stock import by_table, files
from tests.support import MODES, deregister_table, drop_table, fails, list_all_tables


def test_stats_of_tables(spark, stock, tmp_path):
    stock.namespace("n")
    stock.create("n", "t", batches=3)
    table = stock.open("n", "t")
    table.create_scalar_index("k", "BTREE")
    table.delete("k in (1, 2)")
    stock.append("n", "t", data=pa.table({"k": [100], "s": ["x"]}))
    stock.create("u")
    stock.declare("plan")
    broken = stock.create("broken")
    (broken / "_versions/18446744073709551614.manifest").write_bytes(b"")
    found = by_table(stats(stock.lake(spark), job_id="s", state=tmp_path / "state"))
    row = found["n.t"]
    assert (row["rows"], row["deleted_rows"], row["fragments"], row["versions"]) == (29, 2, 4, 6)
    assert (row["indexes"], row["unindexed_fragments"], row["columns"]) == (1, 1, 2)
    assert (row["small_files"], row["small_file_ratio"]) == (4, 1.0)
    assert row["bytes"] == sum(path.stat().st_size for path in stock.directory("n", "t").glob("data/*"))
    assert {name: one["status"] for name, one in found.items()} == {
        "n.t": "done",
        "u": "done",
        "plan": "skipped",
        "broken": "failed",
    }
    again = by_table(stats(stock.lake(spark), job_id="s", state=tmp_path / "state"))
    assert {name for name, one in again.items() if "earlier run" in (one["message"] or "")} == {"n.t", "u", "plan"}
    assert again["broken"]["status"] == "failed"
    assert by_table(stats(stock.lake(spark), "u", small_file_bytes=1))["u"]["small_files"] == 0


@pytest.mark.parametrize("place", ["v1", "v2-managed"])
def test_verify_reports_all_faults_of_a_catalog(spark, new_stock, place):
    """An intact table, a missing file, a row without a directory, foreign directories, dropped and declared tables."""
    stock = new_stock(place)
    for name in ("good", "hole", "dropped", "unlisted"):
        stock.create(name, batches=2)
    stock.declare("plan")
    min(stock.directory("hole").glob("data/*")).unlink()
    drop_table(stock.catalog, "dropped")
    unlisted = stock.directory("unlisted").name
    deregister_table(stock.catalog, "unlisted")
    (stock.root / "foreign").mkdir()
    (stock.root / "foreign" / "notes.txt").write_text("mine", encoding="utf-8")
    expected = {"good": "done", "hole": "failed", "plan": "skipped"}
    strangers = {"foreign"}
    if place != "v1":
        stock.create("lost")
        lost = stock.directory("lost")
        lost.rename(stock.root.parent / "moved")
        expected["lost"] = "failed"
        # Without directory listing, a table without a row is not a table of the catalog.
        strangers.add(unlisted)
    rows = verify(stock.lake(spark), deep=True)
    found = {row["table"]: row for row in rows if row["table"] is not None}
    assert {name: row["status"] for name, row in found.items()} == expected
    assert {row["location"] for row in rows if row["table"] is None} == strangers
    assert (found["good"]["rows_read"], found["good"]["findings"]) == (20, None)
    assert (found["hole"]["code"], found["hole"]["missing_files"]) == (19, 1)
    assert "rows cannot be read" in found["hole"]["findings"][1]
    if "lost" in expected:
        assert "directory" in found["lost"]["message"]
    assert {row["table"] for row in verify(stock.lake(spark), "good")} == {"good"}


def test_verify_removes_only_old_orphans(spark, stock, age):
    where = stock.create("t")
    before = files(where)
    for name in ("old", "new"):
        (where / "data" / f"{name}.lance").write_bytes(b"x")
    age(where / "data" / "old.lance")
    lake = stock.lake(spark)
    with fails(13, "running writer"):
        verify(lake, remove_orphans=True, orphan_age="1h")
    planned = by_table(verify(lake, remove_orphans=True, dry_run=True))["t"]
    assert (planned["status"], planned["orphans"], planned["orphans_removed"]) == ("planned", 1, 0)
    done = by_table(verify(lake, remove_orphans=True))["t"]
    assert (done["orphans_removed"], done["recent_files"]) == (1, 1)
    assert files(where) == before | {"data/new.lance"}


@pytest.mark.parametrize("place", ["compatibility", "managed"])
def test_cleanup_removes_old_versions_and_keeps_tagged_ones(spark, new_stock, place):
    stock = new_stock(place)
    where = stock.create("t", batches=5)
    stock.open("t").tags.create("kept", 2)
    stock.create("u")
    stock.declare("plan")
    lake = stock.lake(spark)
    planned = by_table(cleanup(lake, older_than="0", dry_run=True))
    assert (planned["t"]["status"], planned["t"]["versions_removed"], planned["t"]["versions_left"]) == (
        "planned",
        3,
        2,
    )
    assert len(list(where.glob("_versions/*.manifest"))) == 5
    done = by_table(cleanup(lake, older_than=timedelta(0)))
    assert {name: row["status"] for name, row in done.items()} == {"t": "done", "u": "skipped", "plan": "skipped"}
    assert (done["t"]["versions_removed"], done["t"]["versions_left"]) == (3, 2)
    assert done["t"]["rows_removed"] == (3 if place == "managed" else 0)
    assert [row["version"] for row in lake.versions("t").collect()] == [5, 2]
    assert stock.keys("t") == list(range(50))
    assert lance.dataset(str(where), version="kept").count_rows() == 20
    figures = by_table(verify(lake))["t"]
    assert figures["rows_without_file"] == (0 if place == "managed" else None)
    assert by_table(cleanup(lake, "t", retain_versions=1, older_than="1d"))["t"]["status"] == "skipped"
    for wrong in ({"older_than": timedelta(-1)}, {"retain_versions": 0}, {"older_than": "old"}):
        with fails(13):
            cleanup(lake, **wrong)


@pytest.mark.parametrize("place", ["v1", "compatibility", "managed"])
def test_purge_deletes_tables_whose_retention_has_expired(spark, new_stock, place):
    stock = new_stock(place)
    nested = place != "v1"
    if nested:
        stock.namespace("n")
        stock.create("n", "over")
        drop_table(stock.catalog, "n", "over", ttl="0")
    for name, context in (("over", {"ttl": "0"}), ("kept", {}), ("live", None)):
        stock.create(name)
        if context is not None:
            drop_table(stock.catalog, name, **context)
    over = {"over", "n.over"} if nested else {"over"}
    lake = stock.lake(spark)
    planned = by_table(purge(lake, dry_run=True))
    assert {name: row["status"] for name, row in planned.items()} == dict.fromkeys(over, "planned")
    assert planned["over"]["bytes_removed"] > 0
    assert by_table(purge(lake, "nothing.*")) == {}
    done = by_table(purge(lake))
    assert {name: row["status"] for name, row in done.items()} == dict.fromkeys(over, "done")
    assert done["over"]["files_removed"] > 0
    assert not (stock.root / "over.lance").exists()
    assert by_table(purge(lake)) == {}
    past = datetime.now(timezone.utc) - timedelta(days=1)
    assert by_table(purge(lake, "kept", force=True, deleted_before=past)) == {}
    assert by_table(purge(lake, "kept", force=True))["kept"]["status"] == "done"
    assert stock.catalog.list_dropped_tables()[0] == []
    assert stock.keys("live") == list(range(10))


def test_purge_skips_protected_tables(spark, stock):
    for name in ("a", "b"):
        stock.create(name)
        stock.catalog.set_table_protection([name], name == "a")
        drop_table(stock.catalog, name, ttl="0", force="true")
    found = by_table(purge(stock.lake(spark)))
    assert {name: (row["status"], row["code"]) for name, row in found.items()} == {
        "a": ("skipped", 19),
        "b": ("done", None),
    }


@pytest.mark.parametrize("mode", ["v2", "compatibility"])
def test_migrate_registers_readable_tables_in_one_commit(spark, new_stock, mode):
    old = new_stock("v1")
    for name in ("a", "b", "torn", "gone"):
        old.create(name)
    old.declare("plan")
    (old.directory("torn") / "_versions/18446744073709551614.manifest").write_bytes(b"x")
    drop_table(old.catalog, "gone")
    (old.root / "empty.lance").mkdir()
    lake = attach(spark, root=str(old.root), **MODES[mode])
    planned = by_table(migrate(lake, dry_run=True))
    statuses = {
        "a": "planned",
        "b": "planned",
        "plan": "planned",
        "torn": "failed",
        "gone": "skipped",
        "empty": "skipped",
    }
    assert {name: row["status"] for name, row in planned.items()} == statuses
    assert not (old.root / "__manifest").exists()
    done = by_table(migrate(lake, "[ap]*"))
    assert {name: row["status"] for name, row in done.items()} == {"a": "done", "plan": "done"}
    assert (done["a"]["rows"], done["a"]["columns"], done["a"]["location"]) == (10, 2, "a.lance")
    rest = by_table(migrate(lake))
    assert {name: row["status"] for name, row in rest.items()} == {
        "a": "skipped",
        "plan": "skipped",
        "b": "done",
        "torn": "failed",
        "gone": "skipped",
        "empty": "skipped",
    }
    strict = attach(spark, root=str(old.root), **MODES["v2"])
    assert list_all_tables(strict.catalog) == ["a", "b", "plan"]
    with fails(0):
        migrate(attach(spark, root=str(old.root), **MODES["v1"]))
