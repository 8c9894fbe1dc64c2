"""Operations on rows of a table that is warm keep to their budgets of store requests, and see what others commit.

Warm means that the table was asked before and nobody has committed since. To find the table and its latest version
costs one request for the catalog and, where the catalog does not manage versions, one for the table; who has committed
to such a table asks once more whether it is still the same. The budgets are what is needed now; lower one when it needs
less.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from pennon import DirectoryNamespace
from pennon.directory import managed_append
from pennon.directory.versions.base_cache import BaseCache
from tests.requests.test_table_requests import wait_for_background_work
from tests.support import create_table, drop_table, fails, ipc, list_tables, rename_table

pytestmark = pytest.mark.s3

ASKED = {
    "count": lambda ns: ns.count_table_rows({"id": ["t"]}).count,
    "query": lambda ns: ns.query_table({"id": ["t"], "k": 10, "vector": {}}).data,
}
BUDGETS = {
    #            count, query, insert
    "v1": (3, 3, 8),
    "v2": (2, 2, 7),
    "managed": (1, 1, 15),
}


def insert(ns, *values: int) -> int:
    return ns.insert_into_table({"id": ["t"]}, ipc({"x": list(values)})).version


def rows(ns) -> list[int]:
    return pa.ipc.open_file(ASKED["query"](ns)).read_all()["x"].to_pylist()


@pytest.fixture(params=list(BUDGETS))
def kind(request) -> str:
    return request.param


@pytest.fixture
def ns(kind, s3_root, open_namespace) -> DirectoryNamespace:
    """Open a catalog with a table that is warm."""
    opened = open_namespace(s3_root, "v1" if kind == "v1" else "v2")
    if kind == "managed":
        opened.enable_table_version_management()
    create_table(opened, "t", data=ipc({"x": [0]}))
    insert(opened, 1)
    wait_for_background_work()
    for ask in ASKED.values():
        ask(opened)
    return opened


def test_operations_on_rows_keep_to_their_budgets(kind, ns, s3):
    *asked, inserting = BUDGETS[kind]
    for (operation, ask), limit in zip(ASKED.items(), asked, strict=True):
        with s3.count() as count:
            ask(ns)
        assert count.total <= limit, f"{operation}, at most {limit}: {count.summary()}"
    with s3.count() as count:
        insert(ns, 2)
    assert count.total <= inserting, f"insert, at most {inserting}: {count.summary()}"


def test_changes_of_other_clients_are_seen(kind, ns):
    with DirectoryNamespace(**ns._properties) as other:
        for number in range(2, 5):
            insert(other, number)
            assert rows(ns) == list(range(number + 1))
        drop_table(other, "t", purge="true")
        with fails(4):
            rows(ns)
        create_table(other, "t", data=ipc({"x": [7]}))
        assert rows(ns) == [7]
        assert insert(ns, 8) == 2
        assert rows(other) == [7, 8]
        if kind != "v1":
            rename_table(other, "t", to="u")
            with fails(4):
                rows(ns)


@pytest.mark.parametrize("made_anew", [False, True])
def test_change_of_a_table_that_is_purged_concurrently_is_undone(kind, ns, monkeypatch, made_anew):
    # An insert into a managed table does not open it.
    owner, name = (managed_append, "make_append") if kind == "managed" else (ns, "_open_table")
    original = getattr(owner, name)

    def interrupted(*arguments, **options):
        result = original(*arguments, **options)
        monkeypatch.undo()
        drop_table(ns, "t", purge="true")
        if made_anew:
            create_table(ns, "t", data=ipc({"x": [7]}))
        return result

    monkeypatch.setattr(BaseCache, "is_recent", lambda _: False)
    monkeypatch.setattr(owner, name, interrupted)
    with fails(14):
        insert(ns, 2)
    if made_anew:
        assert rows(ns) == [7]
    else:
        assert list_tables(ns) == []
        with fails(4):
            rows(ns)
