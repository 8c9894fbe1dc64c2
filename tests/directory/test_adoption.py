"""Tables that are written at a new location first, and adopted by the catalog afterwards."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import lance
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from pennon.errors import LanceNamespaceError
from tests.servers import CountingS3
from tests.support import (
    Root,
    create_namespace,
    create_table,
    declare_table,
    describe_table,
    drop_table,
    fails,
    list_tables,
)

_UUID = "00112233-4455-6677-8899-aabbccddeeff"
PLACES = {
    "v1": ("v1", ["t"], False),
    "compatibility": ("compatibility", ["t"], False),
    "compatibility-nested": ("compatibility", ["a", "t"], False),
    "v2": ("v2", ["t"], False),
    "managed": ("compatibility", ["t"], True),
    "managed-nested": ("v2", ["a", "t"], True),
}


@pytest.fixture(scope="session")
def s3():
    with CountingS3() as server:
        yield server


class Site:
    """A catalog and the identifier of a table that is to be adopted."""

    def __init__(self, ns, where, id_, *, managed):
        self.ns, self.where, self.id = ns, where, id_
        if managed:
            ns.enable_table_version_management()
        if len(id_) > 1:
            create_namespace(ns, *id_[:-1])

    def write_table(self, *rows: int) -> str:
        """Write a table at a new location and return the location, as a distributed job does."""
        location = self.ns.new_table_location(self.id)
        data = pa.table({"x": list(rows)})
        options = self.where.options or None
        fragments = write_fragments(data, location, mode="create", max_rows_per_file=2, storage_options=options)
        transaction = lance.Transaction(
            0, LanceOperation.Overwrite(data.schema, fragments), uuid=_UUID, transaction_properties={"k": "v"}
        )
        LanceDataset.commit(location, transaction, storage_options=options)
        return location

    def dataset(self) -> LanceDataset:
        return lance.dataset(namespace_client=self.ns, table_id=self.id, storage_options=self.where.options or None)

    def rows(self) -> list[int]:
        return self.dataset().to_table()["x"].to_pylist()

    def list_tables(self) -> list[str]:
        return list_tables(self.ns, *self.id[:-1])

    def top(self) -> set[str]:
        return {name for name in self.ns._store.list_names("") if not name.startswith(("__", "."))}


def _site(request, tmp_path, open_namespace, store, name):
    mode, id_, managed = PLACES[name]
    where = Root(str(tmp_path / "root"))
    if store == "s3":
        endpoint = request.getfixturevalue("s3").endpoint
        where = Root(endpoint.uri(f"adoption-{tmp_path.name}"), endpoint.storage_options())
    return Site(open_namespace(where, mode), where, id_, managed=managed)


@pytest.fixture(
    params=[
        *[pytest.param(("local", name), id=f"local-{name}") for name in PLACES],
        *[
            pytest.param(("s3", name), id=f"s3-{name}", marks=pytest.mark.s3)
            for name in ("v1", "compatibility-nested", "managed")
        ],
    ]
)
def site(request, tmp_path, open_namespace):
    return _site(request, tmp_path, open_namespace, *request.param)


@pytest.fixture(params=["v1", "compatibility-nested", "managed"])
def near(request, tmp_path, open_namespace):
    return _site(request, tmp_path, open_namespace, "local", request.param)


def test_table_is_hidden_until_it_is_adopted(site):
    location = site.write_table(1, 2, 3)
    assert site.list_tables() == []
    with fails(4):
        describe_table(site.ns, *site.id)
    assert site.ns.adopt_table(site.id, location) == 1
    assert site.list_tables() == ["t"]
    assert site.rows() == [1, 2, 3]
    made = site.dataset().read_transaction(1)
    assert (made.transaction_properties, made.uuid) == ({"k": "v"}, _UUID)
    site.dataset().validate()


def test_adopt_leaves_no_other_entries_in_the_root(site):
    site.ns.adopt_table(site.id, site.write_table(1, 2, 3))
    inside = site.ns._store.relative(describe_table(site.ns, *site.id).location)
    assert site.top() == {inside}


@pytest.mark.parametrize("name", ["v1", "compatibility"])
def test_adopted_root_table_moves_to_the_directory_of_its_name(name, request, tmp_path, open_namespace):
    site = _site(request, tmp_path, open_namespace, "local", name)
    site.ns.adopt_table(site.id, site.write_table(1))
    assert lance.dataset(str(tmp_path / "root" / "t.lance")).count_rows() == 1


def test_adopted_table_accepts_appends(site):
    site.ns.adopt_table(site.id, site.write_table(1))
    lance.write_dataset(
        pa.table({"x": [2]}),
        namespace_client=site.ns,
        table_id=site.id,
        mode="append",
        storage_options=site.where.options or None,
    )
    assert site.rows() == [1, 2]
    assert site.dataset().version == 2


def test_adopt_over_an_existing_table_raises_already_exists_and_keeps_both(near):
    location = near.write_table(1)
    create_table(near.ns, *near.id)
    with fails(5, naming="t'"):
        near.ns.new_table_location(near.id)
    with fails(5, naming="t'"):
        near.ns.adopt_table(near.id, location)
    assert near.rows() == [1, 2, 3]
    assert lance.dataset(location).to_table()["x"].to_pylist() == [1]


def test_one_of_two_concurrent_adoptions_succeeds(near):
    locations = [near.write_table(1), near.write_table(2)]
    both = Barrier(2)

    def adopt(location):
        both.wait(30)
        try:
            return near.ns.adopt_table(near.id, location)
        except LanceNamespaceError as error:
            return int(error.code)

    with ThreadPoolExecutor(2) as pool:
        outcomes = sorted(pool.map(adopt, locations))
    assert outcomes in ([1, 5], [1, 14])
    assert near.rows() in ([1], [2])


def test_adopt_keeps_the_location_and_properties_of_a_declared_table(site):
    properties = None if site.ns._settings.manifest_enabled is False else {"owner": "me"}
    declared = declare_table(site.ns, *site.id, properties=properties)
    site.ns.adopt_table(site.id, site.write_table(1, 2))
    described = describe_table(site.ns, *site.id, check_declared=True)
    assert described.location == declared.location
    assert described.properties == properties
    assert described.is_only_declared is False
    assert site.rows() == [1, 2]


def test_adopt_over_a_dropped_table_succeeds(near):
    create_table(near.ns, *near.id)
    drop_table(near.ns, *near.id)
    near.ns.adopt_table(near.id, near.write_table(7))
    assert near.rows() == [7]


def test_location_in_a_missing_namespace_raises_namespace_not_found(near):
    with fails(1):
        near.ns.new_table_location(["nowhere", "t"])


@pytest.mark.parametrize("location", ["elsewhere", "t.lance", "../x", ""])
def test_adopt_of_a_location_without_table_raises_invalid_input(near, location):
    with fails(13):
        near.ns.adopt_table(near.id, near.ns._store.location(location))
    assert near.list_tables() == []


@pytest.mark.parametrize("name", ["compatibility-nested", "v2", "managed-nested"])
def test_location_of_another_table_is_not_adopted(request, tmp_path, open_namespace, name):
    site = _site(request, tmp_path, open_namespace, "local", name)
    create_namespace(site.ns, "other")
    create_table(site.ns, "other", "theirs")
    location = describe_table(site.ns, "other", "theirs").location

    with pytest.raises(LanceNamespaceError):
        site.ns.adopt_table(site.id, location)
    declare_table(site.ns, *site.id)
    with fails(19):
        site.ns.adopt_table(site.id, location)

    assert lance.dataset(location).count_rows() > 0
    assert list_tables(site.ns, "other") == ["theirs"]
