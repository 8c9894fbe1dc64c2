"""A purge deletes a directory only after the proof that it is a dropped table. Others are kept and reported."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import unquote

import lance
import pyarrow as pa
import pytest
from lance_namespace.errors import LanceNamespaceError

from pennon.directory import purge_proof
from tests.hostile.planted import (
    contents,
    manifest_rows,
    plant_file,
    plant_marker,
    plant_row,
    plant_table,
    plant_trash_row,
    values_at,
)
from tests.support import (
    Root,
    create_namespace,
    create_table,
    declare_table,
    drop_table,
    fails,
    ipc,
    list_tables,
    register_table,
    remove_table,
    rename_table,
)

PURGING = b'{"state": "purging", "deletion_id": "d1", "deleted_at_ms": 1700000000000, "ttl_ms": 0, "nonce": "n"}'
REVIVING = (
    b'{"state": "reviving", "what": "create", "nonce": "n", "owner": "somebody", "padding": "' + b"x" * 64 + b'"}'
)


@pytest.fixture(params=["v2", "compatibility"])
def ns(request, somewhere, open_namespace):
    """Open a root with a table that has to stay."""
    ns = open_namespace(somewhere, request.param)
    create_namespace(ns, "a")
    create_table(ns, "a", "mine", data=ipc({"x": [7]}))
    return ns


def is_kept(ns, root, location, reason="", **content):
    """Purge a planted row, also by force: its directory stays as it is, and the row can still be restored."""
    deletion_id = plant_trash_row(root, location, "victim", **content)
    before = contents(root, location)
    assert before
    (refused,) = ns.purge_tables().failed
    assert (refused.id, refused.code) == (["victim"], 19)
    assert reason in refused.error
    assert contents(root, location) == before
    with fails(19, naming=reason):
        ns.purge_table(["victim"], force=True)
    assert contents(root, location) == before
    row = manifest_rows(root)[f"__trash${deletion_id}"]
    assert f'"state":"{content.get("state", "dropped")}"' in row["metadata"].replace(" ", "")
    assert list_tables(ns, "a") == ["mine"]


def test_a_live_root_table_without_a_row_is_kept(ns, somewhere):
    plant_table(somewhere, "live.lance", [1, 2])
    is_kept(ns, somewhere, "live.lance", "root table 'live'")
    assert values_at(somewhere, "live.lance") == [1, 2]


def test_root_table_dropped_by_its_marker_keeps_its_retention(somewhere, open_namespace):
    ns = open_namespace(somewhere, "compatibility")
    create_namespace(ns, "a")
    create_table(ns, "a", "mine")
    create_table(ns, "t", data=ipc({"x": [1]}))
    drop_table(ns, "t", ttl="7d")
    is_kept(ns, somewhere, "t.lance", "root table 't'")
    ns.undrop_table(["t"])
    assert values_at(somewhere, "t.lance") == [1]


def test_plain_files_are_kept(ns, somewhere):
    plant_file(somewhere, "raw/one.csv", b"1")
    plant_file(somewhere, "raw/data/two.csv", b"2")
    is_kept(ns, somewhere, "raw", "no file of a Lance table")


def test_plain_files_below_a_generated_name_are_kept(ns, somewhere):
    plant_file(somewhere, "0badcafe_raw/one.csv", b"1")
    is_kept(ns, somewhere, "0badcafe_raw", "no file of a Lance table")


@pytest.mark.parametrize("state", ["dropped", "purging"])
def test_plain_files_are_kept_even_if_a_row_says_purge_has_started(ns, somewhere, state):
    plant_file(somewhere, "raw/data/two.csv", b"2")
    is_kept(ns, somewhere, "raw", state=state)


@pytest.mark.parametrize("decoy", ["_versions/1.manifest", ".lance-reserved"])
@pytest.mark.parametrize("state", ["dropped", "purging"])
def test_plain_files_in_a_directory_named_data_are_kept(ns, somewhere, decoy, state):
    """An added file does not turn a directory of foreign files into a table."""
    plant_file(somewhere, "raw/data/two.csv", b"2")
    plant_file(somewhere, f"raw/{decoy}", b"x")
    is_kept(ns, somewhere, "raw", "two.csv", state=state)


AMONG_THE_DATA = ("data/deep/er/__manifest/data/x", "data/other.lance/_versions/1.manifest")


@pytest.mark.parametrize("inner", AMONG_THE_DATA)
def test_a_registered_table_with_something_live_among_its_data_is_kept(ns, somewhere, inner):
    plant_table(somewhere, "imports/t", [1])
    plant_file(somewhere, f"imports/t/{inner}", b"x")
    is_kept(ns, somewhere, "imports/t")


@pytest.mark.parametrize("inner", AMONG_THE_DATA)
def test_a_table_on_a_disk_with_something_live_among_its_data_is_kept(tmp_path, open_namespace, inner):
    """In a bucket, a look at the data of each table would cost requests."""
    root = Root(str(tmp_path / "root"))
    ns = open_namespace(root, "v2")
    create_namespace(ns, "a")
    create_table(ns, "a", "mine", data=ipc({"x": [7]}))
    plant_table(root, "0badcafe_t", [1])
    plant_file(root, f"0badcafe_t/{inner}", b"x")
    is_kept(ns, root, "0badcafe_t")


@pytest.mark.parametrize("place", ["0badcafe_t", "imports/t"])
def test_a_table_with_what_a_killed_writer_left_is_purged(ns, somewhere, place):
    plant_table(somewhere, place, [1])
    for name in ("data/0101.lance#1", "data/0101/7.blob", "data/0110/7.blob", "data/0110.lance"):
        plant_file(somewhere, f"{place}/{name}", b"x")
    plant_trash_row(somewhere, place)
    assert [(table.id, table.error) for table in ns.purge_tables().tables] == [(["victim"], None)]
    assert contents(somewhere, place) == {}


@pytest.mark.parametrize("below", ["", "/inner"], ids=["itself", "a table of it"])
@pytest.mark.parametrize("mode", ["v2", "compatibility"])
def test_a_nested_catalog_is_kept(ns, somewhere, open_namespace, below, mode):
    inner = open_namespace(Root(f"{somewhere.uri}/nested", somewhere.options), mode)
    made = create_table(inner, "t", data=ipc({"x": [5]}))
    location = "nested" + (f"/{made.location.rpartition('/')[2]}" if below else "")
    is_kept(ns, somewhere, location, "catalog")
    assert lance.dataset(made.location, storage_options=somewhere.options or None).count_rows() == 1


def test_a_branch_of_a_table_without_a_row_is_kept(ns, somewhere):
    plant_table(somewhere, "outer", [1])
    outer = lance.dataset(f"{somewhere.uri}/outer", storage_options=somewhere.options or None)
    outer.create_branch("side")
    is_kept(ns, somewhere, "outer/tree/side", "table at 'outer'")


@pytest.mark.parametrize("place", ["0badcafe_t", "imports/t"])
@pytest.mark.parametrize("inner", ["deep/er/__manifest/data/x", "other/_versions/1.manifest"])
def test_a_table_with_something_live_below_is_kept(ns, somewhere, place, inner):
    plant_table(somewhere, place, [1])
    plant_file(somewhere, f"{place}/{inner}", b"x")
    is_kept(ns, somewhere, place)


def test_a_registered_table_with_files_beside_it_is_kept_until_they_are_moved(ns, somewhere):
    plant_table(somewhere, "imports/t", [1])
    plant_file(somewhere, "imports/t/README.md", b"x")
    register_table(ns, "a", "t", location="imports/t")
    with fails(19, naming="README.md"):
        remove_table(ns, "a", "t")
    assert list_tables(ns, "a") == ["mine", "t"]
    drop_table(ns, "a", "t", ttl="0")
    (refused,) = ns.purge_tables().failed
    assert "README.md" in refused.error
    ns.undrop_table(["a", "t"])
    assert values_at(somewhere, "imports/t") == [1]


@pytest.mark.parametrize("place", ["imports/t", "t", "imports/t.lance", "imports/2024/t"])
def test_a_registered_table_is_purged(ns, somewhere, place):
    plant_table(somewhere, place, [1])
    dataset = lance.dataset(f"{somewhere.uri}/{place}", storage_options=somewhere.options or None)
    dataset.delete("x = 1")
    dataset.insert(pa.table({"x": range(300)}))
    dataset.create_scalar_index("x", "BTREE")
    dataset.tags.create("one", 1)
    dataset.create_branch("side")
    plant_file(somewhere, "imports/neighbour.csv", b"x")
    register_table(ns, "a", "t", location=place)
    drop_table(ns, "a", "t", ttl="0")
    (purged,) = ns.purge_tables().tables
    assert purged.error is None
    assert contents(somewhere, f"{place}/") == {}
    assert contents(somewhere, "imports/neighbour.csv") or contents(somewhere, "imports")


def test_a_table_of_its_own_and_a_declared_one_are_purged(ns, somewhere):
    made = create_table(ns, "a", "t")
    declared = declare_table(ns, "a", "empty")
    places = [unquote(one.location).rpartition("/")[2] for one in (made, declared)]
    plant_file(somewhere, f"{places[0]}/notes.txt", b"x")
    for name in ("t", "empty"):
        drop_table(ns, "a", name, ttl="0")
    assert ns.purge_tables().failed == []
    assert [contents(somewhere, place) for place in places] == [{}, {}]


def test_a_renamed_root_table_is_purged(somewhere, open_namespace):
    ns = open_namespace(somewhere, "compatibility")
    create_table(ns, "old")
    rename_table(ns, "old", to="new")
    drop_table(ns, "new", ttl="0")
    assert ns.purge_tables().failed == []
    assert contents(somewhere, "old.lance") == {}


def test_interrupted_purge_is_continued(ns, somewhere):
    """In a bucket the versions are deleted first: the remaining files show that it was a table."""
    for place in ("0badcafe_t", "imports/t"):
        plant_file(somewhere, f"{place}/data/{'0' * 24}.lance", b"x")
        plant_file(somewhere, f"{place}/_transactions/1-x.txn", b"x")
        plant_trash_row(somewhere, place, state="purging")
    report = ns.purge_tables()
    assert report.failed == []
    assert len(report.tables) == 2
    assert contents(somewhere, "0badcafe_t") == contents(somewhere, "imports/t") == {}


@pytest.fixture(params=["v1", "compatibility"])
def listing(request, somewhere, open_namespace):
    return open_namespace(somewhere, request.param)


def test_plain_files_under_a_marker_are_kept(listing, somewhere):
    plant_file(somewhere, "raw.lance/one.csv", b"1")
    drop_table(listing, "raw", ttl="0")
    before = contents(somewhere)
    (refused,) = listing.purge_tables().failed
    assert (refused.code, "no file of a Lance table" in refused.error) == (19, True)
    assert contents(somewhere) == before
    with fails(19):
        listing.purge_table(["raw"], force=True)
    assert contents(somewhere) == before


@pytest.mark.parametrize("body", [PURGING, REVIVING], ids=["purging", "reviving"])
def test_foreign_files_survive_settling_a_dead_claim(listing, somewhere, body):
    plant_file(somewhere, "raw.lance/one.csv", b"1")
    plant_file(somewhere, "raw.lance/sub/__manifest/x", b"2")
    before = contents(somewhere, "raw.lance")
    plant_marker(somewhere, "raw", body)
    for act in (
        lambda: create_table(listing, "raw"),
        lambda: drop_table(listing, "raw", purge="true"),
        lambda: listing.purge_table(["raw"], force=True),
        lambda: listing.undrop_table(["raw"]),
    ):
        with suppress(LanceNamespaceError):
            act()
    listing.purge_tables()
    after = contents(somewhere, "raw.lance")
    assert {path: after.get(path) for path in before} == before


def test_a_trash_row_at_the_place_of_a_live_table_with_a_row_deletes_nothing(ns, somewhere):
    mine = next(row["location"] for row in manifest_rows(somewhere).values() if row["object_id"] == "a$mine")
    plant_trash_row(somewhere, mine)
    plant_trash_row(somewhere, f"{mine}/data", "other")
    before = contents(somewhere, mine)
    ns.purge_tables()
    assert contents(somewhere, mine) == before
    assert list_tables(ns, "a") == ["mine"]


def test_drop_with_purge_of_a_row_that_names_plain_files_deletes_nothing(ns, somewhere):
    plant_file(somewhere, "raw/one.csv", b"1")
    plant_row(somewhere, "a$raw", "table", "raw")
    with fails(19, naming="raw"):
        remove_table(ns, "a", "raw")
    assert list_tables(ns, "a") == ["mine", "raw"]
    assert contents(somewhere, "raw")


@pytest.mark.parametrize("mode", ["v1", "compatibility", "v2"])
def test_dropping_a_table_while_another_client_purges_it_raises_not_found(mode, somewhere, open_namespace, monkeypatch):
    one, another = (open_namespace(somewhere, mode) for _ in range(2))
    create_table(one, "t", data=ipc({"x": [1]}))
    list_tables(another)

    def purge_after_listing(*_listed):
        monkeypatch.undo()
        remove_table(one, "t")

    monkeypatch.setattr(purge_proof, "_require_no_catalog", purge_after_listing)
    with fails(4, naming="t"):
        remove_table(another, "t")
    assert list_tables(another) == []
