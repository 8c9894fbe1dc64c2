"""Checking one table: faults and unused files. The check is what a task does, so no Spark is needed."""

from __future__ import annotations

from datetime import timedelta

import lance
import pyarrow as pa
import pytest
from lance import LanceOperation
from lance.blob import blob_array, blob_field
from lance.fragment import write_fragments

from pennon.spark.jobs.job_run import TableTask
from pennon.spark.jobs.outcome import DONE, FAILED, SKIPPED, TableOutcome
from pennon.spark.jobs.verify import VerifyOptions, add_findings, check_table
from tests.spark.jobs.stock import files

WEEK = 7 * 24 * 3600


def check(stock, *names: str, remove: bool = False):
    return check_table(stock.address, TableTask(names, VerifyOptions(WEEK, remove, deep=False))).outcome


def check_fails(stock, *names: str) -> list[str]:
    """Return the findings of a check that must fail."""
    outcome = check(stock, *names)
    assert (outcome.status, outcome.code) == (FAILED, 19)
    assert outcome.details["findings"][0] == outcome.message
    return outcome.details["findings"]


@pytest.mark.parametrize("place", ["v1", "v2", "compatibility", "managed", "v2-managed"])
def test_intact_table_with_branches_indexes_and_deletions_passes(new_stock, place):
    stock = new_stock(place)
    stock.create("t", batches=3)
    table = stock.open("t")
    table.create_scalar_index("k", "BTREE")
    table.delete("k = 3")
    table.tags.create("kept", 2)
    branch = table.create_branch("side/one")
    lance.write_dataset(pa.table({"k": [99], "s": ["x"]}), branch, mode="append")
    table = stock.open("t")
    table.optimize.compact_files()
    table.create_scalar_index("s", "INVERTED")
    outcome = check(stock, "t")
    assert (outcome.status, outcome.message) == (DONE, None)
    details = outcome.details
    assert details["versions"] == stock.open("t").version + 2
    assert details["files"] == len(files(stock.directory("t")))
    assert (details["orphans"], details["recent_files"], details["strange_files"]) == (0, 0, 0)
    if "managed" in place:
        assert (details["rows_without_file"], details["files_without_row"]) == (0, 0)


def test_missing_data_file_is_found(stock):
    where = stock.create("t", batches=2)
    gone = min(where.glob("data/*.lance"))
    gone.unlink()
    assert check_fails(stock, "t") == [f"data/{gone.name} is missing"]


def test_missing_file_of_an_old_version_is_found(stock):
    where = stock.create("t", batches=1)
    (old,) = where.glob("data/*.lance")
    lance.write_dataset(pa.table({"k": [1]}), str(where), mode="overwrite")
    old.unlink()
    assert check_fails(stock, "t") == [f"data/{old.name} is missing"]
    assert check(stock, "t").details["missing_files"] == 1


def test_missing_deletion_and_index_files_are_found(stock):
    where = stock.create("t")
    table = stock.open("t")
    table.create_scalar_index("k", "BTREE")
    table.delete("k = 3")
    deletion = next(where.glob("_deletions/*"))
    deletion.unlink()
    index = next(where.glob("_indices/*"))
    next(index.glob("page_data.lance")).unlink()
    found = check_fails(stock, "t")
    assert f"_deletions/{deletion.name} is missing" in found
    assert any(f"_indices/{index.name} has" in one for one in found)
    for left in index.iterdir():
        left.unlink()
    assert f"_indices/{index.name} is missing" in check_fails(stock, "t")


def test_missing_transaction_files_are_no_fault(stock):
    where = stock.create("t", batches=2)
    for transaction in where.glob("_transactions/*"):
        transaction.unlink()
    assert check(stock, "t").status == DONE


def test_truncated_data_file_is_found(stock):
    where = stock.create("t")
    (data,) = where.glob("data/*.lance")
    body = data.read_bytes()
    data.write_bytes(body[:-10])
    assert check_fails(stock, "t") == [f"data/{data.name} has {len(body) - 10} bytes instead of {len(body)}"]


@pytest.mark.parametrize("left", [0, 5, 200])
def test_truncated_old_manifest_is_found_and_keeps_orphans(stock, age, left):
    where = stock.create("t", batches=3)
    write_fragments(pa.table({"k": [1], "s": ["x"]}), str(where), mode="append")
    age(*where.glob("data/*"))
    manifest = where / "_versions/18446744073709551613.manifest"
    manifest.write_bytes(manifest.read_bytes()[:left])
    outcome = check(stock, "t", remove=True)
    assert (outcome.status, outcome.details["unreadable_versions"]) == (FAILED, 1)
    assert "version 2 cannot be opened" in outcome.message
    assert outcome.details["orphans_removed"] == 0
    assert len(list(where.glob("data/*"))) == 4


def test_truncated_latest_manifest_is_found(stock):
    where = stock.create("t", batches=3)
    manifest = where / "_versions/18446744073709551612.manifest"
    manifest.write_bytes(manifest.read_bytes()[:50])
    found = check_fails(stock, "t")
    assert "the latest version cannot be opened" in found[0]
    assert any(one.startswith("version 3 cannot be opened") for one in found)


def test_table_without_a_readable_version_is_found(stock):
    where = stock.create("t")
    (where / "_versions/18446744073709551614.manifest").write_bytes(b"")
    assert check_fails(stock, "t")[-1] == "no version of the table can be opened"


def test_declared_table_is_skipped(stock):
    stock.declare("t")
    outcome = check(stock, "t")
    assert (outcome.status, outcome.code) == (SKIPPED, None)


def test_old_orphans_are_counted_and_removed_only_on_request(stock, age):
    where = stock.create("t", batches=2)
    before = files(where)
    write_fragments(pa.table({"k": [1], "s": ["x"]}), str(where), mode="append")
    (where / "_transactions/9-abc.txn").write_bytes(b"x")
    (where / "_versions/18446744073709551000.manifest-1234").write_bytes(b"x")
    (where / "_pennon/run").mkdir(parents=True)
    (where / "_pennon/run/data!gone.lance").write_bytes(b"1")
    (where / "data/notes.txt").write_bytes(b"mine")
    unused = files(where) - before - {"data/notes.txt"}
    assert check(stock, "t", remove=True).details["recent_files"] == 4
    assert files(where) >= unused
    age(*(where / path for path in unused), where / "data/notes.txt")
    outcome = check(stock, "t")
    assert (outcome.status, outcome.details["orphans"], outcome.details["strange_files"]) == (DONE, 4, 1)
    assert outcome.details["orphan_bytes"] == sum((where / path).stat().st_size for path in unused)
    assert files(where) >= unused
    assert check(stock, "t", remove=True).details["orphans_removed"] == 4
    assert files(where) == before | {"data/notes.txt"}
    assert stock.keys("t") == list(range(20))


def test_old_files_in_use_survive_the_removal_of_orphans(stock, age):
    """Old versions, branches, deletions, indexes, deferred remaps and blobs stay."""
    where = stock.create("t", batches=3)
    table = stock.open("t")
    table.create_scalar_index("k", "BTREE")
    table.delete("k = 3")
    branch = table.create_branch("side")
    lance.write_dataset(pa.table({"k": [99], "s": ["x"]}), branch, mode="append")
    lance.dataset(str(where)).checkout_version(("side", None)).delete("k = 4")
    table = stock.open("t")
    table.optimize.compact_files(defer_index_remap=True)
    table.cleanup_old_versions(older_than=timedelta(0))
    blobs = stock.create("blobs")
    schema = pa.schema([pa.field("k", pa.int64()), blob_field("b")])
    large = blob_array([b"x", b"y" * 100_000, b"z" * 5_000_000])
    data = pa.table([pa.array([1, 2, 3]), large], schema=schema)
    lance.write_dataset(data, str(blobs), mode="overwrite", data_storage_version="2.2")
    assert list(blobs.glob("data/*/*.blob"))
    for directory, name in ((where, "t"), (blobs, "blobs")):
        age(*(path for path in directory.rglob("*") if path.is_file()))
        before = files(directory)
        outcome = check(stock, name, remove=True)
        assert (outcome.status, outcome.details["orphans"]) == (DONE, 0), outcome
        assert files(directory) == before
    side = lance.dataset(str(where)).checkout_version(("side", None))
    assert 99 in side.to_table()["k"].to_pylist()


def test_recent_detached_version_keeps_its_files(stock, age):
    where = stock.create("t")
    before = files(where)
    written = write_fragments(pa.table({"k": [1], "s": ["x"]}), str(where), mode="append")
    detached = lance.LanceDataset.commit(str(where), LanceOperation.Append(written), read_version=1, detached=True)
    data = where / "data" / written[0].files[0].path
    age(data)
    check(stock, "t", remove=True)
    assert lance.dataset(str(where), version=detached.version).count_rows() == 11
    assert data.exists()
    manifest = next(where.glob("_versions/d*.manifest"))
    age(manifest, *where.glob("_transactions/*"))
    assert check(stock, "t", remove=True).details["orphans_removed"] == 3
    assert files(where) == before


def test_versions_without_row_and_rows_without_file_are_counted(new_stock):
    stock = new_stock("managed")
    where = stock.create("t", batches=4)
    lance.dataset(str(where)).cleanup_old_versions(retain_versions=2)
    outcome = check(stock, "t")
    assert (outcome.status, outcome.details["rows_without_file"]) == (DONE, 2)
    lance.write_dataset(pa.table({"k": [1], "s": ["x"]}), str(where), mode="append")
    assert check(stock, "t").details["files_without_row"] == 1


def test_version_file_that_differs_from_its_row_is_found(new_stock):
    stock = new_stock("managed")
    where = stock.create("t", batches=2)
    newest = where / "_versions/18446744073709551613.manifest"
    newest.write_bytes(newest.read_bytes() + b" ")
    assert any("its row records" in one for one in check_fails(stock, "t"))
    newest.unlink()
    assert any("the latest according to its row, has no file" in one for one in check_fails(stock, "t"))


def test_long_lists_of_findings_are_truncated():
    outcome = add_findings(TableOutcome("t", DONE), [str(number) for number in range(20)])
    assert outcome.details["findings"] == [str(number) for number in range(20)]
    longer = add_findings(outcome, ["20", "21"])
    assert (longer.status, longer.message) == (FAILED, "0")
    assert longer.details["findings"][-1] == "... and 2 more"
