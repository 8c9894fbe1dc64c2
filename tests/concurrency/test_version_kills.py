"""Processes that are killed (SIGKILL) at each step of a version's commit; then another client continues.

The steps: the manifest is staged, its row is committed, the file is copied to its final name, the row is changed to
point there, and the staged file is deleted. Once the row is committed, the version exists for all clients.
"""

from __future__ import annotations

import lance
import pytest
from lance_namespace.errors import TableVersionNotFoundError

from pennon.directory.versions import version_files, version_rows
from tests.concurrency import version_workers, workers
from tests.concurrency.crew import Child
from tests.concurrency.hooks import (
    COMMIT_ROWS,
    FINISH,
    PUBLISH_ROWS,
    PUT_IN_PLACE,
    UPDATE_METADATA,
    UPLOAD_ROWS,
    after,
    before,
)
from tests.concurrency.places import column
from tests.concurrency.version_workers import BATCH
from tests.support import create_table, describe_table, drop_table, fails, ipc, list_tables, rename_table

pytestmark = pytest.mark.concurrency

FIRST, KILLED, NEXT = "first", "killed", "next"

ABSENT = [before(COMMIT_ROWS)]
"""Points before the commit of the row: nothing has happened."""
THERE = [after(COMMIT_ROWS), after(PUT_IN_PLACE), before(COMMIT_ROWS, 2), after(COMMIT_ROWS, 2), after(FINISH)]
"""Points after it: before the copy, after the copy, before and after the change of the row, after the deletion."""
ABSENT_IN_BUCKET = [before(UPLOAD_ROWS), before(PUBLISH_ROWS)]
"""Points before the commit of the row in a bucket."""
THERE_IN_BATCH = [
    after(COMMIT_ROWS),
    after(PUT_IN_PLACE, 2),
    after(PUT_IN_PLACE, 3),
    after(COMMIT_ROWS, 2),
    after(FINISH),
]


def kill(root, mode, point, operation, name="t"):
    with Child(workers.die_at, root, mode, point, operation, name) as child:
        child.wait_until_killed()


def latest(ns, name):
    (newest,) = ns.list_table_versions({"id": [name], "limit": 1, "descending": True}).versions
    return newest.version


def open_it(root, ns, name):
    return lance.dataset(namespace_client=ns, table_id=[name], storage_options=root.options or None)


# The first client after the kill: each function returns the latest version that it saw.


def _list_the_latest(_, ns, name):
    return latest(ns, name)


def _list_all(_, ns, name):
    return max(one.version for one in ns.list_table_versions({"id": [name]}).versions)


def _describe(_, ns, name):
    try:
        return ns.describe_table_version({"id": [name], "version": 2}).version.version
    except TableVersionNotFoundError:
        return 1


def _describe_the_latest(_, ns, name):
    return ns.describe_table_version({"id": [name]}).version.version


def _open(root, ns, name):
    return open_it(root, ns, name).version


def _append(root, ns, name):
    return version_workers.append(ns, root, name, NEXT) - 1


VISITORS = {
    "lists": _list_the_latest,
    "lists-all": _list_all,
    "describes": _describe,
    "describes-the-latest": _describe_the_latest,
    "opens": _open,
    "appends": _append,
}


def expect_finished(root, ns, name, version):
    """Check that a plain reader finds a version, and that its row is finished."""
    plain = lance.dataset(describe_table(ns, name).location, storage_options=root.options or None)
    assert plain.version == version
    table = version_rows.ManagedTable(name, ns._store.relative(describe_table(ns, name).location))
    records = ns._catalog.manifest.read(lambda snapshot: version_rows.list_records(snapshot, table))
    assert version in records
    assert not any(record.is_unfinished for record in records.values())


def expect_version(root, ns, name, version, rows):
    """Check that a version is the latest and complete for all clients, and then for a plain reader."""
    assert latest(ns, name) == version
    assert [one.version for one in ns.list_table_versions({"id": [name]}).versions] == list(range(version, 0, -1))
    for number in range(1, version + 1):
        described = ns.describe_table_version({"id": [name], "version": number}).version
        store = ns._catalog.store
        assert store.size(store.from_absolute(described.manifest_path)) is not None
        assert ".manifest-" not in described.manifest_path
    dataset = open_it(root, ns, name)
    assert (dataset.version, dataset.to_table()["who"].to_pylist()) == (version, rows)
    plain = lance.dataset(describe_table(ns, name).location, storage_options=root.options or None)
    assert plain.version == version
    assert column(root, ns, name) == rows
    with fails(11):
        ns.describe_table_version({"id": [name], "version": version + 1})


def expect_all_or_nothing(root, mode, open_namespace, names, visitor, *, there):
    """Let a visitor read each table: all later clients see the same version, and can append to it."""
    ns = open_namespace(root, mode)
    rows = [FIRST, KILLED] if there else [FIRST]
    for name in names:
        assert VISITORS[visitor](root, ns, name) == len(rows)
    added = [NEXT] if visitor == "appends" else []
    for name in names:
        expect_finished(root, ns, name, len(rows + added))
    for client in (ns, open_namespace(root, mode)):
        for name in names:
            expect_version(root, client, name, len(rows + added), rows + added)
    for name in names:
        assert version_workers.append(ns, root, name, "last") == len(rows + added) + 1
        expect_version(root, open_namespace(root, mode), name, len(rows + added) + 1, [*rows, *added, "last"])


@pytest.fixture
def prepared(open_namespace):
    """Return a function that creates a root with managed tables."""

    def prepare(root, mode, *names):
        ns = open_namespace(root, mode)
        for name in names:
            create_table(ns, name, data=ipc({"who": [FIRST]}))
        ns.enable_table_version_management()
        return ns

    return prepare


def cases(mode, visitor, points, *marks):
    return [pytest.param(mode, visitor, point, id=f"{mode}-{visitor}-{point}", marks=marks) for point in points]


@pytest.mark.parametrize(
    ("mode", "visitor", "point"),
    cases("v2", "opens", ABSENT + THERE)
    + cases("v2", "appends", [*ABSENT, *THERE[:2]])
    + cases("v2", "lists", THERE[:1])
    + cases("v2", "lists-all", THERE[:1])
    + cases("v2", "describes", THERE[:1])
    + cases("v2", "describes-the-latest", THERE[:1])
    + cases("compatibility", "opens", [*ABSENT, *THERE[:2]])
    + cases("v2", "appends", THERE[2:], pytest.mark.soak)
    + cases("v2", "lists-all", THERE[1:], pytest.mark.soak)
    + cases("v2", "describes", THERE[1:], pytest.mark.soak)
    + cases("compatibility", "opens", THERE[2:], pytest.mark.soak)
    + cases("compatibility", "appends", ABSENT + THERE, pytest.mark.soak),
)
def test_killed_append_is_visible_to_all_or_to_nobody(mode, visitor, point, *, disk, prepared, open_namespace):
    prepared(disk, mode, "t")
    kill(disk, mode, point, version_workers.append_row)
    expect_all_or_nothing(disk, mode, open_namespace, ["t"], visitor, there=point in THERE)


@pytest.mark.parametrize(
    ("mode", "visitor", "point"),
    cases("v2", "opens", ABSENT + THERE_IN_BATCH)
    + cases("v2", "appends", THERE_IN_BATCH[:1])
    + cases("compatibility", "opens", THERE_IN_BATCH[:1])
    + cases("v2", "appends", THERE_IN_BATCH[1:], pytest.mark.soak)
    + cases("compatibility", "opens", ABSENT + THERE_IN_BATCH[1:], pytest.mark.soak),
)
def test_killed_batch_is_in_all_tables_or_in_none(mode, visitor, point, *, disk, prepared, open_namespace):
    prepared(disk, mode, *BATCH)
    kill(disk, mode, point, version_workers.commit_batch)
    expect_all_or_nothing(disk, mode, open_namespace, BATCH, visitor, there=point in THERE_IN_BATCH)


@pytest.mark.s3
@pytest.mark.parametrize(
    ("operation", "names", "point"),
    [
        pytest.param(operation, ["t"], point, id=f"{operation.__name__}-{point}")
        for operation in (version_workers.append_row, version_workers.insert_row)
        for point in [*ABSENT_IN_BUCKET, after(PUBLISH_ROWS), after(PUT_IN_PLACE), before(PUBLISH_ROWS, 2)]
    ]
    + [
        pytest.param(version_workers.commit_batch, BATCH, point, id=f"batch-{point}")
        for point in (after(PUBLISH_ROWS), after(PUT_IN_PLACE, 2))
    ],
)
def test_kill_in_a_bucket_leaves_all_or_nothing(operation, names, point, *, bucket, prepared, open_namespace):
    prepared(bucket, "v2", *names)
    kill(bucket, "v2", point, operation)
    expect_all_or_nothing(bucket, "v2", open_namespace, names, "opens", there=point not in ABSENT_IN_BUCKET)


def _drop_and_restore(ns):
    drop_table(ns, "t")
    ns.undrop_table(["t"])
    return "t"


def _rename(ns):
    rename_table(ns, "t", to="aside")
    return "aside"


@pytest.mark.parametrize("move", [_drop_and_restore, _rename], ids=lambda move: move.__name__.strip("_"))
@pytest.mark.parametrize("mode", ["v2", "compatibility"])
def test_unfinished_version_moves_with_its_table(disk, prepared, open_namespace, mode, move):
    prepared(disk, mode, "t")
    kill(disk, mode, after(COMMIT_ROWS), version_workers.append_row)
    name = move(open_namespace(disk, mode))
    expect_all_or_nothing(disk, mode, open_namespace, [name], "opens", there=True)


# A store that fails once, after the commit


@pytest.fixture
def failing(monkeypatch):
    """Return a function that makes the `number`-th call of a function fail."""

    def fail(owner, name, number):
        calls = []
        original = getattr(owner, name)

        def failing_once(*arguments):
            calls.append(name)
            if len(calls) == number:
                raise OSError("the store does not answer")
            return original(*arguments)

        monkeypatch.setattr(owner, name, failing_once)
        return calls

    return fail


@pytest.mark.parametrize("number", [1, 2, 3])
def test_batch_that_cannot_be_finished_is_in_all_tables(disk, prepared, open_namespace, failing, number):
    ns = prepared(disk, "v2", *BATCH)
    calls = failing(version_files, "put_in_place", number)
    told = workers.attempt(version_workers.commit_batch, ns, 1, "")
    assert len(calls) >= number
    assert told.acknowledged, told
    expect_all_or_nothing(disk, "v2", open_namespace, BATCH, "opens", there=True)


@pytest.mark.parametrize(("owner", "name"), [("storage", "put_in_place"), ("store", "delete"), ("manifest", "mutate")])
def test_append_that_cannot_be_finished_exists_once(owner, name, *, disk, prepared, open_namespace, failing):
    ns = prepared(disk, "v2", "t")
    owners = {"storage": version_files, "store": ns._catalog.store, "manifest": ns._catalog.manifest}
    calls = failing(owners[owner], name, 2 if owner == "manifest" else 1)  # the first mutation is the commit
    version_workers.append_row(ns, 1, "t")
    assert calls
    expect_all_or_nothing(disk, "v2", open_namespace, ["t"], "opens", there=True)


# Turning version management on and off

TABLES = ["a", "b", "c"]


def kill_managing(root, mode, point, what):
    with Child(version_workers.die_managing, root, mode, point, what) as child:
        child.wait_until_killed()


def new_tables_of_two_versions(ns, root):
    for name in TABLES:
        create_table(ns, name, data=ipc({"who": [FIRST]}))
        version_workers.append(ns, root, name, KILLED)


def expect_managed(root, mode, open_namespace, *, managed):
    ns = open_namespace(root, mode)
    assert sorted(list_tables(ns)) == TABLES
    for name in TABLES:
        assert (describe_table(ns, name).managed_versioning is True) == managed
        expect_version(root, ns, name, 2, [FIRST, KILLED])
    snapshot = ns._catalog.manifest.read(lambda one: one)
    expected = {name: [1, 2] for name in TABLES} if managed else {}
    assert {key: snapshot.versions_of(key) for key in snapshot.versioned_tables()} == expected
    for name in TABLES:
        assert version_workers.append(ns, root, name, "last") == 3


@pytest.mark.parametrize(
    ("mode", "point"),
    [
        ("v2", before(COMMIT_ROWS)),
        ("v2", after(COMMIT_ROWS)),  # the first of two, for the first two tables
        ("v2", before(UPDATE_METADATA)),
        ("v2", after(UPDATE_METADATA)),
        ("compatibility", after(COMMIT_ROWS)),
        ("compatibility", before(UPDATE_METADATA)),
    ],
    ids=str,
)
def test_killed_enabling_can_be_repeated(disk, open_namespace, mode, point):
    ns = open_namespace(disk, mode)
    new_tables_of_two_versions(ns, disk)
    kill_managing(disk, mode, point, "enable")
    again = open_namespace(disk, mode)
    for name in TABLES:
        expect_version(disk, again, name, 2, [FIRST, KILLED])
    again.enable_table_version_management()
    expect_managed(disk, mode, open_namespace, managed=True)


@pytest.mark.parametrize(
    ("mode", "point"),
    [
        ("v2", after(PUT_IN_PLACE)),
        ("v2", after(COMMIT_ROWS)),  # the commit that finishes versions
        ("v2", before(UPDATE_METADATA)),
        ("v2", after(UPDATE_METADATA)),
        ("v2", after(COMMIT_ROWS, 2)),  # the first commit that removes rows
        ("compatibility", after(UPDATE_METADATA)),
    ],
    ids=str,
)
def test_killed_disabling_can_be_repeated_and_undone(disk, open_namespace, mode, point):
    ns = open_namespace(disk, mode)
    for name in TABLES:
        create_table(ns, name, data=ipc({"who": [FIRST]}))
    ns.enable_table_version_management()
    for name in TABLES[1:]:
        version_workers.append(ns, disk, name, KILLED)
    kill(disk, mode, after(COMMIT_ROWS), version_workers.append_row, TABLES[0])  # leaves an unfinished version
    kill_managing(disk, mode, point, "disable")
    open_namespace(disk, mode).disable_table_version_management()
    expect_managed(disk, mode, open_namespace, managed=False)


@pytest.mark.parametrize("point", [before(UPDATE_METADATA), after(UPDATE_METADATA), after(COMMIT_ROWS)], ids=str)
def test_version_management_can_be_enabled_after_killed_disabling(disk, open_namespace, point):
    ns = open_namespace(disk, "v2")
    new_tables_of_two_versions(ns, disk)
    ns.enable_table_version_management()
    kill_managing(disk, "v2", point, "disable")
    open_namespace(disk, "v2").enable_table_version_management()
    expect_managed(disk, "v2", open_namespace, managed=True)
