"""Outer markers beside the directories serve listings; inner markers in the directories serve other clients."""

from __future__ import annotations

import pytest

from tests.directory.on_disk import directory, files, rows, write_table
from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_table,
    fails,
    ipc,
    list_all_tables,
    list_tables,
    register_table,
    remove_table,
    table_exists,
)


@pytest.fixture(params=["v1", "compatibility"])
def listing_mode(request):
    return request.param


@pytest.fixture
def ns(root, listing_mode, open_namespace):
    """Open a root in a mode that lists directories."""
    return open_namespace(root, listing_mode)


def write_inner_marker(ns, name, marker=".lance-deregistered"):
    """Write an inner marker, as the reference client does."""
    (directory(ns) / f"{name}.lance" / marker).write_bytes(b"reserved")


def markers(ns):
    return sorted(
        path
        for path in files(ns)
        if not path.startswith("__manifest/")
        and "data/" not in path
        and "_versions/" not in path
        and "_transactions/" not in path
    )


def test_deregister_writes_outer_and_inner_markers(ns):
    create_table(ns, "t")
    deregister_table(ns, "t")
    assert markers(ns) == ["t.deregistered", "t.lance/.lance-deregistered"]
    assert (directory(ns) / "t.lance/.lance-deregistered").read_bytes() == b"reserved"


def test_register_removes_both_markers(ns):
    create_table(ns, "t")
    deregister_table(ns, "t")
    register_table(ns, "t", location="t.lance")
    assert markers(ns) == []


def test_drop_and_purge_removes_both_markers(ns):
    create_table(ns, "t")
    deregister_table(ns, "t")
    remove_table(ns, "t")
    assert markers(ns) == []
    assert create_table(ns, "t").version == 1


def test_deregister_of_a_nested_table_leaves_no_marker(root, open_namespace):
    ns = open_namespace(root)
    create_namespace(ns, "a")
    create_table(ns, "a", "t")
    deregister_table(ns, "a", "t")
    assert not [path for path in files(ns) if "deregistered" in path]


def test_declare_writes_the_same_reserved_marker_as_other_clients(ns):
    declare_table(ns, "t")
    assert markers(ns) == ["t.declared", "t.lance/.lance-reserved"]
    assert (directory(ns) / "t.lance/.lance-reserved").read_bytes() == b"reserved"
    create_table(ns, "t")
    assert markers(ns) == ["t.lance/.lance-reserved"]


def test_create_leaves_no_marker(ns):
    create_table(ns, "t")
    assert markers(ns) == []


def test_inner_marker_of_another_client_hides_the_table_from_single_lookups(ns):
    write_table(directory(ns) / "t.lance", [7])
    write_inner_marker(ns, "t")
    for call in (describe_table, table_exists, deregister_table):
        with fails(4, naming="t'"):
            call(ns, "t")
    for mode in ("create", "exist_ok", "overwrite"):
        with fails(5, naming="deregistered"):
            create_table(ns, "t", mode=mode)
    assert rows(directory(ns) / "t.lance") == [7]


def test_listing_reads_inner_markers_only_with_legacy_markers(ns, root, listing_mode, open_namespace):
    for name in ("t", "u"):
        write_table(directory(ns) / f"{name}.lance")
    write_inner_marker(ns, "t")
    assert list_tables(ns) == ["t", "u"]
    careful = open_namespace(root, listing_mode, legacy_markers="true")
    assert list_tables(careful) == ["u"]
    assert list_all_tables(careful) == ["u"]


def test_listing_with_legacy_markers_hides_rows_with_inner_markers(root, open_namespace):
    ns = open_namespace(root, "compatibility", legacy_markers="true")
    for name in ("t", "u"):
        create_table(ns, name)
    write_inner_marker(ns, "t")
    with fails(4):
        describe_table(ns, "t")
    assert list_tables(ns) == ["u"]
    assert list_all_tables(ns) == ["u"]


def test_listing_with_legacy_markers_includes_tables_declared_by_other_clients(root, listing_mode, open_namespace):
    ns = open_namespace(root, listing_mode, legacy_markers="true")
    create_table(ns, "t")
    (directory(ns) / "u.lance").mkdir()
    write_inner_marker(ns, "u", ".lance-reserved")
    assert list_tables(ns) == ["t", "u"]
    assert list_tables(ns, include_declared=False) == ["t"]
    assert describe_table(ns, "u", check_declared=True).is_only_declared is True


def test_migrate_markers_writes_outer_markers(ns):
    for name in ("gone", "here"):
        write_table(directory(ns) / f"{name}.lance")
    write_inner_marker(ns, "gone")
    (directory(ns) / "promised.lance").mkdir()
    write_inner_marker(ns, "promised", ".lance-reserved")
    assert list_tables(ns) == ["gone", "here", "promised"]
    report = ns.migrate_markers()
    assert (report.deregistered, report.declared, report.dry_run) == (["gone"], ["promised"], False)
    assert list_tables(ns) == ["here", "promised"]
    assert list_tables(ns, include_declared=False) == ["here"]
    with fails(4):
        describe_table(ns, "gone")


def test_migrate_markers_dry_run_changes_nothing(ns):
    write_table(directory(ns) / "gone.lance")
    write_inner_marker(ns, "gone")
    before = files(ns)
    report = ns.migrate_markers(dry_run=True)
    assert (report.deregistered, report.dry_run) == (["gone"], True)
    assert files(ns) == before
    assert list_tables(ns) == ["gone"]


def test_migrate_markers_twice_changes_nothing(ns):
    write_table(directory(ns) / "gone.lance")
    write_inner_marker(ns, "gone")
    (directory(ns) / "promised.lance").mkdir()
    write_inner_marker(ns, "promised", ".lance-reserved")
    ns.migrate_markers()
    before = files(ns)
    report = ns.migrate_markers()
    assert (report.deregistered, report.declared) == ([], [])
    assert files(ns) == before


def test_register_removes_a_migrated_marker(ns):
    write_table(directory(ns) / "t.lance", [7])
    write_inner_marker(ns, "t")
    ns.migrate_markers()
    register_table(ns, "t", location="t.lance")
    assert list_tables(ns) == ["t"]
    assert markers(ns) == []


def test_table_with_an_inner_marker_can_be_dropped(ns):
    write_table(directory(ns) / "t.lance")
    write_inner_marker(ns, "t")
    remove_table(ns, "t")
    assert not (directory(ns) / "t.lance").exists()
    assert list_tables(ns) == []


def test_marker_without_directory_is_not_a_table(ns):
    directory(ns).mkdir(parents=True, exist_ok=True)
    for suffix in ("deleted", "deregistered", "declared"):
        (directory(ns) / f"t.{suffix}").write_bytes(b"reserved")
    assert list_tables(ns) == []
    with fails(4):
        describe_table(ns, "t")


def test_released_claim_does_not_hide_the_table(ns):
    # A store without conditional deletes releases a claim by writing a body that is too short for a marker.
    create_table(ns, "t", data=ipc({"x": [1]}))
    (directory(ns) / "t.deleted").write_bytes(b"{}")
    assert list_tables(ns) == ["t"]
    table_exists(ns, "t")
    remove_table(ns, "t")
    create_table(ns, "t")
    assert list_tables(ns) == ["t"]
