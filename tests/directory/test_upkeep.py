"""Upkeep of the manifest: a bounded number of files, three indexes, and correct queries of other clients."""

from __future__ import annotations

import gc
import random
import weakref
from collections import Counter

import lance
import pytest

from pennon import DirectoryNamespace
from pennon.directory.manifest.upkeep import KEPT_VERSIONS, OVERDUE_VERSIONS, VERSIONS_PER_ROUND
from tests.directory.on_disk import directory, manifest
from tests.support import (
    MODES,
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    drop_namespace,
    list_all_tables,
    list_namespaces,
    rename_table,
    wait_for_background_work,
)

INDEXES = {
    "object_id_btree": "object_id",
    "object_type_bitmap": "object_type",
    "base_objects_label_list": "base_objects",
}


def manifest_files(ns) -> Counter[str]:
    top = directory(ns) / "__manifest"
    return Counter(path.relative_to(top).parts[0] for path in top.rglob("*") if path.is_file())


def churn(ns, steps, seed=0):
    """Create, rename and drop at random, and return the expected namespaces and tables."""
    draw = random.Random(seed)
    spaces, tables = set(), set()
    for number in range(steps):
        choice = draw.random()
        if choice < 0.5:
            create_namespace(ns, f"n{number}")
            spaces.add(f"n{number}")
        elif choice < 0.7 and spaces:
            space = draw.choice(sorted(spaces))
            ns.register_table(
                {"id": [space, f"t{number}"], "location": f"at{number}", "context": {"allow_missing": "true"}}
            )
            tables.add((space, f"t{number}"))
        elif choice < 0.8 and tables:
            old = draw.choice(sorted(tables))
            space = draw.choice(sorted(spaces))
            rename_table(ns, *old, to=f"r{number}", into=[space])
            tables.remove(old)
            tables.add((space, f"r{number}"))
        elif spaces:
            space = draw.choice(sorted(spaces))
            drop_namespace(ns, space, behavior="cascade", context={"ttl": "0"})
            spaces.remove(space)
            tables = {table for table in tables if table[0] != space}
            if choice > 0.95:
                ns.purge_tables()
    ns.purge_tables()
    return spaces, {"$".join(table) for table in tables}


def assert_holds(ns, spaces, tables):
    """Compare the results of a plain scan and of indexed queries with the expected rows."""
    dataset = lance.dataset(manifest(ns).uri)
    scanned = dataset.scanner(use_scalar_index=False).to_table()
    assert sorted(scanned["object_id"].to_pylist()) == sorted(spaces | tables)
    for kind, expected in (("namespace", spaces), ("table", tables)):
        found = dataset.to_table(filter=f"object_type = '{kind}'")["object_id"].to_pylist()
        assert sorted(found) == sorted(expected)
    for key in sorted(spaces | tables):
        assert dataset.to_table(filter=f"object_id = '{key}'")["object_id"].to_pylist() == [key]
    assert dataset.count_rows("object_id = 'never'") == 0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_plain_lance_queries_find_every_row_after_many_mutations(tmp_path, open_namespace, seed):
    ns = open_namespace(tmp_path, "v2")
    spaces, tables = churn(ns, 160, seed)
    assert_holds(ns, spaces, tables)
    assert set(list_namespaces(ns)) == spaces
    assert set(list_all_tables(ns)) == tables
    fresh = open_namespace(tmp_path, "v2")
    assert set(list_namespaces(fresh)) == spaces
    assert set(list_all_tables(fresh)) == tables


def test_number_of_manifest_files_is_bounded(tmp_path, open_namespace):
    ns = open_namespace(tmp_path, "v2")
    for number in range(200):
        create_namespace(ns, f"n{number}")
        if number % 2:
            drop_namespace(ns, f"n{number}")
    ns.close()
    count = manifest_files(ns)
    assert count["_versions"] <= 64
    assert count.total() <= 300
    assert len(manifest(ns).get_fragments()) <= 20
    assert manifest(ns).count_rows() == 100


def test_versions_are_removed_by_a_client_that_never_commits_the_sixteenth(tmp_path, open_namespace):
    ns = open_namespace(tmp_path, "v2")
    for number in range(200):
        create_namespace(ns, f"n{number}")
        wait_for_background_work()
        if (manifest(ns).version + 1) % VERSIONS_PER_ROUND == 0:
            manifest(ns).update_metadata({"taken": str(number)})

    assert manifest_files(ns)["_versions"] <= KEPT_VERSIONS + OVERDUE_VERSIONS + 8


def test_short_manifest_history_is_not_trimmed(root, open_namespace):
    ns = open_namespace(root, "v2")
    for number in range(10):
        create_namespace(ns, f"n{number}")
    ns.close()
    assert [version["version"] for version in manifest(ns).versions()] == list(range(1, 11))


def test_indexes_are_created_automatically_under_the_shared_names(root, open_namespace):
    ns = open_namespace(root, "v2")
    for number in range(40):
        create_namespace(ns, f"n{number}")
    ns.close()
    assert {index.name: index.field_names[0] for index in manifest(ns).describe_indices()} == INDEXES


def test_indexes_are_recreated_after_another_client_rewrote_the_manifest(root, open_namespace):
    ns = open_namespace(root, "v2")
    for number in range(40):
        create_namespace(ns, f"n{number}")
    ns.close()
    lance.write_dataset(manifest(ns).to_table(), manifest(ns).uri, mode="overwrite")
    assert not manifest(ns).describe_indices()
    again = open_namespace(root, "v2")
    for number in range(40, 80):
        create_namespace(again, f"n{number}")
    again.close()
    assert {index.name for index in manifest(ns).describe_indices()} == set(INDEXES)
    assert_holds(ns, {f"n{number}" for number in range(80)}, set())


def test_object_id_query_uses_the_index(root, open_namespace):
    ns = open_namespace(root, "v2")
    for number in range(48):
        create_namespace(ns, f"n{number}")
    ns.close()
    dataset = manifest(ns)
    dataset.optimize.optimize_indices()
    plan = lance.dataset(dataset.uri).scanner(filter="object_id = 'n7'").explain_plan()
    assert "ScalarIndexQuery" in plan
    assert_holds(ns, {f"n{number}" for number in range(48)}, set())


def test_reader_of_an_older_manifest_version_keeps_reading(root, open_namespace):
    ns = open_namespace(root, "v2")
    for number in range(20):
        create_namespace(ns, f"n{number}")
    reader = manifest(ns)
    for number in range(20, 30):
        create_namespace(ns, f"n{number}")
        drop_namespace(ns, f"n{number - 20}")
    assert reader.count_rows() == 20
    assert sorted(reader.to_table()["object_id"].to_pylist()) == sorted(f"n{number}" for number in range(20))


def test_idle_client_reads_after_many_commits_of_another_client(root, open_namespace):
    sleeper, worker = open_namespace(root, "v2"), open_namespace(root, "v2")
    create_namespace(sleeper, "first")
    for number in range(120):
        create_namespace(worker, f"n{number}")
    for number in range(0, 120, 2):
        drop_namespace(worker, f"n{number}")
    worker.close()
    left = {"first", *(f"n{number}" for number in range(1, 120, 2))}
    assert set(list_namespaces(sleeper)) == left
    create_namespace(sleeper, "last")
    assert_holds(sleeper, left | {"last"}, set())


def test_idle_client_writes_after_many_commits_of_another_client(root, open_namespace):
    sleeper, worker = open_namespace(root, "v2"), open_namespace(root, "v2")
    create_namespace(sleeper, "first")
    for number in range(120):
        create_namespace(worker, f"n{number}")
    worker.close()
    create_namespace(sleeper, "last")
    assert_holds(sleeper, {"first", "last", *(f"n{number}" for number in range(120))}, set())
    fresh = open_namespace(root, "v2")
    assert "last" in list_namespaces(fresh)


def test_manifest_upkeep_keeps_table_data(tmp_path, open_namespace):
    ns = open_namespace(tmp_path)
    locations = {name: create_table(ns, name).location for name in ("p", "q")}
    declare_table(ns, "d")
    for number in range(60):
        create_namespace(ns, f"n{number}")
    deregister_table(ns, "q")
    for location in locations.values():
        assert lance.dataset(location).count_rows() == 3
    assert list_all_tables(ns) == ["d", "p"]


def test_unclosed_client_leaves_no_thread_behind(tmp_path):
    ns = DirectoryNamespace(root=str(tmp_path), **MODES["v2"])
    for number in range(20):
        create_namespace(ns, f"n{number}")
    opened = weakref.ref(ns._catalog.manifest)
    del ns
    wait_for_background_work()
    gc.collect()
    assert opened() is None
