"""Rows of tables whose locations lead out of the root, into the catalog's own files or into another table."""

from __future__ import annotations

import logging

import lance
import pyarrow as pa
import pytest
from lance_namespace import (
    BatchDeleteTableVersionsRequest,
    CountTableRowsRequest,
    CreateTableIndexRequest,
    CreateTableTagRequest,
    DeleteFromTableRequest,
    DescribeTableRequest,
    DescribeTableVersionRequest,
    InsertIntoTableRequest,
    ListTableVersionsRequest,
    MergeInsertIntoTableRequest,
    QueryTableRequest,
    UpdateTableRequest,
)
from lance_namespace.errors import LanceNamespaceError

from tests.hostile.hostile_support import add_rows, beside, rows_at, table_row, write_beside
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

LOCATIONS = {
    "above": "../victim",
    "above by a detour": "a/../../victim",
    "the root's parent": "..",
    "the root": ".",
    "empty": "",
    "the catalog": "__manifest",
    "in the catalog": "__manifest/data",
    "the notes": "__pennon",
    "the trash": ".lance-trash",
    "in the locks": ".lance-locks/x",
    "absolute": "{outside}",
    "a file uri": "file://{outside}",
    "a uri of another bucket": "s3://other/victim",
    "a uri of the root": "{uri}/mine",
    "a marker": "t.deleted",
    "in a root table": "root.lance/data",
    "in a table": "{mine}/data",
    "a catalog below": "sub/__manifest",
    "backslashes": "..\\victim",
    "a control character": "a\nb",
    "a null": "a\0b",
    "long": "x" * 5000,
    "long in parts": "/".join(["x" * 200] * 20),
}
WORST = ("above", "the catalog", "absolute")
DATA = ipc({"x": [66]})
OPERATIONS = {
    "exists": lambda ns, table: table_exists(ns, *table),
    "describe": lambda ns, table: describe_table(ns, *table),
    "describe in detail": lambda ns, table: describe_table(ns, *table, load_detailed_metadata=True),
    "check declared": lambda ns, table: describe_table(ns, *table, check_declared=True),
    "insert": lambda ns, table: ns.insert_into_table(InsertIntoTableRequest(id=table), DATA),
    "insert over": lambda ns, table: ns.insert_into_table(InsertIntoTableRequest(id=table, mode="overwrite"), DATA),
    "overwrite": lambda ns, table: create_table(ns, *table, data=DATA, mode="overwrite"),
    "create": lambda ns, table: create_table(ns, *table, data=DATA),
    "create if absent": lambda ns, table: create_table(ns, *table, data=DATA, mode="exist_ok"),
    "merge": lambda ns, table: ns.merge_insert_into_table(
        MergeInsertIntoTableRequest(id=table, on=["x"], when_not_matched_insert_all=True), DATA
    ),
    "update": lambda ns, table: ns.update_table(UpdateTableRequest(id=table, updates=[["x", "1"]])),
    "delete rows": lambda ns, table: ns.delete_from_table(DeleteFromTableRequest(id=table, predicate="x > 0")),
    "count": lambda ns, table: ns.count_table_rows(CountTableRowsRequest(id=table)),
    "query": lambda ns, table: ns.query_table(QueryTableRequest(id=table, k=1, vector={})),
    "index": lambda ns, table: ns.create_table_index(CreateTableIndexRequest(id=table, column="x", index_type="BTREE")),
    "tag": lambda ns, table: ns.create_table_tag(CreateTableTagRequest(id=table, tag="v", version=1)),
    "versions": lambda ns, table: ns.list_table_versions(ListTableVersionsRequest(id=table)),
    "version": lambda ns, table: ns.describe_table_version(DescribeTableVersionRequest(id=table, version=1)),
    "delete versions": lambda ns, table: ns.batch_delete_table_versions(
        BatchDeleteTableVersionsRequest.model_validate(
            {"id": table, "ranges": [{"start_version": 1, "end_version": 2}]}
        )
    ),
    "rename": lambda ns, table: rename_table(ns, *table, to="other"),
    "protect": lambda ns, table: ns.set_table_protection(table, protected=True),
    "new location": lambda ns, table: ns.new_table_location(table),
}


@pytest.fixture(params=["v2", "compatibility", "managed"])
def catalog(request, somewhere, open_namespace):
    """Open a catalog with a table beside a victim."""
    ns = open_namespace(somewhere, "v2" if request.param == "managed" else request.param)
    create_namespace(ns, "a")
    create_table(ns, "a", "mine", data=ipc({"x": [1]}))
    create_table(ns, "root", data=ipc({"x": [2]}))
    if request.param == "managed":
        ns.enable_table_version_management()
    write_beside(somewhere, "victim", [13])
    return ns


def poison(ns, root, *kinds: str, name: str = "evil") -> dict[str, str]:
    """Add rows with hostile locations, all kinds by default, named in order; returns their locations by name."""
    outside = f"{root.uri.removesuffix('root')}victim".removeprefix("s3:/")
    mine = ns._store.relative(describe_table(ns, "a", "mine").location)
    found = {
        f"{name}{number}": LOCATIONS[kind].format(outside=outside, uri=root.uri, mine=mine)
        for number, kind in enumerate(kinds or LOCATIONS)
    }
    add_rows(ns, *(table_row(f"a${called}", location) for called, location in found.items()))
    return found


def inside(ns) -> dict[str, int]:
    """Return the sizes of all files in the root, except internal files of the catalog."""
    level = ns._store.list_level()
    return {
        **{file.name: file.size for file in level.files},
        **{name: ns._store.measure(name).files for name in level.directories if not name.startswith((".", "__"))},
    }


def test_hostile_row_locations_are_neither_read_nor_written(catalog, somewhere):
    before = beside(somewhere)
    evil = poison(catalog, somewhere)
    there = inside(catalog)
    for name in evil:
        for operation in ("describe", "insert", "overwrite"):
            with fails(19, f"a${name}"):
                OPERATIONS[operation](catalog, ["a", name])
    assert inside(catalog) == there
    assert beside(somewhere) == before
    assert rows_at(f"{somewhere.uri.removesuffix('root')}victim", somewhere) == [13]
    assert catalog.count_table_rows(CountTableRowsRequest(id=["a", "mine"])).count == 1


def test_every_operation_refuses_a_hostile_row(catalog, somewhere):
    before = beside(somewhere)
    evil = poison(catalog, somewhere, "above", "the catalog", "in a table")
    there = inside(catalog)
    for name in evil:
        for operation in OPERATIONS.values():
            with fails(19, f"a${name}"):
                operation(catalog, ["a", name])
    assert inside(catalog) == there
    assert beside(somewhere) == before


def test_lance_does_not_open_a_hostile_row_location(catalog, somewhere):
    before = beside(somewhere)
    for name in poison(catalog, somewhere, "above", "the catalog", "absolute"):
        with fails(19, f"a${name}"):
            lance.dataset(namespace_client=catalog, table_id=["a", name])
        with fails(19, f"a${name}"):
            lance.write_dataset(pa.table({"x": [66]}), mode="append", namespace_client=catalog, table_id=["a", name])
    assert beside(somewhere) == before


def test_each_skipped_row_is_logged_once(catalog, somewhere, caplog):
    with caplog.at_level(logging.WARNING, logger="pennon"):
        evil = poison(catalog, somewhere, *(kind for kind in LOCATIONS if kind != "in a table"))
        for _ in range(3):
            assert "mine" in list_tables(catalog, "a")
    warnings = [record.getMessage() for record in caplog.records if "no table can be at" in record.getMessage()]
    assert len(warnings) == len(evil)
    assert any("a$evil0" in warning for warning in warnings)


def test_tables_with_hostile_locations_are_not_listed_and_do_not_block_others(catalog, somewhere):
    poison(catalog, somewhere, *(kind for kind in LOCATIONS if kind != "in a table"))
    assert list_tables(catalog, "a") == ["mine"]
    assert list_tables(catalog, "a", include_declared=False) == ["mine"]
    assert list_all_tables(catalog) == ["a$mine", "root"]
    create_table(catalog, "a", "new")
    assert list_tables(catalog, "a") == ["mine", "new"]


def test_the_row_alone_can_be_removed(catalog, somewhere):
    before = beside(somewhere)
    evil = poison(catalog, somewhere)
    worse, worst = (poison(catalog, somewhere, *WORST, name=name) for name in ("worse", "worst"))
    there = inside(catalog)
    for name in evil:
        deregister_table(catalog, "a", name)
    for name in worse:
        remove_table(catalog, "a", name)
    for name in worst:
        drop_table(catalog, "a", name, ttl="0s")
    dropped = catalog.list_dropped_tables(["a"], detailed=True)[0]
    assert {table.id[-1] for table in dropped} == set(worst)
    catalog.purge_tables(dry_run=True)
    catalog.purge_tables()
    for name in (*evil, *worse, *worst):
        with fails(4):
            table_exists(catalog, "a", name)
    assert inside(catalog) == there
    assert beside(somewhere) == before


def test_a_location_is_reported_as_it_stands_in_the_row(catalog, somewhere):
    for name, location in poison(catalog, somewhere, *WORST, "a file uri", "a uri of another bucket").items():
        assert deregister_table(catalog, "a", name).location == location


def test_a_hostile_row_can_be_replaced(catalog, somewhere):
    (name,) = poison(catalog, somewhere, "above")
    where = catalog._store.relative(catalog.new_table_location(["a", "other"]))
    options = catalog._store.storage_options or None
    lance.write_dataset(pa.table({"x": [5]}), catalog._store.location(where), storage_options=options)
    register_table(catalog, "a", name, location=where, mode="overwrite")
    assert catalog.count_table_rows(CountTableRowsRequest(id=["a", name])).count == 1


def test_callers_cannot_name_such_a_location(catalog, somewhere):
    before = beside(somewhere)
    for kind, location in zip(LOCATIONS, poison(catalog, somewhere).values(), strict=True):
        with pytest.raises(LanceNamespaceError):
            register_table(catalog, "a", "new", location=location)
        if kind != "a uri of the root":
            with pytest.raises(LanceNamespaceError):
                declare_table(catalog, "a", "new", location=location)
    assert beside(somewhere) == before


def test_migration_and_version_management_skip_hostile_rows(somewhere, open_namespace):
    ns = open_namespace(somewhere, "compatibility")
    create_table(ns, "t")
    create_namespace(ns, "a")
    create_table(ns, "a", "mine", data=ipc({"x": [1]}))
    write_beside(somewhere, "victim", [13])
    before = beside(somewhere)
    poison(ns, somewhere)
    ns.migrate_to_manifest()
    ns.migrate_markers()
    ns.enable_table_version_management()
    ns.disable_table_version_management()
    assert beside(somewhere) == before
    assert ns.count_table_rows(CountTableRowsRequest(id=["a", "mine"])).count == 1


def test_table_below_a_dropped_one_can_be_used(catalog):
    where = catalog._store.location("outer/inner")
    options = catalog._store.storage_options or None
    lance.write_dataset(pa.table({"x": [5]}), catalog._store.location("outer"), storage_options=options)
    lance.write_dataset(pa.table({"x": [6]}), where, storage_options=options)
    add_rows(catalog, table_row("a$outer", "outer"), table_row("a$inner", "outer/inner"))
    with fails(19, "inside the table 'a$outer'"):
        describe_table(catalog, "a", "inner")
    drop_table(catalog, "a", "outer", ttl="0s")
    catalog.purge_tables()
    assert catalog.count_table_rows(CountTableRowsRequest(id=["a", "inner"])).count == 1


@pytest.mark.parametrize("location", ["./{mine}", "{mine}/", "{mine}//", ".//{mine}"])
def test_locations_that_other_clients_write_differently_are_understood(catalog, location):
    mine = catalog._store.relative(describe_table(catalog, "a", "mine").location)
    add_rows(catalog, table_row("a$twin", location.format(mine=mine)))
    described = catalog.describe_table(DescribeTableRequest(id=["a", "twin"]))
    assert described.location == catalog._store.location(mine)


def test_every_hostile_row_is_reported_with_a_fix(catalog, somewhere):
    evil = poison(catalog, somewhere)
    problems = {problem.entry: problem for problem in catalog.list_problems()}
    assert problems.keys() == {f"a${name}" for name in evil}
    assert all("deregister" in problem.fix for problem in problems.values())
    for name in evil:
        deregister_table(catalog, "a", name)
    assert catalog.list_problems() == []
