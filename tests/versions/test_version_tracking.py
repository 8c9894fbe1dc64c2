"""`table_version_tracking_enabled`: Lance commits through a catalog that does not manage versions; the files decide."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import lance
import pyarrow as pa
import pytest

from tests.support import create_namespace, declare_table, describe_table, fails

TRACKED = {"table_version_tracking_enabled": "true", "ops_metrics_enabled": "true"}


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def where(request, new_root):
    """Return an empty root."""
    return new_root(request.param)


@pytest.fixture
def tracked(where, mode, open_namespace):
    """Return a client that tracks versions, and the arguments with which pylance uses it."""
    ns = open_namespace(where, mode, **TRACKED)
    return ns, {"namespace_client": ns, "table_id": ["t"], "storage_options": where.options or None}


def test_lance_commits_each_version_through_the_client(tracked):
    ns, through = tracked
    lance.write_dataset(pa.table({"x": [1]}), **through, mode="create")
    lance.write_dataset(pa.table({"x": [2]}), **through, mode="append")
    lance.dataset(**through).delete("x = 1")
    lance.write_dataset(pa.table({"x": [7]}), **through, mode="overwrite")
    assert ns.retrieve_ops_metrics()["create_table_version"] == 4
    assert describe_table(ns, "t").managed_versioning is True
    location = describe_table(ns, "t").location
    plain = lance.dataset(location, storage_options=through["storage_options"])
    assert plain.to_table()["x"].to_pylist() == lance.dataset(**through).to_table()["x"].to_pylist() == [7]
    assert [one.version for one in ns.list_table_versions({"id": ["t"]}).versions] == [4, 3, 2, 1]


def test_client_without_tracking_reads_and_writes_the_same_versions(tracked, where, mode, open_namespace):
    _, through = tracked
    lance.write_dataset(pa.table({"x": [1]}), **through, mode="create")
    other = open_namespace(where, mode)
    assert describe_table(other, "t").managed_versioning is None
    lance.write_dataset(pa.table({"x": [2]}), **{**through, "namespace_client": other}, mode="append")
    lance.write_dataset(pa.table({"x": [3]}), **through, mode="append")
    assert lance.dataset(**through).to_table()["x"].to_pylist() == [1, 2, 3]


def test_appends_of_several_writers_are_all_kept(tracked):
    _, through = tracked
    lance.write_dataset(pa.table({"x": [0]}), **through, mode="create")
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda x: lance.write_dataset(pa.table({"x": [x]}), **through, mode="append"), range(1, 7)))
    assert sorted(lance.dataset(**through).to_table()["x"].to_pylist()) == list(range(7))


def test_declared_table_is_reported_and_a_taken_name_is_refused(tracked, mode):
    ns, through = tracked
    assert declare_table(ns, "d").managed_versioning is True
    lance.write_dataset(pa.table({"x": [1]}), **through, mode="create")
    with fails(5):
        lance.write_dataset(pa.table({"x": [1]}), **through, mode="create")
    if mode != "v1":
        create_namespace(ns, "n")
        nested = {**through, "table_id": ["n", "t"]}
        assert lance.write_dataset(pa.table({"x": [1]}), **nested, mode="create").version == 1
