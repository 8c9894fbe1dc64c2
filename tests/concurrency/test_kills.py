"""Processes that are killed (SIGKILL) at named points of an operation; then another client continues."""

from __future__ import annotations

import pytest
from lance_namespace.errors import TableNotFoundError

from tests.concurrency import workers
from tests.concurrency.crew import Child
from tests.concurrency.hooks import (
    CLAIM,
    COMMIT_DATA,
    COMMIT_ROWS,
    CREATE,
    DELETE,
    DELETE_TREE,
    PURGE_CLAIM,
    PUT,
    RELEASE,
    REMOVE_FILES,
    WRITE_DATA,
    WRITE_ROWS,
    after,
    before,
)
from tests.concurrency.places import TRASH, column, entries
from tests.support import (
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_namespace,
    describe_table,
    drop_namespace,
    fails,
    ipc,
    list_namespaces,
    list_tables,
    remove_table,
    rename_table,
)

pytestmark = pytest.mark.concurrency

ABSENT, DECLARED, OLD, KILLED = "absent", "declared", [0], [1] * workers.ROWS


def cases(modes, points):
    return [pytest.param(mode, point, id=f"{mode}-{point}") for mode in modes.split() for point in points]


def kill(root, mode, point, operation, name):
    with Child(workers.die_at, root, mode, point, operation, name) as child:
        child.wait_until_killed()


def state(root, ns, *names):
    """Return the state of a table for a client. The listing must agree."""
    listed = names[-1] in list_tables(ns, *names[:-1])
    try:
        described = describe_table(ns, *names, check_declared=True)
    except TableNotFoundError:
        assert not listed
        return ABSENT
    assert listed
    return DECLARED if described.is_only_declared else column(root, ns, *names)


def expect_usable(root, ns, *names, allowed):
    """Check that a table is in one of the allowed states, and that its name is usable at once."""
    seen = state(root, ns, *names)
    assert seen in allowed
    told = workers.attempt(create_table, ns, *names, data=ipc({"who": [2]}))
    if told.acknowledged:
        assert seen in (ABSENT, DECLARED)
        assert column(root, ns, *names) == [2]
    else:
        # The next client that uses the name may complete a creation that was killed after its commit.
        assert told.code == 5, told
        assert state(root, ns, *names) in allowed
        assert state(root, ns, *names) not in (ABSENT, DECLARED)
    remove_table(ns, *names)
    assert state(root, ns, *names) == ABSENT
    with fails(4):
        remove_table(ns, *names)
    create_table(ns, *names, data=ipc({"who": [3]}))
    assert column(root, ns, *names) == [3]
    remove_table(ns, *names)
    assert state(root, ns, *names) == ABSENT


def expect_nothing_left(root, name):
    """Check that no directory and no marker of a root table is left. Files in the trash may be left."""
    mine = {entry for entry in entries(root) if entry.startswith(f"{name}.")}
    assert mine == set()


@pytest.fixture
def prepared(disk, open_namespace):
    """Return a function that opens a root with an unrelated table."""

    def prepare(mode):
        ns = open_namespace(disk, mode)
        create_table(ns, "bystander", data=ipc({"who": ["bystander"]}))
        return ns

    return prepare


ROOT_TABLE_CREATION = [after(CLAIM), after(WRITE_DATA), after(COMMIT_DATA), before(RELEASE)]


@pytest.mark.parametrize(
    ("mode", "point"),
    cases("v1 compatibility", ROOT_TABLE_CREATION)
    + cases("compatibility", [before(COMMIT_ROWS), after(COMMIT_ROWS)])
    + cases("v2", [after(WRITE_DATA), after(COMMIT_DATA), before(COMMIT_ROWS), after(WRITE_ROWS), after(COMMIT_ROWS)]),
)
def test_killed_creation_leaves_a_complete_table_or_none(disk, prepared, open_namespace, mode, point):
    prepared(mode)
    kill(disk, mode, point, workers.create_own_rows, "t")
    ns = open_namespace(disk, mode)
    expect_usable(disk, ns, "t", allowed=[ABSENT, KILLED])
    assert list_tables(ns) == ["bystander"]
    assert column(disk, ns, "bystander") == ["bystander"]
    expect_nothing_left(disk, "t")


@pytest.mark.parametrize(
    ("mode", "point"),
    cases("v1 v2 compatibility", [after(COMMIT_DATA), before(DELETE)]) + cases("compatibility", [before(COMMIT_DATA)]),
)
def test_killed_filling_leaves_a_table_declared_or_complete(disk, prepared, open_namespace, mode, point):
    declare_table(prepared(mode), "t")
    kill(disk, mode, point, workers.create_own_rows, "t")
    expect_usable(disk, open_namespace(disk, mode), "t", allowed=[ABSENT, DECLARED, KILLED])
    expect_nothing_left(disk, "t")


@pytest.mark.parametrize(
    ("mode", "point"),
    cases("v1 compatibility", [after(CLAIM), after(PUT), after(CREATE, 2), before(RELEASE)])
    + cases("v2", [after(PUT), after(CREATE)])
    + cases("v2 compatibility", [before(COMMIT_ROWS), after(COMMIT_ROWS)]),
)
def test_killed_declaration_leaves_a_declared_table_or_none(disk, prepared, open_namespace, mode, point):
    prepared(mode)
    kill(disk, mode, point, workers.declare, "t")
    expect_usable(disk, open_namespace(disk, mode), "t", allowed=[ABSENT, DECLARED])
    expect_nothing_left(disk, "t")


@pytest.mark.parametrize(
    ("mode", "point"),
    cases(
        "v1 compatibility",
        [after(CREATE), after(PURGE_CLAIM), before(DELETE_TREE), before(REMOVE_FILES), after(DELETE_TREE)],
    )
    + cases("v2 compatibility", [before(COMMIT_ROWS), after(COMMIT_ROWS)])
    + cases("v2", [before(REMOVE_FILES)]),
)
def test_killed_drop_leaves_the_complete_table_or_none(disk, prepared, open_namespace, mode, point):
    create_table(prepared(mode), "t", data=ipc({"who": OLD}))
    kill(disk, mode, point, workers.drop, "t")
    ns = open_namespace(disk, mode)
    expect_usable(disk, ns, "t", allowed=[ABSENT, OLD])
    assert column(disk, ns, "bystander") == ["bystander"]
    expect_nothing_left(disk, "t")


@pytest.mark.parametrize(("mode", "point"), cases("v1 compatibility", [before(DELETE_TREE)]))
def test_killed_drop_can_be_repeated(disk, prepared, open_namespace, mode, point):
    create_table(prepared(mode), "t", data=ipc({"who": OLD}))
    kill(disk, mode, point, workers.drop, "t")
    ns = open_namespace(disk, mode)
    told = workers.attempt(remove_table, ns, "t")
    assert told.acknowledged or told.code == 4
    assert state(disk, ns, "t") == ABSENT
    create_table(ns, "t", data=ipc({"who": [2]}))
    assert column(disk, ns, "t") == [2]


@pytest.mark.parametrize(
    ("mode", "point"),
    cases("v2 compatibility", [before(COMMIT_ROWS), after(WRITE_ROWS), after(COMMIT_ROWS)])
    + cases("compatibility", [after(PUT), after(PUT, 2)]),
)
def test_killed_rename_leaves_one_of_the_two_names(disk, prepared, open_namespace, mode, point):
    create_table(prepared(mode), "t", data=ipc({"who": OLD}))
    kill(disk, mode, point, workers.rename_to_other, "t")
    ns = open_namespace(disk, mode)
    assert sorted([state(disk, ns, "t"), state(disk, ns, "other")], key=str) == sorted([ABSENT, OLD], key=str)
    if state(disk, ns, "t") == OLD:
        rename_table(ns, "t", to="other")
    assert column(disk, ns, "other") == OLD
    expect_usable(disk, ns, "t", allowed=[ABSENT])
    assert column(disk, ns, "other") == OLD
    remove_table(ns, "other")
    assert list_tables(ns) == ["bystander"]


@pytest.mark.parametrize("point", [before(COMMIT_ROWS), after(WRITE_ROWS), after(COMMIT_ROWS)], ids=str)
def test_killed_namespace_creation_leaves_a_complete_namespace_or_none(disk, prepared, open_namespace, point):
    prepared("v2")
    kill(disk, "v2", point, workers.make_namespace, "n")
    ns = open_namespace(disk, "v2")
    if "n" in list_namespaces(ns):
        assert describe_namespace(ns, "n").properties == {"who": "1"}
        drop_namespace(ns, "n")
    create_namespace(ns, "n")
    create_table(ns, "n", "t")
    assert list_namespaces(ns) == ["n"]


@pytest.mark.parametrize(
    ("mode", "point"),
    cases("v1 compatibility", [after(PUT), after(PUT, 2)]) + cases("v2 compatibility", [after(COMMIT_ROWS)]),
)
def test_killed_deregistration_can_be_repeated_and_undone(disk, prepared, open_namespace, mode, point):
    where = describe_location(prepared(mode), disk)
    kill(disk, mode, point, workers.deregister, "t")
    ns = open_namespace(disk, mode)
    told = workers.attempt(deregister_table, ns, "t")
    assert told.acknowledged or told.code == 4
    assert state(disk, ns, "t") == ABSENT
    told = workers.attempt(workers.register_table, ns, "t", location=where)
    assert told.acknowledged, told
    assert column(disk, ns, "t") == OLD


def describe_location(ns, root):
    create_table(ns, "t", data=ipc({"who": OLD}))
    return describe_table(ns, "t").location.removeprefix(f"{root.uri}/")


@pytest.mark.parametrize(
    ("mode", "point"),
    cases("v1 compatibility", [after(DELETE), after(DELETE, 2)]) + cases("compatibility", [after(COMMIT_ROWS)]),
)
def test_killed_registration_can_be_repeated(disk, prepared, open_namespace, mode, point):
    ns = prepared(mode)
    create_table(ns, "t", data=ipc({"who": OLD}))
    deregister_table(ns, "t")
    kill(disk, mode, point, workers.register_again, "t")
    ns = open_namespace(disk, mode)
    told = workers.attempt(workers.register_table, ns, "t", location="t.lance", mode="overwrite")
    assert told.acknowledged, told
    assert state(disk, ns, "t") == OLD
    remove_table(ns, "t")
    expect_nothing_left(disk, "t")


@pytest.mark.parametrize("point", [before(COMMIT_ROWS), after(WRITE_ROWS), after(COMMIT_ROWS)], ids=str)
def test_killed_migration_is_all_or_nothing_and_can_be_repeated(disk, open_namespace, point):
    v1 = open_namespace(disk, "v1")
    names = [f"t{number}" for number in range(20)]
    for name in names:
        create_table(v1, name, data=ipc({"who": [name]}))
    create_namespace(open_namespace(disk), "space")
    kill(disk, "compatibility", point, workers.migrate, "")
    assert len(list_tables(open_namespace(disk, "v2"))) in {0, len(names)}
    open_namespace(disk).migrate_to_manifest()
    ns = open_namespace(disk, "v2")
    assert list_tables(ns) == sorted(names)
    assert all(column(disk, ns, name) == [name] for name in names)
    report = open_namespace(disk).migrate_to_manifest()
    assert report.migrated == []


def test_killed_removal_leaves_files_only_in_the_trash(disk, prepared, open_namespace):
    create_table(prepared("v1"), "t")
    kill(disk, "v1", before(REMOVE_FILES), workers.drop, "t")
    ns = open_namespace(disk, "v1")
    assert list_tables(ns) == ["bystander"]
    create_table(ns, "t")
    assert entries(disk) == {"bystander.lance", "t.lance", TRASH}
