"""Branches of tables."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from lance_namespace import (
    CreateTableBranchRequest,
    CreateTableTagRequest,
    DeleteTableBranchRequest,
    ListTableBranchesRequest,
)

from pennon.table import branches
from tests.support import declare_table, describe_table, fails
from tests.table.tables import append, by_path, numbers, opened, values, version


def create(ns, name, **options):
    return ns.create_table_branch(CreateTableBranchRequest(id=["t"], name=name, **options))


def delete(ns, name):
    return ns.delete_table_branch(DeleteTableBranchRequest(id=["t"], name=name))


def listed(ns, **options):
    return ns.list_table_branches(ListTableBranchesRequest(id=["t"], **options))


@pytest.fixture
def branched(namespace):
    """Return a namespace whose table `t` has two versions."""
    numbers(namespace)
    append(namespace, "t", {"x": [10], "s": ["word10"]})
    return namespace


def rows(ns, branch):
    return by_path(ns).checkout_version((branch, None)).count_rows()


def test_a_branch_begins_at_the_latest_version(branched):
    create(branched, "side")
    found = listed(branched).branches
    assert list(found) == ["side"]
    assert found["side"].parent_version == 2
    assert found["side"].parent_branch is None
    assert found["side"].manifest_size > 0
    assert found["side"].create_at > 1_700_000_000
    assert rows(branched, "side") == 11


def test_a_branch_begins_at_the_requested_version(branched):
    create(branched, "old", from_version=1)
    assert listed(branched).branches["old"].parent_version == 1
    assert rows(branched, "old") == 10


def test_a_branch_begins_at_another_branch(branched):
    create(branched, "side", from_version=1)
    append(branched, "t", {"x": [20, 21], "s": ["a", "b"]}, branch="side")
    create(branched, "deep/er", from_branch="side")
    create(branched, "early", from_branch="side", from_version=1)
    found = listed(branched).branches
    assert (found["deep/er"].parent_branch, found["deep/er"].parent_version) == ("side", 2)
    assert rows(branched, "deep/er") == 12
    assert rows(branched, "early") == 10


def test_branches_are_independent_of_the_main_branch(branched):
    create(branched, "side")
    append(branched, "t", {"x": [20], "s": ["a"]}, branch="side")
    append(branched, "t", {"x": [30], "s": ["a"]})
    assert rows(branched, "side") == 12
    assert values(branched)[-1] == 30
    assert by_path(branched).checkout_version(("side", None)).to_table()["x"].to_pylist()[-1] == 20


def test_creating_a_branch_creates_no_version_of_the_table(branched):
    create(branched, "side")
    delete(branched, "side")
    assert version(branched) == 2
    assert opened(branched).count_rows() == 11


def test_creating_an_existing_branch_raises_branch_exists(branched):
    create(branched, "side", from_version=1)
    with fails(23, "side"):
        create(branched, "side")
    assert listed(branched).branches["side"].parent_version == 1


@pytest.mark.parametrize("at", [99, 3])
def test_a_branch_from_a_missing_version_raises_version_not_found(branched, at):
    with fails(11):
        create(branched, "side", from_version=at)
    create(branched, "other", from_version=1)
    with fails(11):
        create(branched, "side", from_branch="other", from_version=at)
    assert list(listed(branched).branches) == ["other"]


def test_a_branch_from_a_missing_branch_raises_branch_not_found(branched):
    with fails(22, "nowhere"):
        create(branched, "side", from_branch="nowhere")
    assert listed(branched).branches == {}


def test_deleting_a_missing_branch_raises_branch_not_found(branched):
    with fails(22, "nowhere"):
        delete(branched, "nowhere")


def test_a_deleted_branch_is_not_listed_any_more(branched):
    create(branched, "side")
    delete(branched, "side")
    assert listed(branched).branches == {}
    with fails(22):
        delete(branched, "side")
    create(branched, "side", from_version=1)
    assert rows(branched, "side") == 10


def test_deleting_a_branch_with_descendants_raises_invalid_table_state(branched):
    create(branched, "side")
    create(branched, "child", from_branch="side")
    with fails(19, "child"):
        delete(branched, "side")
    delete(branched, "child")
    branched.create_table_tag(CreateTableTagRequest(id=["t"], tag="held", version=2, branch="side"))
    with fails(19, "held"):
        delete(branched, "side")
    assert list(listed(branched).branches) == ["side"]


@pytest.mark.parametrize("name", ["", "a b", "..", "main", "/a", "a//b", "a\\b", "a/../b"])
def test_an_invalid_branch_name_raises_invalid_input(branched, name):
    with fails(13):
        create(branched, name)
    assert listed(branched).branches == {}


def test_branches_come_in_pages(branched):
    names = [f"b{i}" for i in range(5)]
    for name in reversed(names):
        create(branched, name)
    first = listed(branched, limit=3)
    assert list(first.branches) == names[:3]
    second = listed(branched, limit=3, page_token=first.page_token)
    assert list(second.branches) == names[3:]
    assert not second.page_token


def test_branches_of_a_missing_table_raise_table_not_found(namespace):
    asks = (lambda: listed(namespace), lambda: create(namespace, "a"), lambda: delete(namespace, "a"))
    for ask in asks:
        with fails(4):
            ask()


def test_branches_of_a_declared_table_raise_only_declared(ours):
    declare_table(ours, "t")
    for ask in (lambda: listed(ours), lambda: create(ours, "a"), lambda: delete(ours, "a")):
        with fails(19):
            ask()


def test_the_versions_of_branches_are_not_those_of_the_catalog(managed):
    numbers(managed)
    create(managed, "side")
    append(managed, "t", {"x": [20], "s": ["a"]}, branch="side")
    assert [one.version for one in managed.list_table_versions({"id": ["t"]}).versions] == [1]
    assert [one.version for one in managed.list_table_versions({"id": ["t"], "branch": "side"}).versions] == [2, 1]


def leave_half_a_branch(ns, name, seconds_ago):
    """Leave what a client leaves that dies before it names its branch: only the first version exists."""
    place = Path(describe_table(ns, "t").location)
    by_path(ns).create_branch(name, 2)
    (place / "_refs" / "branches" / f"{name}.json").unlink()
    then = time.time() - seconds_ago
    for file in (place / "tree" / name / "_versions").iterdir():
        os.utime(file, (then, then))


def test_leftovers_of_a_dead_client_are_not_part_of_a_new_branch(ours):
    numbers(ours)
    append(ours, "t", {"x": [10], "s": ["word10"]})
    leave_half_a_branch(ours, "side", branches.LEASE_SECONDS + 5)
    create(ours, "side", from_version=1)
    assert rows(ours, "side") == 10
    assert listed(ours).branches["side"].parent_version == 1


def test_creating_a_branch_that_another_client_creates_raises_conflict(ours):
    numbers(ours)
    append(ours, "t", {"x": [10], "s": ["word10"]})
    leave_half_a_branch(ours, "side", 1)
    with fails(14, "side"):
        create(ours, "side", from_version=1)
    assert listed(ours).branches == {}


def test_a_claim_on_a_branch_ends_with_its_client(ours, monkeypatch):
    numbers(ours)
    with ours._claim_branch(("t",), "side"):
        with fails(14, "side"):
            create(ours, "side")
        create(ours, "other")
        monkeypatch.setattr(branches, "LEASE_SECONDS", -1.0)
        create(ours, "side")
    assert list(listed(ours).branches) == ["other", "side"]
    refs = Path(describe_table(ours, "t").location) / "_refs"
    assert not list(refs.glob("*.claim"))


RANGES = [{"start_version": 7, "end_version": 8}]
VERSIONED = {
    "list": lambda ns, **asked: [one.version for one in ns.list_table_versions({"id": ["t"], **asked}).versions],
    "latest": lambda ns, **asked: ns.describe_table_version({"id": ["t"], **asked}).version.version,
    "version": lambda ns, **asked: ns.describe_table_version({"id": ["t"], "version": 1, **asked}).version.version,
    "delete": lambda ns, **asked: (
        ns.batch_delete_table_versions({"id": ["t"], "ranges": RANGES, **asked}).deleted_count
    ),
    "describe": lambda ns, **asked: ns.describe_table({"id": ["t"], "load_detailed_metadata": True, **asked}).version,
}


@pytest.mark.parametrize("ask", list(VERSIONED))
def test_versions_of_the_main_branch_by_its_name(ours, ask):
    numbers(ours)
    assert VERSIONED[ask](ours, branch="main") == VERSIONED[ask](ours) == {"list": [1], "delete": 0}.get(ask, 1)


@pytest.mark.parametrize("ask", list(VERSIONED))
@pytest.mark.parametrize("branch", ["nowhere", "../t.lance", "", "a b"])
def test_versions_of_a_missing_branch_raise_branch_not_found(ours, ask, branch):
    numbers(ours)
    with fails(22):
        VERSIONED[ask](ours, branch=branch)


def test_a_deleted_branch_has_no_versions_while_a_branch_below_it_exists(ours):
    numbers(ours)
    for name in ("a", "a/b"):
        create(ours, name)
    delete(ours, "a")
    for call in (ours.list_table_versions, ours.describe_table_version):
        with fails(22, "a"):
            call({"id": ["t"], "branch": "a"})
    assert [one.version for one in ours.list_table_versions({"id": ["t"], "branch": "a/b"}).versions] == [1]
    create(ours, "a")
    assert [one.version for one in ours.list_table_versions({"id": ["t"], "branch": "a"}).versions] == [1]
