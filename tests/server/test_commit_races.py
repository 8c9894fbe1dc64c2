"""What happens to a commit when others come in between its look at the table and the commit itself."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pennon import DirectoryNamespace
from pennon.server.iceberg import commits, updates
from pennon.server.iceberg.models import CommitTableRequest, CommitTransactionRequest
from tests.support import create_namespace, create_table, describe_table, drop_table, fails

SET = [{"action": "set-properties", "updates": {"a": "b"}}]


@pytest.fixture
def catalog(tmp_path):
    with DirectoryNamespace(root=str(tmp_path / "root")) as namespace:
        namespace.enable_table_version_management()
        create_namespace(namespace, "s")
        create_table(namespace, "s", "t")
        create_table(namespace, "s", "u")
        yield namespace


@pytest.fixture
def between(monkeypatch):
    """Let something happen once, when the requirements of a commit have been checked."""
    original = updates.parse_updates

    def arrange(action) -> None:
        pending = [action]

        def parse_after_action(*arguments):
            while pending:
                pending.pop()()
            return original(*arguments)

        monkeypatch.setattr(updates, "parse_updates", parse_after_action)

    return arrange


def append(catalog, name: str) -> None:
    catalog._open_table(("s", name)).insert(pa.table({"x": [9]}))


def current(number: int) -> list[dict]:
    return [{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": number}]


def change(catalog, requirements: list[dict]) -> None:
    body = CommitTableRequest.model_validate({"requirements": requirements, "updates": SET})
    commits.update_table(catalog._catalog, ("s", "t"), body)


def test_a_version_that_comes_in_between_is_a_conflict(catalog, between):
    between(lambda: append(catalog, "t"))
    with fails(14, "another version"):
        change(catalog, current(1))
    assert describe_table(catalog, "s", "t").properties == {}
    change(catalog, current(2))
    assert describe_table(catalog, "s", "t").properties == {"a": "b"}


def test_version_in_between_is_no_conflict_without_the_requirement(catalog, between):
    between(lambda: append(catalog, "t"))
    change(catalog, [])
    assert describe_table(catalog, "s", "t").properties == {"a": "b"}


def test_table_replaced_in_between_is_unchanged(catalog, between):
    def recreate() -> None:
        drop_table(catalog, "s", "t")
        create_table(catalog, "s", "t")

    between(recreate)
    with fails(4):
        change(catalog, current(1))
    assert describe_table(catalog, "s", "t").properties == {}


def test_conflict_in_a_transaction_changes_nothing(catalog, between):
    between(lambda: append(catalog, "u"))
    changes = [
        {"identifier": {"namespace": ["s"], "name": name}, "requirements": current(1), "updates": SET}
        for name in ("u", "t")
    ]
    body = CommitTransactionRequest.model_validate({"table-changes": changes})
    with fails(14):
        commits.commit_transaction(catalog._catalog, body)
    assert describe_table(catalog, "s", "t").properties == {}
    assert describe_table(catalog, "s", "u").properties == {}
