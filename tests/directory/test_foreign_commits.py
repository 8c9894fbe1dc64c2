"""Commits of other Lance clients between a read and a commit of Pennon: every rule still holds."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest

from tests.directory.on_disk import manifest, manifest_rows, rows
from tests.support import (
    create_namespace,
    create_table,
    describe_table,
    drop_namespace,
    fails,
    ipc,
    remove_table,
    rename_table,
)


def new_rows(ns, *keys, kind="namespace", location=None):
    found = [{"object_id": key, "object_type": kind, "location": location} for key in keys]
    return pa.Table.from_pylist(found, manifest(ns).schema)


def by_append(ns, table):
    lance.write_dataset(table, manifest(ns).uri, mode="append")


def by_insert(ns, table):
    manifest(ns).merge_insert("object_id").when_not_matched_insert_all().execute(table)


def by_upsert(ns, table):
    manifest(ns).merge_insert("object_id").when_matched_update_all().when_not_matched_insert_all().execute(table)


def by_rewrite(ns, table):
    lance.write_dataset(pa.concat_tables([manifest(ns).to_table(), table]), manifest(ns).uri, mode="overwrite")


@pytest.fixture(params=[by_append, by_insert, by_upsert, by_rewrite], ids=lambda way: way.__name__)
def insert_rows(request):
    """Return each way in which another client may insert rows."""
    return request.param


def by_delete(ns, *keys):
    listed = ", ".join(f"'{key}'" for key in keys)
    manifest(ns).delete(f"object_id IN ({listed})")


def by_merge_delete(ns, *keys):
    manifest(ns).merge_insert("object_id").when_matched_delete().execute(new_rows(ns, *keys))


def by_rewrite_without(ns, *keys):
    kept = manifest(ns).to_table().filter(~pa.compute.field("object_id").isin(list(keys)))
    lance.write_dataset(kept, manifest(ns).uri, mode="overwrite")


@pytest.fixture(params=[by_delete, by_merge_delete, by_rewrite_without], ids=lambda way: way.__name__)
def delete_rows(request):
    """Return each way in which another client may delete rows."""
    return request.param


@pytest.fixture(params=[0, 15, 17], ids=lambda count: f"after {count}")
def ns(request, tmp_path, open_namespace):
    """Open a catalog after a number of commits, so that its rows are in more or fewer fragments."""
    ns = open_namespace(tmp_path, "v2")
    create_namespace(ns, "a")
    for number in range(request.param):
        create_namespace(ns, f"n{number}")
    return ns


def test_namespace_with_child_inserted_by_another_client_is_not_dropped(ns, insert_rows):
    insert_rows(ns, new_rows(ns, "a$child"))
    with fails(3):
        drop_namespace(ns, "a")
    assert {"a", "a$child"} <= set(manifest_rows(ns))


def test_cascade_drops_child_inserted_by_another_client(ns, insert_rows):
    insert_rows(ns, new_rows(ns, "a$child"))
    drop_namespace(ns, "a", behavior="cascade")
    assert not {"a", "a$child"} & set(manifest_rows(ns))


def test_name_inserted_by_another_client_cannot_be_created(ns, insert_rows):
    insert_rows(ns, new_rows(ns, "taken"))
    with fails(2):
        create_namespace(ns, "taken")
    with fails(5):
        create_table(ns, "taken")
    assert manifest(ns).count_rows("object_id = 'taken'") == 1


def test_rename_to_a_name_inserted_by_another_client_fails(ns, insert_rows):
    create_table(ns, "a", "t")
    insert_rows(ns, new_rows(ns, "a$taken", kind="table", location="elsewhere"))
    with fails(5):
        rename_table(ns, "a", "t", to="taken")
    assert manifest(ns).count_rows("object_id = 'a$taken'") == 1
    assert {"a$t", "a$taken"} <= set(manifest_rows(ns))


def test_drop_keeps_data_that_another_row_refers_to(ns, insert_rows):
    location = create_table(ns, "a", "t", data=ipc({"x": [1]})).location
    insert_rows(ns, new_rows(ns, "a$other", kind="table", location=location.rpartition("/")[2]))
    remove_table(ns, "a", "t")
    assert rows(describe_table(ns, "a", "other").location) == [1]


def test_create_in_a_namespace_dropped_by_another_client_fails(ns, delete_rows):
    delete_rows(ns, "a")
    with fails(1):
        create_namespace(ns, "a", "child")
    with fails(1):
        create_table(ns, "a", "t")
    assert not [key for key in manifest_rows(ns) if key.startswith("a")]


def test_table_dropped_by_another_client_is_not_found(ns, delete_rows):
    create_table(ns, "a", "t")
    delete_rows(ns, "a$t")
    with fails(4):
        remove_table(ns, "a", "t")
    with fails(4):
        rename_table(ns, "a", "t", to="u")
    create_table(ns, "a", "t")
    assert manifest(ns).count_rows("object_id = 'a$t'") == 1


def test_rows_inserted_by_another_client_are_kept(ns, insert_rows):
    insert_rows(ns, new_rows(ns, "theirs"))
    create_namespace(ns, "ours")
    insert_rows(ns, new_rows(ns, "theirs too"))
    drop_namespace(ns, "a")
    insert_rows(ns, new_rows(ns, "theirs as well"))
    ns.alter_namespace_properties(["ours"], {"k": "v"})
    found = manifest_rows(ns)
    assert {"theirs", "theirs too", "theirs as well", "ours"} <= set(found)
    assert manifest(ns).count_rows() == len(found)
    assert "a" not in found


def test_rows_deleted_by_another_client_stay_deleted(ns, delete_rows):
    create_namespace(ns, "b")
    create_namespace(ns, "c")
    delete_rows(ns, "b")
    create_namespace(ns, "ours")
    delete_rows(ns, "c")
    drop_namespace(ns, "a")
    assert not {"a", "b", "c"} & set(manifest_rows(ns))
    assert "ours" in manifest_rows(ns)


def test_mutations_work_after_compaction_by_another_client(tmp_path, open_namespace):
    ns = open_namespace(tmp_path, "v2")
    for number in range(6):
        create_namespace(ns, f"n{number}")
    manifest(ns).optimize.compact_files()
    create_namespace(ns, "ours")
    drop_namespace(ns, "n0")
    manifest(ns).optimize.compact_files()
    drop_namespace(ns, "n1")
    assert sorted(manifest_rows(ns)) == ["n2", "n3", "n4", "n5", "ours"]
    assert manifest(ns).count_rows() == 5
