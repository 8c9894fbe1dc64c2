"""Restoring a version, and transactions."""

from __future__ import annotations

import uuid

import lance
import pyarrow as pa
import pytest
from lance_namespace import (
    AlterTransactionRequest,
    CreateTableBranchRequest,
    DescribeTransactionRequest,
    RestoreTableRequest,
)

from tests.support import declare_table, fails
from tests.table.tables import append, by_path, numbers, opened, values, version


def restore(ns, at, **options):
    return ns.restore_table(RestoreTableRequest(id=["t"], version=at, **options))


def describe(ns, *transaction):
    return ns.describe_transaction(DescribeTransactionRequest(id=list(transaction)))


def alter(ns, transaction, *actions):
    return ns.alter_transaction(AlterTransactionRequest(id=["t", transaction], actions=list(actions)))


@pytest.fixture
def grown(namespace):
    """Return a namespace whose table `t` has three versions."""
    numbers(namespace)
    append(namespace, "t", {"x": [10], "s": ["word10"]})
    append(namespace, "t", {"x": [11], "s": ["word11"]})
    return namespace


def test_restoring_commits_a_version_with_the_old_rows(grown):
    restore(grown, 1)
    assert version(grown) == 4
    assert values(grown) == list(range(10))
    assert values(grown, version=3) == list(range(12))


def test_a_restored_table_can_be_restored_again(grown):
    restore(grown, 1)
    restore(grown, 3)
    assert version(grown) == 5
    assert values(grown) == list(range(12))
    append(grown, "t", {"x": [12], "s": ["word12"]})
    assert values(grown) == list(range(13))


def test_restoring_the_latest_version_changes_no_rows(grown):
    restore(grown, 3)
    assert values(grown) == list(range(12))


@pytest.mark.parametrize("at", [99, 4, 0])
def test_restoring_a_missing_version_raises_version_not_found(grown, at):
    with fails(11):
        restore(grown, at)
    assert version(grown) == 3


def test_restoring_in_a_missing_branch_raises_branch_not_found(grown):
    with fails(22):
        restore(grown, 1, branch="nowhere")
    assert version(grown) == 3


def test_restoring_a_branch_leaves_the_main_one_alone(grown):
    grown.create_table_branch(CreateTableBranchRequest(id=["t"], name="side"))
    append(grown, "t", {"x": [20], "s": ["a"]}, branch="side")
    restore(grown, 3, branch="side")
    side = by_path(grown).checkout_version(("side", None))
    assert (side.version, side.count_rows()) == (5, 12)
    assert version(grown) == 3


def test_restoring_a_missing_or_declared_table_raises(ours):
    with fails(4):
        restore(ours, 1)
    declare_table(ours, "t")
    with fails(11):
        restore(ours, 1)


def test_a_restored_version_is_one_of_the_catalog(managed):
    numbers(managed)
    append(managed, "t", {"x": [10], "s": ["word10"]})
    restore(managed, 1)
    assert [one.version for one in managed.list_table_versions({"id": ["t"]}).versions] == [3, 2, 1]


def test_a_transaction_is_found_by_the_id_in_the_response(grown):
    answer = restore(grown, 1)
    found = describe(grown, "t", answer.transaction_id)
    assert found.status.lower() == "succeeded"
    assert found.properties["operation"] == "Restore"
    assert found.properties["uuid"] == answer.transaction_id
    assert found.properties["version"] == "4"
    assert found.properties["read_version"] == "3"


def test_a_transaction_is_found_by_its_version(grown):
    found = describe(grown, "t", "2")
    assert found.properties["operation"] == "Append"
    assert found.properties["version"] == "2"
    assert describe(grown, "t", found.properties["uuid"]).properties == found.properties


def test_a_transaction_has_the_properties_of_its_writer(ours):
    numbers(ours)
    dataset = opened(ours)
    data = pa.table({"x": [1], "s": ["a"]})
    lance.write_dataset(data, dataset, mode="append", transaction_properties={"job": "night", "uuid": "mine"})
    found = describe(ours, "t", "2").properties
    assert found["job"] == "night"
    assert found["uuid"] != "mine"


def test_transactions_before_the_compaction_of_an_indexed_table_are_found(ours):
    """pylance cannot read the transaction of such a compaction."""
    numbers(ours)
    append(ours, "t", {"x": [20], "s": ["a"]})
    first = describe(ours, "t", "1").properties["uuid"]
    opened(ours).create_scalar_index("x", "BTREE")
    opened(ours).optimize.compact_files()
    latest = version(ours)
    with pytest.raises(TypeError):
        opened(ours).read_transaction(latest)
    with fails(10):
        describe(ours, "t", str(latest))
    assert describe(ours, "t", first).properties["version"] == "1"


def test_a_transaction_of_a_branch_is_found(ours):
    numbers(ours)
    ours.create_table_branch({"id": ["t"], "name": "side"})
    append(ours, "t", {"x": [20], "s": ["a"]}, branch="side")
    answer = restore(ours, 1, branch="side")
    found = describe(ours, "t", answer.transaction_id).properties
    assert (found["branch"], found["version"], found["operation"]) == ("side", "3", "Restore")


@pytest.mark.parametrize("wanted", ["99", "0", str(1 << 70), str(uuid.UUID(int=7)), "nonsense"])
def test_a_missing_transaction_raises_transaction_not_found(grown, wanted):
    with fails(10):
        describe(grown, "t", wanted)
    with fails(10):
        alter(grown, wanted, {"setStatusAction": {"status": "Succeeded"}})


def test_a_transaction_of_a_missing_table_raises_table_not_found(namespace):
    with fails(4):
        describe(namespace, "nowhere", "1")


def test_a_transaction_without_its_table_raises_invalid_input(namespace):
    for names in ([], ["alone"]):
        with fails(13):
            namespace.describe_transaction(DescribeTransactionRequest(id=names))


def test_actions_without_effect_succeed(grown):
    found = describe(grown, "t", "2")
    actions = (
        {"setStatusAction": {"status": "SUCCEEDED"}},
        {"setPropertyAction": {"key": "version", "value": "9", "mode": "Skip"}},
        {"setPropertyAction": {"key": "version", "value": "2"}},
        {"unsetPropertyAction": {"key": "nothing"}},
    )
    for action in actions:
        answer = alter(grown, "2", action)
        assert answer.status.lower() == "succeeded"
        assert answer.properties == found.properties


CHANGES = {
    "canceled": (0, {"setStatusAction": {"status": "Canceled"}}),
    "running": (0, {"setStatusAction": {"status": "running"}}),
    "new property": (0, {"setPropertyAction": {"key": "a", "value": "b"}}),
    "new property, skip": (0, {"setPropertyAction": {"key": "a", "value": "b", "mode": "skip"}}),
    "other value": (0, {"setPropertyAction": {"key": "version", "value": "9", "mode": "overwrite"}}),
    "unset": (0, {"unsetPropertyAction": {"key": "version"}}),
    "set fails": (13, {"setPropertyAction": {"key": "version", "value": "2", "mode": "Fail"}}),
    "unset fails": (13, {"unsetPropertyAction": {"key": "nothing", "mode": "fail"}}),
    "unknown status": (13, {"setStatusAction": {"status": "sleeping"}}),
    "unknown mode": (13, {"setPropertyAction": {"key": "a", "value": "b", "mode": "maybe"}}),
    "no key": (13, {"setPropertyAction": {"value": "b"}}),
    "no value": (13, {"setPropertyAction": {"key": "b"}}),
    "nothing": (13, {}),
}


@pytest.mark.parametrize("case", list(CHANGES))
def test_a_committed_transaction_cannot_be_changed(grown, case):
    code, action = CHANGES[case]
    before = describe(grown, "t", "2")
    fine = {"setStatusAction": {"status": "Succeeded"}}
    for actions in ((action,), (fine, action), (action, fine)):
        with fails(code):
            alter(grown, "2", *actions)
    assert describe(grown, "t", "2") == before


def test_an_empty_action_raises_invalid_input(ours):
    numbers(ours)
    with fails(13):
        ours.alter_transaction({"id": ["t", "1"], "actions": []})
