"""Turning version management on and off for a whole catalog."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace as Reference

from pennon.directory.manifest import TABLE, Manifest, Row
from pennon.directory.versions.record import VersionRecord
from tests.support import (
    MODES,
    create_namespace,
    create_table,
    declare_table,
    describe_table,
    drop_table,
    fails,
    ipc,
    list_tables,
    table_exists,
)

FLAGS = "lance.namespace.manifest.writer_feature_flags"


def metadata(shelf) -> dict[str, str]:
    return shelf.manifest().metadata


def append_by_path(shelf, name: str, rows: list[int]) -> int:
    """Append without the catalog."""
    options = shelf.where.options or None
    return lance.write_dataset(
        pa.table({"x": rows}), shelf.location(name), mode="append", storage_options=options
    ).version


@pytest.fixture(params=["local-v2", "local-compatibility", pytest.param("s3-compatibility", marks=pytest.mark.s3)])
def before(request, new_shelf):
    """Return a catalog without version management: two tables, one of them nested, a dropped and a declared one."""
    store, place = request.param.split("-")
    shelf = new_shelf(store, place)
    shelf.create("t", [1], [2], [3])
    shelf.create("gone", [7], [8])
    drop_table(shelf.ns, "gone")
    declare_table(shelf.ns, "declared")
    create_namespace(shelf.ns, "n")
    create_table(shelf.ns, "n", "inner", data=ipc({"x": [5]}))
    return shelf


def test_enabling_imports_all_versions(before):
    shelf = before
    assert describe_table(shelf.ns, "t").managed_versioning is None
    steps = []
    report = shelf.ns.enable_table_version_management(progress=lambda *done: steps.append(done))
    assert report.versions == sum(len(versions) for versions in shelf.version_rows().values())
    assert steps == [(report.tables, report.tables)]
    rows = shelf.version_rows()
    assert rows["t"] == [1, 2, 3]
    assert rows["n$inner"] == [1]
    assert "declared" not in rows
    assert metadata(shelf)["table_version_management"] == "true"
    assert int(metadata(shelf)[FLAGS]) == 1 << 16
    for one in (["t"], ["n", "inner"], ["declared"]):
        assert describe_table(shelf.ns, *one).managed_versioning is True
    shelf.check_same("t")
    shelf.ns.undrop_table(["gone"])
    assert shelf.version_rows()["gone"] == [1, 2]
    assert shelf.append("gone", [9]) == 3
    shelf.check_same("gone")
    lance.write_dataset(pa.table({"x": [1]}), **shelf.through("declared"), mode="append")
    assert shelf.version_rows()["declared"] == [1]


def test_disabling_leaves_the_files_unchanged(before):
    shelf = before
    shelf.ns.enable_table_version_management()
    shelf.append("t", [4])
    rows = sum(len(versions) for versions in shelf.version_rows().values())
    assert shelf.ns.disable_table_version_management().versions == rows
    assert shelf.version_rows() == {}
    assert "table_version_management" not in metadata(shelf)
    assert FLAGS not in metadata(shelf)
    assert describe_table(shelf.ns, "t").managed_versioning is None
    assert shelf.list_versions("t") == [1, 2, 3, 4]
    assert append_by_path(shelf, "t", [5]) == 5
    assert shelf.append("t", [6]) == 6
    assert shelf.rows("t") == [1, 2, 3, 4, 5, 6]
    shelf.ns.undrop_table(["gone"])
    assert shelf.rows("gone") == [7, 8]


def test_enabling_again_imports_changes_made_while_disabled(before):
    shelf = before
    shelf.ns.enable_table_version_management()
    shelf.append("t", [4])
    shelf.ns.disable_table_version_management()
    append_by_path(shelf, "t", [5])
    shelf.delete("t", (1, 3))
    report = shelf.ns.enable_table_version_management()
    assert shelf.version_rows()["t"] == [3, 4, 5]
    assert report.versions == sum(len(versions) for versions in shelf.version_rows().values())
    assert shelf.append("t", [6]) == 6
    shelf.check_same("t")


def test_enabling_and_disabling_twice_changes_nothing(before):
    shelf = before
    shelf.ns.enable_table_version_management()
    rows, version = shelf.manifest_rows(), shelf.manifest().version
    assert shelf.ns.enable_table_version_management().versions == 0
    assert (shelf.manifest_rows(), shelf.manifest().version) == (rows, version)
    shelf.ns.disable_table_version_management()
    again = shelf.ns.disable_table_version_management()
    assert (again.tables, again.versions) == (0, 0)
    assert shelf.rows("t") == [1, 2, 3]


def test_enabling_registers_v1_tables_of_a_compatibility_root(new_shelf, open_namespace):
    shelf = new_shelf("local", "compatibility")
    plain = open_namespace(shelf.where, "v1")
    for name in ("t", "u"):
        create_table(plain, name, data=ipc({"x": [1]}))
    drop_table(plain, "u")
    assert shelf.ns.enable_table_version_management().tables == 1
    assert shelf.version_rows() == {"t": [1]}
    assert shelf.append("t", [2]) == 2
    shelf.ns.undrop_table(["u"])
    assert shelf.rows("u") == [1]
    assert shelf.append("u", [2]) == 2
    assert table_exists(plain, "t") is not None
    assert lance.dataset(describe_table(plain, "t").location).to_table()["x"].to_pylist() == [1, 2]


def test_enabling_an_empty_catalog(new_shelf):
    shelf = new_shelf("local", "v2")
    report = shelf.ns.enable_table_version_management()
    assert (report.tables, report.versions) == (0, 0)
    shelf.create("t", [1])
    assert shelf.version_rows() == {"t": [1]}


def test_enabling_in_v1_raises_unsupported(new_shelf):
    shelf = new_shelf("local", "v1")
    for switch in (shelf.ns.enable_table_version_management, shelf.ns.disable_table_version_management):
        with fails(0):
            switch()


def test_enabling_and_disabling_take_several_commits(new_shelf, monkeypatch):
    from pennon.directory import version_management

    monkeypatch.setattr(version_management, "_TABLES_PER_COMMIT", 2)
    monkeypatch.setattr(version_management, "_ROWS_PER_COMMIT", 3)
    shelf = new_shelf("local", "v2")
    for number in range(5):
        shelf.create(f"t{number}", [1], [2])
    steps = []
    report = shelf.ns.enable_table_version_management(progress=lambda *done: steps.append(done))
    assert steps == [(2, 5), (4, 5), (5, 5)]
    assert (report.tables, report.versions) == (5, 10)
    assert shelf.version_rows() == {f"t{number}": [1, 2] for number in range(5)}
    report = shelf.ns.disable_table_version_management()
    assert (report.tables, report.versions) == (5, 10)
    assert shelf.version_rows() == {}


@pytest.mark.parametrize("location", [None, "", "../outside"])
def test_disabling_removes_unfinished_versions_of_unusable_tables(new_shelf, location):
    """Such a version cannot be finished: its table does not exist or has an unusable location."""
    shelf = new_shelf("local", "v2-managed")
    shelf.create("t", [1])
    path = f"{location or ''}/_versions/1.manifest-abc"
    rows = [VersionRecord(1, path, staged_path=path).to_row("other")]
    if location is not None:
        rows.append(Row("other", TABLE, location))

    def plan(draft):
        for row in rows:
            draft.put(row)

    shelf.ns._catalog.manifest.mutate(plan)
    assert shelf.ns.disable_table_version_management().versions == 2
    assert not [key for key, row in shelf.manifest_rows().items() if row["object_type"] == "table_version"]


# Interruptions


@pytest.mark.parametrize("attempts", [0, 1, 2])
def test_interrupted_enabling_can_be_repeated(new_shelf, monkeypatch, attempts):
    from pennon.directory import version_management

    monkeypatch.setattr(version_management, "_TABLES_PER_COMMIT", 1)
    shelf = new_shelf("local", "v2")
    for name in ("t", "u", "w"):
        shelf.create(name, [1], [2])
    real, left = Manifest.mutate, attempts

    def mutate(self, plan):
        nonlocal left
        if left == 0:
            raise OSError("no space left")
        left -= 1
        return real(self, plan)

    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "mutate", mutate)
        with fails(18, "no space left"):
            shelf.ns.enable_table_version_management()
    assert describe_table(shelf.ns, "t").managed_versioning is None
    assert len(shelf.version_rows()) == attempts
    # Tables are changed while version management is off.
    shelf.delete("t", (1, 2))
    append_by_path(shelf, "u", [3])
    shelf.ns.enable_table_version_management()
    assert shelf.version_rows() == {"t": [2], "u": [1, 2, 3], "w": [1, 2]}
    assert shelf.append("u", [4]) == 4
    shelf.check_same("u")


def test_files_decide_if_enabling_is_interrupted_at_the_end(new_shelf, open_namespace, monkeypatch):
    """All rows exist, but the flag is not set."""
    shelf = new_shelf("local", "compatibility")
    for name in ("t", "u", "w"):
        shelf.create(name, [1], [2])

    def refuse(_, __):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "update_metadata", refuse)
        with fails(18):
            shelf.ns.enable_table_version_management()
    assert describe_table(shelf.ns, "t").managed_versioning is None
    assert shelf.append("t", [3]) == 3
    assert shelf.list_versions("t") == [1, 2, 3]
    plain = open_namespace(shelf.where, "v1")
    drop_table(plain, "u", purge="true")
    create_table(plain, "u", data=ipc({"x": [9]}))
    drop_table(shelf.ns, "w")
    shelf.version_rows()
    shelf.ns.enable_table_version_management()
    assert shelf.version_rows() == {"t": [1, 2, 3], "u": [1]}
    assert shelf.rows("u") == [9]
    shelf.check_same("u")
    shelf.ns.undrop_table(["w"])
    assert shelf.version_rows()["w"] == [1, 2]


def test_interrupted_disabling_can_be_repeated(new_shelf, monkeypatch):
    shelf = new_shelf("local", "v2-managed")
    shelf.create("t", [1], [2])
    shelf.append_unfinished(monkeypatch, "t", [3])
    real, left = Manifest.mutate, 1

    def mutate(self, plan):
        nonlocal left
        if left == 0:
            raise OSError("no space left")
        left -= 1
        return real(self, plan)

    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "mutate", mutate)
        with fails(18):
            shelf.ns.disable_table_version_management()
    assert shelf.version_rows() == {"t": [1, 2, 3]}
    assert describe_table(shelf.ns, "t").managed_versioning is None
    assert shelf.append("t", [4]) == 4
    shelf.ns.disable_table_version_management()
    assert shelf.version_rows() == {}
    assert shelf.rows("t") == [1, 2, 3, 4]


def test_version_added_while_disabling_is_kept(new_shelf, monkeypatch):
    """The writer had not seen the change, and died before it finished the version."""
    shelf = new_shelf("local", "v2-managed")
    shelf.create("t", [1])
    real = Manifest.update_metadata

    def update(self, changes):
        shelf.append_unfinished(monkeypatch, "t", [2])
        real(self, changes)

    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "update_metadata", update)
        shelf.ns.disable_table_version_management()
    assert shelf.version_rows() == {}
    assert shelf.plain_rows("t") == [1, 2]
    shelf.check_same("t")


def test_table_written_while_enabling_is_imported(new_shelf, monkeypatch):
    shelf = new_shelf("local", "v2")
    shelf.create("t", [1])
    real = Manifest.update_metadata

    def update(self, changes):
        append_by_path(shelf, "t", [2])
        shelf.create("new", [1])
        real(self, changes)

    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "update_metadata", update)
        shelf.ns.enable_table_version_management()
    assert shelf.version_rows() == {"new": [1], "t": [1, 2]}
    assert shelf.rows("t") == [1, 2]


# Writers that bypass the catalog


def test_next_commit_imports_a_version_that_bypassed_the_catalog(managed_shelf):
    shelf = managed_shelf
    shelf.create("t", [1])
    assert append_by_path(shelf, "t", [2]) == 2
    assert shelf.describe_version("t", 2).version == 2
    assert shelf.list_versions("t") == [1, 2]
    assert shelf.append("t", [3]) == 3
    assert shelf.version_rows() == {shelf.key("t"): [1, 2, 3]}
    assert shelf.rows("t") == [1, 2, 3]
    shelf.check_same("t")


# Other clients


@pytest.mark.interop
@pytest.mark.parametrize("place", ["v2", "compatibility"])
def test_reference_client_reads_but_refuses_to_write(new_shelf, place):
    shelf = new_shelf("local", place)
    create_namespace(shelf.ns, "n")
    create_table(shelf.ns, "n", "inner", data=ipc({"x": [5]}))
    shelf.create("t", [1], [2])
    shelf.ns.enable_table_version_management()
    shelf.append("t", [3])
    reference = Reference(root=shelf.where.uri, **MODES[place])
    assert list_tables(reference) == ["t"]
    assert list_tables(reference, "n") == ["inner"]
    location = describe_table(reference, "t").location
    assert lance.dataset(location).to_table()["x"].to_pylist() == [1, 2, 3]
    before = shelf.manifest_rows()
    for write in (
        lambda: create_table(reference, "n", "x", data=ipc({"x": [1]})),
        lambda: create_namespace(reference, "m"),
        lambda: declare_table(reference, "n", "y"),
    ):
        with fails(0, "writer feature flags 65536, which this version of Lance does not understand"):
            write()
    assert shelf.manifest_rows() == before
    shelf.ns.disable_table_version_management()
    fresh = Reference(root=shelf.where.uri, **MODES[place])
    create_table(fresh, "n", "x", data=ipc({"x": [1]}))
    assert list_tables(shelf.ns, "n") == ["inner", "x"]
