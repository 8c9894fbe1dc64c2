"""Tables on REST catalogs, of both kinds."""

from __future__ import annotations

import pickle

import lance
import pyarrow as pa
import pytest
from lance_namespace import CountTableRowsRequest

from tests.iceberg.irc_servers import ALL, is_there, not_on_ours, only_on_apache
from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_table,
    drop_table,
    fails,
    ipc,
    list_all_tables,
    list_tables,
    register_table,
    remove_table,
    rename_table,
    table_exists,
)

SERVERS = ALL


def rows(catalog, *names: str) -> int:
    return catalog.count_table_rows(CountTableRowsRequest(id=list(names))).count


def test_a_table_is_created_described_and_read(catalog, space, managed_by):
    made = create_table(catalog, space, "t", properties={"k": "v"})
    assert made.version == 1
    described = describe_table(catalog, space, "t", load_detailed_metadata=True)
    assert (described.version, described.location, described.properties["k"]) == (1, made.location, "v")
    assert [field.name for field in described.var_schema.fields] == ["x"]
    assert described.properties["managed_by"] == managed_by
    assert described.managed_versioning is (True if managed_by == "impl" else None)
    assert rows(catalog, space, "t") == 3
    assert list_tables(catalog, space) == ["t"]
    table_exists(catalog, space, "t")


def test_modes_of_creation(catalog, space):
    create_table(catalog, space, "t")
    with fails(5, f"{space}.t"):
        create_table(catalog, space, "t")
    assert create_table(catalog, space, "t", mode="exist_ok").version is None
    assert create_table(catalog, space, "t", data=ipc({"y": ["a"]}), mode="overwrite").version == 2
    assert rows(catalog, space, "t") == 1
    assert describe_table(catalog, space, "t", load_detailed_metadata=True).version == 2


def test_garbage_creates_nothing(catalog, space):
    with fails(13):
        create_table(catalog, space, "t", data=b"garbage")
    with fails(13):
        create_table(catalog, space, "t", properties={"table_type": "iceberg"})
    with fails(13):
        create_table(catalog, space, "t", properties={"managed_by": "nobody"})
    with fails(13):
        create_table(catalog, "at_the_root")
    assert list_tables(catalog, space) == []


def test_missing_tables_raise_not_found(catalog, space):
    for ask in (describe_table, table_exists, drop_table, deregister_table):
        with fails(4, f"{space}.none"):
            ask(catalog, space, "none")
        with fails(1, f"{space}.no"):
            ask(catalog, space, "no", "t")
    with fails(4):
        describe_table(catalog, "root_table")
    with fails(1):
        create_table(catalog, space, "no", "t")
    with fails(1):
        declare_table(catalog, space, "no", "t")
    with fails(4):
        rename_table(catalog, space, "none", to="x")


def test_a_declared_table_is_filled(catalog, space):
    declared = declare_table(catalog, space, "t", properties={"k": "v"})
    assert describe_table(catalog, space, "t", check_declared=True).is_only_declared
    assert list_tables(catalog, space) == ["t"]
    assert list_tables(catalog, space, include_declared=False) == []
    with fails(19):
        rows(catalog, space, "t")
    with fails(5):
        declare_table(catalog, space, "t")
    made = create_table(catalog, space, "t")
    assert (made.location, made.version) == (declared.location, 1)
    assert not describe_table(catalog, space, "t", check_declared=True).is_only_declared
    assert describe_table(catalog, space, "t").properties["k"] == "v"
    assert rows(catalog, space, "t") == 3


def test_lance_itself_creates_appends_and_reads(catalog, space):
    lance.write_dataset(pa.table({"x": [1]}), namespace_client=catalog, table_id=[space, "t"], mode="create")
    for number in (2, 3):
        data = pa.table({"x": [number]})
        lance.write_dataset(data, namespace_client=catalog, table_id=[space, "t"], mode="append")
    dataset = lance.dataset(namespace_client=catalog, table_id=[space, "t"])
    assert sorted(dataset.to_table()["x"].to_pylist()) == [1, 2, 3]
    assert dataset.version == 3
    older = lance.dataset(namespace_client=catalog, table_id=[space, "t"], version=1)
    assert older.count_rows() == 1


def test_versions_and_tags_are_described(catalog, space):
    create_table(catalog, space, "t")
    create_table(catalog, space, "t", mode="overwrite", data=ipc({"x": [1]}))
    dataset = catalog._open_table((space, "t"))
    dataset.tags.create("first", 1)
    assert describe_table(catalog, space, "t", version=1, load_detailed_metadata=True).version == 1
    assert describe_table(catalog, space, "t", tag="first", load_detailed_metadata=True).version == 1
    with fails(11):
        describe_table(catalog, space, "t", version=99)
    with fails(8):
        describe_table(catalog, space, "t", tag="none")
    with fails(22):
        describe_table(catalog, space, "t", branch="none")
    with fails(13):
        describe_table(catalog, space, "t", tag="first", version=1)


def test_rename_keeps_the_data_in_its_place(catalog, space):
    location = create_table(catalog, space, "t").location
    create_namespace(catalog, space, "b")
    rename_table(catalog, space, "t", to="u", into=[space, "b"])
    with fails(4):
        describe_table(catalog, space, "t")
    assert describe_table(catalog, space, "b", "u").location == location
    assert rows(catalog, space, "b", "u") == 3
    lance.write_dataset(pa.table({"x": [9]}), namespace_client=catalog, table_id=[space, "b", "u"], mode="append")
    create_table(catalog, space, "t")
    with fails(5, f"{space}.b.u"):
        rename_table(catalog, space, "t", to="u", into=[space, "b"])
    with fails(1):
        rename_table(catalog, space, "t", to="u", into=[space, "none"])


def test_deregister_keeps_the_data_and_register_brings_it_back(catalog, space):
    location = create_table(catalog, space, "t").location
    create_table(catalog, space, "t", mode="overwrite")
    assert deregister_table(catalog, space, "t").location == location
    assert list_tables(catalog, space) == []
    assert lance.dataset(location).count_rows() == 3
    register_table(catalog, space, "again", location=location)
    assert rows(catalog, space, "again") == 3
    assert describe_table(catalog, space, "again", load_detailed_metadata=True).version == 2
    lance.write_dataset(pa.table({"x": [9]}), namespace_client=catalog, table_id=[space, "again"], mode="append")
    assert rows(catalog, space, "again") == 4
    with fails(5):
        register_table(catalog, space, "again", location=location)
    register_table(catalog, space, "again", location=location, mode="overwrite")
    assert rows(catalog, space, "again") == 4


@pytest.mark.parametrize("location", ["", "..", "../x", "__iceberg", "__iceberg/x", "a/../..", "none", "s3://", "/"])
def test_bad_locations_are_refused(catalog, space, location):
    with fails(13):
        register_table(catalog, space, "t", location=location)
    assert list_tables(catalog, space) == []


@not_on_ours("our server keeps dropped tables itself")
def test_a_dropped_table_can_be_restored_until_it_is_purged(catalog, space):
    location = create_table(catalog, space, "t").location
    drop_table(catalog, space, "t")
    assert list_tables(catalog, space) == []
    assert is_there(catalog, location)
    create_table(catalog, space, "t", data=ipc({"y": [1]}))
    with fails(5):
        catalog.undrop_table([space, "t"])
    assert catalog.undrop_table([space, "t"], as_id=[space, "old"]).endswith(location)
    assert rows(catalog, space, "old") == 3
    drop_table(catalog, space, "old")
    with fails(19):
        catalog.purge_table([space, "old"])
    assert [one.error for one in catalog.purge_table([space, "old"], force=True).tables] == [None]
    assert not is_there(catalog, location)
    with fails(4):
        catalog.undrop_table([space, "old"])
    assert rows(catalog, space, "t") == 1


@not_on_ours("our server keeps dropped tables itself")
def test_purge_deletes_dropped_tables_after_their_retention(catalog, space):
    location = create_table(catalog, space, "t").location
    drop_table(catalog, space, "t", ttl="0")
    create_table(catalog, space, "kept")
    drop_table(catalog, space, "kept", ttl="1h")
    (first,), token = catalog.list_dropped_tables([space], limit=1)
    (second,), end = catalog.list_dropped_tables([space], token, 1)
    assert (first.id, second.id, end) == ([space, "t"], [space, "kept"], None)
    kept_for = [(one.purgeable_at - one.dropped_at).total_seconds() for one in (first, second)]
    assert kept_for == [0, 3600]
    assert catalog.list_dropped_tables() == ([], None)
    purged = [one.id for one in catalog.purge_tables().tables]
    assert [space, "t"] in purged
    assert [space, "kept"] not in purged
    assert not is_there(catalog, location)


@not_on_ours("our server keeps dropped tables itself")
def test_status_details_and_dry_runs_of_dropped_tables(catalog, space):
    assert catalog.table_status([space, "t"]).status == "NotFound"
    location = create_table(catalog, space, "t").location
    assert catalog.table_status([space, "t"]).status == "Exists"
    drop_table(catalog, space, "t", ttl="0")
    ((dropped,), _) = catalog.list_dropped_tables([space], detailed=True)
    assert (dropped.rows, dropped.bytes > 0) == (3, True)
    status = catalog.table_status([space, "t"])
    assert (status.status, status.deletion_id) == ("SoftDeleted", dropped.deletion_id)
    assert [space, "t"] in [one.id for one in catalog.list_purgable_tables()]
    (planned,) = catalog.purge_tables([[space, "t"]], dry_run=True).tables
    assert (planned.bytes, is_there(catalog, location)) == (dropped.bytes, True)
    reported = []
    (purged,) = catalog.purge_tables([[space, "t"]], progress=lambda *one: reported.append(one)).tables
    assert (purged.error, is_there(catalog, location)) == (None, False)
    assert reported == [(purged, 1, 1)]
    assert catalog.table_status([space, "t"]).status == "NotFound"


@not_on_ours("our server has one name for each place")
def test_dropping_one_of_two_names_keeps_the_data_of_the_other(catalog, space, client_root):
    location = f"{client_root}/shared"
    lance.write_dataset(pa.table({"x": [1]}), location)
    register_table(catalog, space, "a", location="shared")
    register_table(catalog, space, "b", location="shared")
    remove_table(catalog, space, "a")
    assert rows(catalog, space, "b") == 1
    remove_table(catalog, space, "b")
    assert not is_there(catalog, location)


@only_on_apache("other servers have no tables outside of their own places")
def test_data_outside_of_the_root_is_never_deleted(catalog, space, tmp_path):
    location = tmp_path / "elsewhere"
    lance.write_dataset(pa.table({"x": [1]}), str(location))
    register_table(catalog, space, "t", location=str(location))
    remove_table(catalog, space, "t")
    assert lance.dataset(str(location)).count_rows() == 1


def test_the_entry_is_what_the_specification_says(catalog, space, irc, managed_by):
    create_table(catalog, space, "t")
    metadata = irc.table(space, "t")
    assert metadata["location"] == describe_table(catalog, space, "t", with_table_uri=True).table_uri
    assert (metadata["properties"]["table_type"], metadata["properties"]["managed_by"]) == ("lance", managed_by)
    assert metadata["properties"]["gc.enabled"] == "false"
    assert not metadata["properties"]["write.metadata.path"].startswith(metadata["location"])
    # Our own server always shows the version; others know only of versions that they manage.
    assert metadata["current-snapshot-id"] == (1 if managed_by == "impl" or irc.root else -1)
    names = [one["name"] for one in metadata["schemas"][-1]["fields"]]
    assert names == ["x"]


def test_tables_at_any_depth_are_listed(catalog, space):
    create_namespace(catalog, space, "b")
    create_table(catalog, space, "b", "u")
    create_table(catalog, space, "t")
    mine = [one for one in list_all_tables(catalog) if one.startswith(space)]
    assert mine == [f"{space}$b$u", f"{space}$t"]


def test_without_a_root_the_server_chooses_the_place(connect, irc, space, managed_by):
    rootless = connect(irc.uri, root=None, managed_by=managed_by)
    made = create_table(rootless, space, "t")
    home = irc.bucket.uri() if irc.bucket else irc.root
    assert made.location.startswith(str(home)) if home else "warehouse" in made.location
    assert rows(rootless, space, "t") == 3
    lance.write_dataset(pa.table({"x": [9]}), namespace_client=rootless, table_id=[space, "t"], mode="append")
    assert rows(rootless, space, "t") == 4
    with fails(13):
        register_table(rootless, space, "u", location="relative")


def test_a_copy_by_pickle_works(catalog, space):
    create_table(catalog, space, "t")
    with pickle.loads(pickle.dumps(catalog)) as copy:
        assert rows(copy, space, "t") == 3
    with fails(13, "closed"):
        list_tables(copy, space)


def test_plain_dicts_are_requests(catalog, space):
    catalog.create_table({"id": [space, "t"]}, ipc({"x": [1]}))
    assert catalog.list_tables({"id": [space]}).tables == ["t"]


def test_a_page_looks_at_no_more_tables_than_it_needs(connect, catalog, irc, space, lossy):
    for number in range(6):
        declare_table(catalog, space, f"t{number}")
    through = connect(lossy.uri)
    assert list_tables(through, space, limit=2) == ["t0", "t1"]
    # Our own server has Lance tables only.
    assert sum("/tables/t" in one for one in lossy.seen) == (0 if irc.root else 3)
    lossy.seen.clear()
    trusting = connect(lossy.uri, **{"assume-lance-tables": "true"})
    assert list_tables(trusting, space) == [f"t{number}" for number in range(6)]
    assert sum("/tables/t" in one for one in lossy.seen) == 0
