"""Rows of versions whose paths lead elsewhere: nothing that they name is read, copied or deleted."""

from __future__ import annotations

import json
import uuid

import pytest
from lance_namespace import (
    BatchDeleteTableVersionsRequest,
    CountTableRowsRequest,
    DescribeTableRequest,
    DescribeTableVersionRequest,
    InsertIntoTableRequest,
    ListTableVersionsRequest,
)

from pennon.store import open_store
from pennon.table import naming
from tests.hostile.hostile_support import add_rows, beside, rows_at, version_row, write_beside
from tests.support import create_table, deregister_table, drop_table, ipc, list_tables

UUID = str(uuid.UUID(int=7))


def staged_name(version: int, token: str = UUID) -> str:
    return f"{naming.format_name(version, naming.V2)}-{token}"


PATHS = {
    "absolute": "{outside}/file",
    "relative": "../victim/file",
    "relative inside": "{location}/_versions/../../../victim/file",
    "another table": "{other}/_versions/{name}",
    "the data": "{location}/data/{data}",
    "the manifest table": "__manifest/_versions/{name}",
    "a marker": "{location}/.lance-reserved",
    "another version": "{location}/_versions/" + staged_name(99),
    "deeper": "{location}/_versions/x/{name}",
    "a uri": "file:///etc/passwd",
    "a bucket": "s3://other/x/_versions/{name}",
    "a bad token": "{location}/_versions/{name}../../x",
    "no path": "",
    "a null": "{location}/_versions/a\0b",
    "not the name of a version": "{location}/_versions/passwd",
}


@pytest.fixture(params=["managed", "v2", "compatibility"])
def catalog(request, somewhere, open_namespace):
    """Open a catalog with two tables beside a victim, whether it manages the versions of its tables or not."""
    ns = open_namespace(somewhere, "v2" if request.param == "managed" else request.param)
    create_table(ns, "t", data=ipc({"x": [1, 2, 3]}))
    create_table(ns, "other", data=ipc({"x": [4]}))
    if request.param == "managed":
        ns.enable_table_version_management()
    write_beside(somewhere, "victim", [13])
    open_store(somewhere.uri.removesuffix("/root"), somewhere.options).put("victim/file", b"precious")
    return ns


def poison(ns, *paths: str, first: int = 2) -> None:
    """Add unfinished versions to a table, each staged at one of the paths."""
    location = ns._store.relative(table_location(ns, "t"))
    other = ns._store.relative(table_location(ns, "other"))
    data = next(iter(ns._store.list_names(f"{location}/data")))
    outside = ns._store.absolute("x").removesuffix("root/x") + "victim"
    outside = f"/{outside}" if ns._store.is_local else outside
    rows = []
    for version, path in enumerate(paths, first):
        name = staged_name(version)
        where = path.format(outside=outside, location=location, other=other, data=data, name=name)
        rows.append(version_row("t", version, manifest_path=where, staged_path=where, naming_scheme="V2"))
    add_rows(ns, *rows)


def table_location(ns, name: str) -> str:
    return ns.describe_table(DescribeTableRequest(id=[name])).location


OPERATIONS = {
    "count": lambda ns: ns.count_table_rows(CountTableRowsRequest(id=["t"])),
    "describe": lambda ns: ns.describe_table(DescribeTableRequest(id=["t"], load_detailed_metadata=True)),
    "list versions": lambda ns: ns.list_table_versions(ListTableVersionsRequest(id=["t"])),
    "list the latest": lambda ns: ns.list_table_versions(ListTableVersionsRequest(id=["t"], limit=1)),
    "describe the latest": lambda ns: ns.describe_table_version(DescribeTableVersionRequest(id=["t"])),
    "list tables": list_tables,
}


def test_version_staged_outside_the_table_is_skipped(catalog, somewhere):
    before = beside(somewhere)
    other = catalog._store.relative(table_location(catalog, "other"))
    amount = catalog._store.measure(other)
    poison(catalog, *PATHS.values())
    assert {problem.entry for problem in catalog.list_problems()} == {f"t${2 + number}" for number in range(len(PATHS))}
    for operation in OPERATIONS.values():
        operation(catalog)
    assert catalog.count_table_rows(CountTableRowsRequest(id=["t"])).count == 3
    versions = catalog.list_table_versions(ListTableVersionsRequest(id=["t"])).versions
    assert [version.version for version in versions] == [1]
    assert beside(somewhere) == before
    assert catalog._store.measure(other) == amount


def test_table_with_hostile_versions_accepts_commits(catalog, somewhere):
    before = beside(somewhere)
    poison(catalog, *PATHS.values())
    catalog.insert_into_table(InsertIntoTableRequest(id=["t"]), ipc({"x": [5]}))
    assert catalog.count_table_rows(CountTableRowsRequest(id=["t"])).count == 4
    versions = catalog.list_table_versions(ListTableVersionsRequest(id=["t"])).versions
    assert [version.version for version in versions] == [2, 1]
    assert beside(somewhere) == before


def test_deleting_hostile_versions_removes_their_rows_alone(catalog, somewhere):
    before = beside(somewhere)
    poison(catalog, *PATHS.values(), first=7)
    request = {"id": ["t"], "ranges": [{"start_version": 7, "end_version": 70}]}
    catalog.batch_delete_table_versions(BatchDeleteTableVersionsRequest.model_validate(request))
    catalog.insert_into_table(InsertIntoTableRequest(id=["t"]), ipc({"x": [5]}))
    assert catalog.count_table_rows(CountTableRowsRequest(id=["t"])).count == 4
    assert beside(somewhere) == before


@pytest.mark.parametrize("remove", [drop_table, deregister_table], ids=["drop", "deregister"])
def test_a_table_with_hostile_versions_leaves_the_catalog_alone(catalog, somewhere, remove):
    before = beside(somewhere)
    poison(catalog, *PATHS.values())
    remove(catalog, "t")
    assert list_tables(catalog) == ["other"]
    assert beside(somewhere) == before
    assert rows_at(somewhere.uri.removesuffix("root") + "victim", somewhere) == [13]


def test_turning_the_management_of_versions_on_and_off_leaves_everything_else_alone(catalog, somewhere):
    before = beside(somewhere)
    poison(catalog, *PATHS.values())
    catalog.enable_table_version_management()
    assert catalog.count_table_rows(CountTableRowsRequest(id=["t"])).count == 3
    catalog.disable_table_version_management()
    assert catalog.count_table_rows(CountTableRowsRequest(id=["t"])).count == 3
    assert beside(somewhere) == before


def test_a_version_that_lance_staged_is_still_finished(catalog):
    location = catalog._store.relative(table_location(catalog, "t"))
    final = f"{location}/_versions/{naming.format_name(1, naming.V2)}"
    staged = f"{location}/_versions/{staged_name(2)}"
    catalog._store.put(staged, catalog._store.get(final).body)
    add_rows(catalog, version_row("t", 2, manifest_path=staged, staged_path=staged))
    catalog.describe_table(DescribeTableRequest(id=["t"], load_detailed_metadata=True))
    assert catalog._store.size(f"{location}/_versions/{naming.format_name(2, naming.V2)}") is not None


def test_invalid_version_rows_do_not_block_the_table(catalog):
    metadata = {
        "9" * 5000: "{}",
        "0": "{}",
        "2": "[" * 100,
        "3": None,
        "4": json.dumps({"naming_scheme": "V9"}),
        "5": json.dumps({"manifest_path": 7, "staged_path": 7}),
        "18446744073709551615": "{}",
    }
    rows = [
        {"object_id": f"t${number}", "object_type": "table_version", "metadata": text}
        for number, text in metadata.items()
    ]
    add_rows(catalog, *rows)
    assert catalog.count_table_rows(CountTableRowsRequest(id=["t"])).count == 3
    catalog.insert_into_table(InsertIntoTableRequest(id=["t"]), ipc({"x": [5]}))
    assert catalog.count_table_rows(CountTableRowsRequest(id=["t"])).count == 4
