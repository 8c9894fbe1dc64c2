"""Plain LanceDB, `lancedb.connect(root)`, knows no markers: it lists, reads and writes root tables that are dropped."""

from __future__ import annotations

import uuid

import lancedb
import pyarrow as pa
import pytest

from tests.servers import CountingS3
from tests.support import (
    Root,
    create_table,
    declare_table,
    describe_table,
    drop_table,
    fails,
    ipc,
    list_tables,
    table_exists,
)

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def s3():
    with CountingS3() as server:
        yield server


@pytest.fixture(params=["disk", pytest.param("bucket", marks=pytest.mark.s3)])
def place(request, tmp_path):
    """Return an empty root on a disk and in a bucket."""
    if request.param == "disk":
        return Root(str(tmp_path / "root"))
    endpoint = request.getfixturevalue("s3").endpoint
    return Root(endpoint.uri(f"plain-{uuid.uuid4().hex}"), endpoint.storage_options())


@pytest.fixture(params=["v1", "compatibility"])
def ns(request, place, open_namespace):
    ns = open_namespace(place, request.param)
    create_table(ns, "t", data=ipc({"x": [1]}))
    create_table(ns, "other", data=ipc({"x": [7]}))
    return ns


@pytest.fixture
def plain(place, ns):
    return lancedb.connect(place.uri, storage_options=place.options or None)


def count(ns, name, predicate="x > 0"):
    """Count rows by reading them."""
    return ns.count_table_rows({"id": [name], "predicate": predicate}).count


def test_dropped_table_is_visible_to_lancedb_and_appended_rows_are_restored(ns, plain):
    drop_table(ns, "t")
    assert plain.list_tables().tables == ["other", "t"]
    table = plain.open_table("t")
    assert table.to_arrow()["x"].to_pylist() == [1]
    table.add(pa.table({"x": [2]}))
    assert list_tables(ns) == ["other"]
    assert ns.list_dropped_tables(detailed=True)[0][0].rows == 2

    ns.undrop_table(["t"])
    assert count(ns, "t") == 2
    assert [one.version for one in ns.list_table_versions({"id": ["t"]}).versions] == [2, 1]
    ns.insert_into_table({"id": ["t"]}, ipc({"x": [3]}))
    assert plain.open_table("t").to_arrow()["x"].to_pylist() == [1, 2, 3]


def test_overwritten_dropped_table_is_restored_with_its_history(ns, plain):
    drop_table(ns, "t")
    plain.create_table("t", pa.table({"x": [5, 6]}), mode="overwrite")
    ns.undrop_table(["t"])
    assert count(ns, "t") == 2
    assert ns.count_table_rows({"id": ["t"], "version": 1}).count == 1
    ns.restore_table({"id": ["t"], "version": 1})
    assert count(ns, "t") == 1


def test_dropped_table_that_lancedb_deletes_frees_its_name(ns, plain):
    drop_table(ns, "t")
    plain.drop_table("t")
    with fails(4):
        ns.undrop_table(["t"])
    assert ns.list_dropped_tables()[0] == []
    create_table(ns, "t", data=ipc({"x": [9]}))
    assert count(ns, "t") == 1


def test_append_after_purge_leaves_a_remainder_that_can_be_dropped(ns, plain):
    late = plain.open_table("t")
    drop_table(ns, "t")
    ns.purge_table(["t"], force=True)
    late.add(pa.table({"x": [2]}))

    # The remaining version refers to purged files: it can be listed and described, but not read.
    assert list_tables(ns) == ["other", "t"]
    assert describe_table(ns, "t", load_detailed_metadata=True).version >= 1
    table_exists(ns, "t")
    with fails(19, "'t'"):
        count(ns, "t")
    with fails(5):
        create_table(ns, "t")
    assert count(ns, "other") == 1

    drop_table(ns, "t", purge="true")
    assert list_tables(ns) == ["other"]
    create_table(ns, "t", data=ipc({"x": [9]}))
    assert count(ns, "t") == 1
    assert count(ns, "other") == 1


def test_table_declared_over_a_dropped_one_ignores_appends_to_the_old_one(place, open_namespace):
    ns = open_namespace(place, "compatibility")
    create_table(ns, "t", data=ipc({"x": [1]}))
    late = lancedb.connect(place.uri, storage_options=place.options or None).open_table("t")
    drop_table(ns, "t")
    declare_table(ns, "t")
    ns.insert_into_table({"id": ["t"]}, ipc({"x": [9]}))
    late.add(pa.table({"x": [2]}))
    assert count(ns, "t") == 1
    assert describe_table(ns, "t").location != f"{place.uri}/t.lance"
    (old,) = ns.list_dropped_tables()[0]
    ns.undrop_table(["t"], as_id=["restored"], deletion_id=old.deletion_id)
    assert count(ns, "restored") == 2


def test_tables_in_hashed_directories_are_not_seen(place, open_namespace):
    ns = open_namespace(place, "v2")
    create_table(ns, "t", data=ipc({"x": [1]}))
    plain = lancedb.connect(place.uri, storage_options=place.options or None)
    assert plain.list_tables().tables == []
    drop_table(ns, "t")
    ns.undrop_table(["t"])
    assert count(ns, "t") == 1
