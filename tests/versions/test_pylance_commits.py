"""Plain pylance code on a catalog that manages versions: each commit adds a row that agrees with the files."""

from __future__ import annotations

from datetime import datetime, timedelta

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance import LanceDataset, LanceOperation
from lance.fragment import write_fragments

from tests.support import create_namespace, fails


def check(shelf, name: str, versions: list[int]) -> None:
    """Compare catalog, manifest and files."""
    shelf.check_same(name)
    assert shelf.list_versions(name) == versions
    assert shelf.version_rows()[shelf.key(name)] == versions


def test_common_operations_are_committed_through_the_catalog(managed_shelf):
    shelf = managed_shelf
    through = shelf.through("t")
    made = lance.write_dataset(pa.table({"x": [1, 2], "y": ["a", "b"]}), **through, mode="create")
    assert made.version == 1
    check(shelf, "t", [1])
    lance.write_dataset(pa.table({"x": [3], "y": ["c"]}), **through, mode="append")
    check(shelf, "t", [1, 2])
    table = shelf.open("t")
    table.insert(pa.table({"x": [4], "y": ["d"]}))
    check(shelf, "t", [1, 2, 3])
    table.delete("x = 2")
    check(shelf, "t", [1, 2, 3, 4])
    table.update({"y": "'z'"}, where="x = 3")
    check(shelf, "t", [1, 2, 3, 4, 5])
    merge = table.merge_insert("x").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(pa.table({"x": [1, 9], "y": ["A", "i"]}))
    check(shelf, "t", [1, 2, 3, 4, 5, 6])
    table.add_columns({"twice": "x * 2"})
    check(shelf, "t", [1, 2, 3, 4, 5, 6, 7])
    table.create_scalar_index("x", "BTREE")
    check(shelf, "t", list(range(1, 9)))
    table.optimize.compact_files()
    newest = table.version
    assert newest > 8
    check(shelf, "t", list(range(1, newest + 1)))
    rows = {row["x"]: (row["y"], row["twice"]) for row in shelf.open("t").to_table().to_pylist()}
    assert rows == {1: ("A", 2), 3: ("z", 6), 4: ("d", 8), 9: ("i", 18)}
    assert shelf.open("t").to_table(filter="x = 9")["y"].to_pylist() == ["i"]
    assert [index.name for index in shelf.open_plain("t").describe_indices()] == ["x_idx"]
    lance.write_dataset(pa.table({"z": [7]}), **through, mode="overwrite")
    check(shelf, "t", list(range(1, newest + 2)))
    assert shelf.open("t").to_table().to_pydict() == {"z": [7]}


def test_older_versions_and_tags_can_be_opened(near_managed_shelf):
    shelf = near_managed_shelf
    shelf.create("t", [1], [2], [3])
    table = shelf.open("t")
    table.tags.create("second", 2)
    assert shelf.rows("t", version=1) == [1]
    assert shelf.rows("t", version="second") == [1, 2]
    assert table.checkout_version(2).to_table()["x"].to_pylist() == [1, 2]
    assert table.checkout_version("second").version == 2
    shelf.append("t", [4])
    table.checkout_latest()
    assert table.version == 4
    with pytest.raises(ValueError, match="9"):
        shelf.open("t", version=9)
    table.tags.update("second", 3)
    assert shelf.rows("t", version="second") == [1, 2, 3]
    table.tags.delete("second")
    with pytest.raises(ValueError, match="second"):
        shelf.open("t", version="second")


def test_version_as_of_a_timestamp_can_be_opened(near_managed_shelf):
    shelf = near_managed_shelf
    shelf.create("t", [1], [2])
    moment = datetime.now()  # noqa: DTZ005 - pylance compares with local times
    shelf.append("t", [3])
    assert shelf.rows("t", asof=moment) == [1, 2]
    assert shelf.rows("t", asof=moment + timedelta(days=1)) == [1, 2, 3]


def test_restore_creates_a_version(near_managed_shelf):
    shelf = near_managed_shelf
    shelf.create("t", [1], [2], [3])
    shelf.open("t", version=1).restore()
    assert shelf.rows("t") == [1]
    check(shelf, "t", [1, 2, 3, 4])


def test_fragments_are_committed_through_the_catalog(managed_shelf):
    shelf = managed_shelf
    location = shelf.create("t", [1])
    options = shelf.where.options or None
    fragments = write_fragments(pa.table({"x": [2]}), location, mode="append", storage_options=options)
    made = LanceDataset.commit(
        location,
        LanceOperation.Append(fragments),
        read_version=1,
        namespace_client_managed_versioning=True,
        **shelf.through("t"),
    )
    assert made.version == 2
    check(shelf, "t", [1, 2])
    assert shelf.rows("t") == [1, 2]


def test_writers_with_old_handles_rebase(near_managed_shelf):
    shelf = near_managed_shelf
    shelf.create("t", [1])
    handles = [shelf.open("t") for _ in range(3)]
    for number, handle in enumerate(handles, start=2):
        handle.insert(pa.table({"x": [number]}))
    assert sorted(shelf.rows("t")) == [1, 2, 3, 4]
    check(shelf, "t", [1, 2, 3, 4])


def test_conflicting_commit_raises(near_managed_shelf):
    shelf = near_managed_shelf
    shelf.create("t", [1, 2])
    first, second = shelf.open("t"), shelf.open("t")
    first.delete("x = 1")
    location = shelf.location("t")
    fragments = [fragment.metadata for fragment in second.get_fragments()]
    with pytest.raises(OSError, match="conflict"):
        LanceDataset.commit(
            location,
            LanceOperation.Merge(fragments, second.lance_schema),
            read_version=1,
            namespace_client_managed_versioning=True,
            **shelf.through("t"),
        )
    check(shelf, "t", [1, 2])
    assert shelf.rows("t") == [2]


def test_vector_index_is_committed_through_the_catalog(near_managed_shelf):
    shelf = near_managed_shelf
    values = pa.FixedSizeListArray.from_arrays(np.random.default_rng(1).random(256 * 4, dtype="float32"), 4)
    table = lance.write_dataset(pa.table({"v": values}), **shelf.through("t"), mode="create")
    table.create_index("v", "IVF_FLAT", num_partitions=2, metric="l2")
    check(shelf, "t", [1, 2])
    nearest = {"column": "v", "q": np.zeros(4, dtype="float32"), "k": 3}
    assert shelf.open("t").to_table(nearest=nearest).num_rows == 3


def test_schema_changes_are_committed_through_the_catalog(near_managed_shelf):
    shelf = near_managed_shelf
    lance.write_dataset(pa.table({"x": [1], "y": ["a"]}), **shelf.through("t"), mode="create")
    table = shelf.open("t")
    table.alter_columns({"path": "y", "name": "why"})
    table.drop_columns(["x"])
    check(shelf, "t", [1, 2, 3])
    assert shelf.open("t").to_table().to_pydict() == {"why": ["a"]}


@pytest.mark.parametrize("name", ["with space", "ünïcode", "dots.and-dashes", "100%", "1", "a" * 200, "plus+amp&q?#"])
def test_tables_with_unusual_names_are_managed(near_managed_shelf, name):
    shelf = near_managed_shelf
    lance.write_dataset(pa.table({"x": [1]}), **shelf.through(name), mode="create")
    assert shelf.append(name, [2]) == 2
    assert shelf.rows(name) == [1, 2]
    check(shelf, name, [1, 2])


def test_tables_in_deep_namespaces_are_managed(new_shelf):
    shelf = new_shelf("local", "compatibility-managed")
    for depth in range(1, 5):
        create_namespace(shelf.ns, *"abcd"[:depth])
    shelf.parent = tuple("abcd")
    lance.write_dataset(pa.table({"x": [1]}), **shelf.through("t"), mode="create")
    shelf.append("t", [2])
    check(shelf, "t", [1, 2])


# Older tables


@pytest.mark.parametrize("storage_version", ["legacy", "2.0", "2.1", "2.2"])
@pytest.mark.parametrize("v2_names", [False, True])
def test_tables_written_before_version_management_are_imported(new_shelf, storage_version, v2_names):
    shelf = new_shelf("local", "compatibility")
    location = f"{shelf.where.uri}/t.lance"
    options = {"data_storage_version": storage_version, "enable_v2_manifest_paths": v2_names}
    lance.write_dataset(pa.table({"x": [1]}), location, **options)
    lance.write_dataset(pa.table({"x": [2]}), location, mode="append")
    names = shelf.files(location)
    assert [len(name) == len(f"{2**64}.manifest") for name in names] == [v2_names] * 2
    shelf.ns.enable_table_version_management()
    assert shelf.version_rows() == {"t": [1, 2]}
    assert shelf.row("t", 2)["naming_scheme"] == ("V2" if v2_names else "V1")
    assert shelf.append("t", [3]) == 3
    table = shelf.open("t")
    table.delete("x = 1")
    assert shelf.rows("t") == [2, 3]
    assert shelf.rows("t", version=2) == [1, 2]
    assert table.data_storage_version == ("0.1" if storage_version == "legacy" else storage_version)
    check(shelf, "t", [1, 2, 3, 4])
    names = shelf.files(location)
    assert [len(name) == len(f"{2**64}.manifest") for name in names] == [v2_names] * 4
    assert shelf.delete("t", (1, 3)) == 2
    check(shelf, "t", [3, 4])
    shelf.ns.disable_table_version_management()
    assert shelf.list_versions("t") == [3, 4]


@pytest.mark.parametrize("v2_names", [False, True])
def test_both_naming_schemes_work_without_version_management(new_shelf, v2_names):
    shelf = new_shelf("local", "v1")
    location = f"{shelf.where.uri}/t.lance"
    lance.write_dataset(pa.table({"x": [1]}), location, enable_v2_manifest_paths=v2_names)
    for number in (2, 3):
        assert shelf.append("t", [number]) == number
    assert shelf.list_versions("t") == [1, 2, 3]
    request = shelf.stage("t", [4])
    assert request["naming_scheme"] == ("V2" if v2_names else "V1")
    shelf.ns.create_table_version(request)
    assert shelf.describe_version("t", 4).manifest_path.endswith(shelf.files(location)[0 if v2_names else -1])
    assert shelf.delete("t", (2, 4)) == 2
    assert shelf.list_versions("t") == [1, 4]
    assert shelf.plain_rows("t") == [1, 2, 3, 4]


# Cleanup


def test_next_commit_removes_the_rows_of_cleaned_up_versions(managed_shelf):
    shelf = managed_shelf
    shelf.create("t", [1], [2], [3])
    shelf.open("t").cleanup_old_versions(older_than=timedelta(0))
    assert shelf.list_versions("t") == [3]
    assert shelf.list_versions("t", limit=1, descending=True) == [3]
    for version in (1, 2):
        with fails(11):
            shelf.describe_version("t", version)
    # The next commit removes the rows.
    assert shelf.append("t", [4]) == 4
    check(shelf, "t", [3, 4])
    assert shelf.rows("t") == [1, 2, 3, 4]


def test_cleanup_by_path_is_noticed(near_managed_shelf):
    shelf = near_managed_shelf
    shelf.create("t", [1], [2], [3])
    shelf.open_plain("t").cleanup_old_versions(older_than=timedelta(0))
    assert shelf.list_versions("t") == [3]
    assert shelf.append("t", [4]) == 4
    check(shelf, "t", [3, 4])


# Branches


def test_branches_have_no_version_rows(near_managed_shelf):
    """A branch is still created, written and read through the catalog."""
    shelf = near_managed_shelf
    location = shelf.create("t", [1], [2], [3])
    branch = shelf.open("t").create_branch("b")
    branch.insert(pa.table({"x": [4]}))
    branch.insert(pa.table({"x": [5]}))
    newest = branch.version
    assert shelf.open("t").checkout_version(("b", None)).to_table()["x"].to_pylist() == [1, 2, 3, 4, 5]
    assert shelf.open_plain("t").checkout_version(("b", None)).to_table()["x"].to_pylist() == [1, 2, 3, 4, 5]
    answer = shelf.ns.list_table_versions({"id": shelf.id("t"), "branch": "b"})
    assert [one.version for one in answer.versions] == [newest, newest - 1, newest - 2]
    assert all("/tree/b/_versions/" in one.manifest_path for one in answer.versions)
    request = {"id": shelf.id("t"), "branch": "b"}
    described = shelf.ns.describe_table_version({**request, "version": newest - 1}).version
    assert described.manifest_path == answer.versions[1].manifest_path
    ranges = [{"start_version": 1, "end_version": newest}]
    assert shelf.ns.batch_delete_table_versions({**request, "ranges": ranges}).deleted_count == 2
    assert shelf.files(f"{location}/tree/b") == [answer.versions[0].manifest_path.rpartition("/")[2]]
    # The main branch is unchanged.
    check(shelf, "t", [1, 2, 3])
    assert shelf.append("t", [9]) == 4
    assert shelf.rows("t") == [1, 2, 3, 9]


def test_branch_of_a_branch_and_of_an_older_version(near_managed_shelf):
    shelf = near_managed_shelf
    shelf.create("t", [1], [2], [3])
    first = shelf.open("t").create_branch("b", 2)
    first.insert(pa.table({"x": [7]}))
    second = first.create_branch("dev/c")
    second.insert(pa.table({"x": [8]}))
    table = shelf.open("t")
    assert set(table.branches.list()) == {"b", "dev/c"}
    assert table.checkout_version(("b", None)).to_table()["x"].to_pylist() == [1, 2, 7]
    assert table.checkout_version(("dev/c", None)).to_table()["x"].to_pylist() == [1, 2, 7, 8]
    check(shelf, "t", [1, 2, 3])


def test_unsupported_branch_operations_raise(near_managed_shelf):
    shelf = near_managed_shelf
    shelf.create("t", [1])
    shelf.open("t").create_branch("b")
    for bad in ("", "/b", "../t", "b//c", ".", "nowhere"):
        with fails(22):
            shelf.ns.list_table_versions({"id": shelf.id("t"), "branch": bad})
    request = {**shelf.stage("t", [2]), "branch": "b"}
    with fails(13):
        shelf.ns.create_table_version(request)
