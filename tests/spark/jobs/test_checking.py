"""A look at one table: what is wrong with it, and what lies about unused. No Spark: this is what a task does."""

from __future__ import annotations

from datetime import timedelta

import lance
import pyarrow as pa
import pytest
from lance import LanceOperation
from lance.blob import blob_array, blob_field
from lance.fragment import write_fragments

from pennon.spark.jobs.checking import Asked, looked_at
from pennon.spark.jobs.outcome import DONE, FAILED, SKIPPED
from pennon.spark.jobs.running import TableWork
from tests.spark.jobs.stock import files

WEEK = 7 * 24 * 3600


def look(stock, *names: str, remove: bool = False):
    return looked_at(stock.address, TableWork(names, Asked(WEEK, remove, deep=False))).outcome


def fault(stock, *names: str) -> list[str]:
    """Expect a fault, and give what was found."""
    outcome = look(stock, *names)
    assert (outcome.status, outcome.code) == (FAILED, 19)
    assert outcome.did["findings"][0] == outcome.message
    return outcome.did["findings"]


@pytest.mark.parametrize("place", ["v1", "v2", "compatibility", "managed", "v2-managed"])
def test_a_table_with_everything_in_it_is_fine(new_stock, place):
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
    outcome = look(stock, "t")
    assert (outcome.status, outcome.message) == (DONE, None)
    did = outcome.did
    assert did["versions"] == stock.open("t").version + 2
    assert did["files"] == len(files(stock.directory("t")))
    assert (did["orphans"], did["recent_files"], did["strange_files"]) == (0, 0, 0)
    if "managed" in place:
        assert (did["rows_without_file"], did["files_without_row"]) == (0, 0)


def test_a_missing_data_file_is_found(stock):
    where = stock.create("t", batches=2)
    gone = min(where.glob("data/*.lance"))
    gone.unlink()
    assert fault(stock, "t") == [f"data/{gone.name} is missing"]


def test_a_file_that_only_an_old_version_needs_counts_too(stock):
    where = stock.create("t", batches=1)
    (old,) = where.glob("data/*.lance")
    lance.write_dataset(pa.table({"k": [1]}), str(where), mode="overwrite")
    old.unlink()
    assert fault(stock, "t") == [f"data/{old.name} is missing"]
    assert look(stock, "t").did["missing_files"] == 1


def test_missing_deletion_and_index_files_are_found(stock):
    where = stock.create("t")
    table = stock.open("t")
    table.create_scalar_index("k", "BTREE")
    table.delete("k = 3")
    deletion = next(where.glob("_deletions/*"))
    deletion.unlink()
    index = next(where.glob("_indices/*"))
    next(index.glob("page_data.lance")).unlink()
    found = fault(stock, "t")
    assert f"_deletions/{deletion.name} is missing" in found
    assert any(f"_indices/{index.name} has" in one for one in found)
    for left in index.iterdir():
        left.unlink()
    assert f"_indices/{index.name} is missing" in fault(stock, "t")


def test_a_version_needs_no_file_of_its_transaction(stock):
    where = stock.create("t", batches=2)
    for transaction in where.glob("_transactions/*"):
        transaction.unlink()
    assert look(stock, "t").status == DONE


def test_a_truncated_data_file_is_found(stock):
    where = stock.create("t")
    (data,) = where.glob("data/*.lance")
    body = data.read_bytes()
    data.write_bytes(body[:-10])
    assert fault(stock, "t") == [f"data/{data.name} has {len(body) - 10} bytes instead of {len(body)}"]


@pytest.mark.parametrize("left", [0, 5, 200])
def test_a_truncated_manifest_of_an_old_version_is_found_and_orphans_are_not_removed(stock, age, left):
    where = stock.create("t", batches=3)
    write_fragments(pa.table({"k": [1], "s": ["x"]}), str(where), mode="append")
    age(*where.glob("data/*"))
    manifest = where / "_versions/18446744073709551613.manifest"
    manifest.write_bytes(manifest.read_bytes()[:left])
    outcome = look(stock, "t", remove=True)
    assert (outcome.status, outcome.did["unreadable_versions"]) == (FAILED, 1)
    assert "version 2 cannot be opened" in outcome.message
    assert outcome.did["orphans_removed"] == 0
    assert len(list(where.glob("data/*"))) == 4


def test_a_truncated_latest_manifest_is_found(stock):
    where = stock.create("t", batches=3)
    manifest = where / "_versions/18446744073709551612.manifest"
    manifest.write_bytes(manifest.read_bytes()[:50])
    found = fault(stock, "t")
    assert "the latest version cannot be opened" in found[0]
    assert any(one.startswith("version 3 cannot be opened") for one in found)


def test_a_table_of_which_nothing_opens_is_found(stock):
    where = stock.create("t")
    (where / "_versions/18446744073709551614.manifest").write_bytes(b"")
    assert fault(stock, "t")[-1] == "no version of the table can be opened"


def test_a_declared_table_is_skipped(stock):
    stock.declare("t")
    outcome = look(stock, "t")
    assert (outcome.status, outcome.code) == (SKIPPED, None)


def test_old_orphans_are_counted_and_removed_only_when_asked(stock, age):
    where = stock.create("t", batches=2)
    before = files(where)
    write_fragments(pa.table({"k": [1], "s": ["x"]}), str(where), mode="append")
    (where / "_transactions/9-abc.txn").write_bytes(b"x")
    (where / "_versions/18446744073709551000.manifest-1234").write_bytes(b"x")
    (where / "_pennon/run").mkdir(parents=True)
    (where / "_pennon/run/data!gone.lance").write_bytes(b"1")
    (where / "data/notes.txt").write_bytes(b"mine")
    unused = files(where) - before - {"data/notes.txt"}
    assert look(stock, "t", remove=True).did["recent_files"] == 4
    assert files(where) >= unused
    age(*(where / path for path in unused), where / "data/notes.txt")
    outcome = look(stock, "t")
    assert (outcome.status, outcome.did["orphans"], outcome.did["strange_files"]) == (DONE, 4, 1)
    assert outcome.did["orphan_bytes"] == sum((where / path).stat().st_size for path in unused)
    assert files(where) >= unused
    assert look(stock, "t", remove=True).did["orphans_removed"] == 4
    assert files(where) == before | {"data/notes.txt"}
    assert stock.keys("t") == list(range(20))


def test_everything_that_is_old_and_in_use_survives_a_removal(stock, age):
    """Old versions, branches, deletions, indexes, deferred remaps and large values: a removal takes none of it."""
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
        outcome = look(stock, name, remove=True)
        assert (outcome.status, outcome.did["orphans"]) == (DONE, 0), outcome
        assert files(directory) == before
    side = lance.dataset(str(where)).checkout_version(("side", None))
    assert 99 in side.to_table()["k"].to_pylist()


def test_a_detached_version_keeps_its_files_while_it_is_recent(stock, age):
    where = stock.create("t")
    before = files(where)
    written = write_fragments(pa.table({"k": [1], "s": ["x"]}), str(where), mode="append")
    detached = lance.LanceDataset.commit(str(where), LanceOperation.Append(written), read_version=1, detached=True)
    data = where / "data" / written[0].files[0].path
    age(data)
    look(stock, "t", remove=True)
    assert lance.dataset(str(where), version=detached.version).count_rows() == 11
    assert data.exists()
    manifest = next(where.glob("_versions/d*.manifest"))
    age(manifest, *where.glob("_transactions/*"))
    assert look(stock, "t", remove=True).did["orphans_removed"] == 3
    assert files(where) == before


def test_versions_past_the_catalog_and_cleaned_ones_are_told_apart(new_stock):
    stock = new_stock("managed")
    where = stock.create("t", batches=4)
    lance.dataset(str(where)).cleanup_old_versions(retain_versions=2)
    outcome = look(stock, "t")
    assert (outcome.status, outcome.did["rows_without_file"]) == (DONE, 2)
    lance.write_dataset(pa.table({"k": [1], "s": ["x"]}), str(where), mode="append")
    assert look(stock, "t").did["files_without_row"] == 1


def test_a_managed_version_whose_file_is_not_what_its_row_says_is_found(new_stock):
    stock = new_stock("managed")
    where = stock.create("t", batches=2)
    newest = where / "_versions/18446744073709551613.manifest"
    newest.write_bytes(newest.read_bytes() + b" ")
    assert any("its row says" in one for one in fault(stock, "t"))
    newest.unlink()
    assert any("the latest by its row, has no file" in one for one in fault(stock, "t"))
