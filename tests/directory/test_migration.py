"""Migration adds a row to the manifest for every V1 directory."""

from __future__ import annotations

import pytest

from tests.directory.on_disk import directory, files, has_manifest, manifest, manifest_rows, rows, write_table
from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_table,
    fails,
    ipc,
    list_tables,
    remove_table,
    rename_table,
)


@pytest.fixture(params=["v2", "compatibility"])
def migrator(request, root, open_namespace):
    """Open a root in a mode that has a manifest."""
    return open_namespace(root, request.param)


def reasons(report):
    return {entry.name: entry.reason for entry in report.skipped}


def test_migration_adds_a_row_for_every_directory(migrator):
    names = ["a", "b c", "it's", "%20", "ü"]
    for name in names:
        write_table(directory(migrator) / f"{name}.lance")
    report = migrator.migrate_to_manifest()
    assert [(table.name, table.location) for table in report.migrated] == sorted(
        (name, f"{name}.lance") for name in names
    )
    assert (report.already, report.skipped, report.dry_run) == ([], [], False)
    assert {key: row["location"] for key, row in manifest_rows(migrator).items()} == {n: f"{n}.lance" for n in names}


def test_migrated_v1_tables_are_visible_in_v2_at_the_same_location(root, open_namespace):
    v1, both, v2 = (open_namespace(root, mode) for mode in ("v1", "compatibility", "v2"))
    locations = {name: create_table(v1, name, data=ipc({"x": [n]})).location for n, name in enumerate("abc")}
    assert list_tables(v2) == []
    both.migrate_to_manifest()
    assert list_tables(v2) == list_tables(both) == list_tables(v1) == ["a", "b", "c"]
    for number, name in enumerate("abc"):
        assert describe_table(v2, name).location == locations[name]
        assert rows(locations[name]) == [number]


def test_migrated_tables_can_be_renamed_and_dropped_in_v2(root, open_namespace):
    v1, v2 = open_namespace(root, "v1"), open_namespace(root, "v2")
    for name in "abc":
        create_table(v1, name)
    v2.migrate_to_manifest()
    remove_table(v2, "a")
    rename_table(v2, "b", to="new")
    assert list_tables(v2) == ["c", "new"]
    assert list_tables(v1) == ["c"]
    with fails(4):
        describe_table(v1, "a")
    assert rows(describe_table(v2, "new").location) == [1, 2, 3]


def test_migration_reports_skipped_entries_with_the_reason(migrator):
    top = directory(migrator)
    write_table(top / "fine.lance")
    (top / "file.lance").write_text("no directory")
    (top / "empty.lance").mkdir()
    for name in ("a$b", "__x"):
        write_table(top / f"{name}.lance")
    write_table(top / "beside.lance")
    (top / "beside.deregistered").write_bytes(b"reserved")
    write_table(top / "inside.lance")
    (top / "inside.lance/.lance-deregistered").write_bytes(b"reserved")
    report = migrator.migrate_to_manifest()
    assert [table.name for table in report.migrated] == ["fine"]
    skipped = reasons(report)
    assert sorted(skipped) == sorted(["file", "empty", "a$b", "__x", "beside", "inside"])
    assert "file" in skipped["file"]
    assert "empty" in skipped["empty"]
    assert "delimiter" in skipped["a$b"]
    assert "__" in skipped["__x"]
    assert "deregistered" in skipped["beside"]
    assert "deregistered" in skipped["inside"]
    assert list(manifest_rows(migrator)) == ["fine"]


def test_migration_skips_names_with_a_row_elsewhere(root, open_namespace):
    v2, both = open_namespace(root, "v2"), open_namespace(root, "compatibility")
    hashed = create_table(v2, "t").location
    create_namespace(v2, "n")
    for name in ("t", "n"):
        write_table(directory(both) / f"{name}.lance", [7])
    report = both.migrate_to_manifest()
    assert report.migrated == []
    skipped = reasons(report)
    assert "table" in skipped["t"]
    assert "namespace" in skipped["n"]
    assert describe_table(v2, "t").location == hashed
    assert rows(directory(both) / "t.lance") == [7]


def test_migration_keeps_existing_rows(root, open_namespace):
    both = open_namespace(root)
    create_table(both, "known", properties={"k": "v"})
    write_table(directory(both) / "new.lance")
    report = both.migrate_to_manifest()
    assert ([table.name for table in report.migrated], report.already) == (["new"], ["known"])
    assert describe_table(both, "known").properties == {"k": "v"}


def test_migration_ignores_a_renamed_root_table(root, open_namespace):
    both = open_namespace(root)
    create_table(both, "old")
    rename_table(both, "old", to="new")
    report = both.migrate_to_manifest()
    assert report.migrated == []
    assert "old" not in reasons(report)
    assert list_tables(both) == ["new"]


def test_migrated_declared_table_is_still_declared(root, open_namespace):
    v1, v2 = open_namespace(root, "v1"), open_namespace(root, "v2")
    declare_table(v1, "t")
    assert [table.name for table in v2.migrate_to_manifest().migrated] == ["t"]
    assert describe_table(v2, "t", check_declared=True).is_only_declared is True
    assert list_tables(v2, include_declared=False) == []


def test_migration_dry_run_reports_the_same_and_changes_nothing(migrator):
    top = directory(migrator)
    for name in ("a", "b", "x$y"):
        write_table(top / f"{name}.lance")
    before = files(migrator)
    trial = migrator.migrate_to_manifest(dry_run=True)
    assert files(migrator) == before
    assert not has_manifest(migrator)
    assert trial.dry_run
    done = migrator.migrate_to_manifest()
    assert (trial.migrated, trial.already, trial.skipped) == (done.migrated, done.already, done.skipped)


def test_second_migration_changes_nothing(migrator):
    for name in ("a", "b", "x$y"):
        write_table(directory(migrator) / f"{name}.lance")
    first = migrator.migrate_to_manifest()
    before = files(migrator)
    again = migrator.migrate_to_manifest()
    assert files(migrator) == before
    assert (again.migrated, again.already, again.skipped) == ([], ["a", "b"], first.skipped)


def test_migration_of_an_empty_root_creates_no_manifest(migrator):
    report = migrator.migrate_to_manifest()
    assert (report.migrated, report.already, report.skipped) == ([], [], [])
    assert not has_manifest(migrator)


def test_migration_of_many_tables_is_one_commit(migrator):
    create_namespace(migrator, "n")
    top = directory(migrator)
    for number in range(300):
        (top / f"t{number:03}.lance" / "_versions").mkdir(parents=True)
        (top / f"t{number:03}.lance" / "_versions" / "1.manifest").write_bytes(b"")
    before = manifest(migrator).version
    assert len(migrator.migrate_to_manifest().migrated) == 300
    assert manifest(migrator).version == before + 1
    assert manifest(migrator).count_rows() == 301


def test_migration_can_be_the_first_commit_of_a_root(migrator):
    for name in ("a", "b"):
        write_table(directory(migrator) / f"{name}.lance")
    migrator.migrate_to_manifest()
    assert manifest(migrator).version == 1
    assert manifest(migrator).count_rows() == 2


def test_migration_in_v1_raises_unsupported(root, open_namespace):
    v1 = open_namespace(root, "v1")
    with fails(0, naming="manifest_enabled"):
        v1.migrate_to_manifest()


def test_migration_keeps_a_deregistered_table_deregistered(root, open_namespace):
    both = open_namespace(root)
    create_table(both, "t")
    deregister_table(both, "t")
    assert "deregistered" in reasons(both.migrate_to_manifest())["t"]
    assert list_tables(both) == []
    assert list_tables(open_namespace(root, "v2")) == []
