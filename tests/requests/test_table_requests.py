"""Operations on tags, branches, indexes and columns of a warm table keep to their budgets of store requests.

The budgets are what is needed now; lower one when it needs less.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support import create_table, ipc, wait_for_background_work

if TYPE_CHECKING:
    from pennon import DirectoryNamespace

pytestmark = pytest.mark.s3

T = ["t"]
SLOW_SECONDS = 1.0
KINDS = ("v1", "v2", "managed")
STEPS = {
    # In this order; each with its most requests in V1, in V2 and where the catalog manages versions. Where it does not,
    # one request checks that the table was not replaced; after a tag, the check opens the table again.
    "create_table_tag": ({"tag": "a", "version": 1}, (9, 7, 8)),
    "get_table_tag_version": ({"tag": "a"}, (6, 5, 4)),
    "list_table_tags": ({}, (6, 5, 4)),
    "update_table_tag": ({"tag": "a", "version": 1}, (12, 10, 11)),
    "delete_table_tag": ({"tag": "a"}, (5, 4, 5)),
    "create_table_branch": ({"name": "b"}, (18, 16, 27)),
    "list_table_branches": ({}, (6, 5, 4)),
    "delete_table_branch": ({"name": "b"}, (15, 14, 15)),
    "create_table_index": ({"column": "x", "index_type": "BTREE", "name": "i"}, (11, 10, 26)),
    "list_table_indices": ({}, (3, 2, 3)),
    "describe_table_index_stats": ({"index_name": "i"}, (3, 2, 1)),
    "drop_table_index": ({"index_name": "i"}, (8, 7, 23)),
    "get_table_stats": ({}, (3, 2, 3)),
    "update_table_schema_metadata": ({"metadata": {"a": "b"}}, (8, 7, 23)),
    "alter_table_add_columns": ({"new_columns": [{"name": "y", "expression": "x + 1"}]}, (9, 8, 24)),
    "alter_table_alter_columns": ({"alterations": [{"path": "y", "rename": "z"}]}, (7, 6, 22)),
    "alter_table_drop_columns": ({"columns": ["z"]}, (8, 7, 23)),
    # This commit starts a round of upkeep in the background, whose requests are counted as well: 74 in all. Each of its
    # three commits of an index may meet the operation's own commit, and then takes 7 requests more.
    "restore_table": ({"version": 1}, (12, 11, 95)),
}


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    return request.param


@pytest.fixture
def ns(kind, s3_root, open_namespace) -> DirectoryNamespace:
    """Open a catalog with a table that is warm."""
    opened = open_namespace(s3_root, "v1" if kind == "v1" else "v2")
    if kind == "managed":
        opened.enable_table_version_management()
    create_table(opened, "t", data=ipc({"x": list(range(10))}))
    opened.get_table_stats({"id": T})
    return opened


def test_table_operations_keep_their_budgets(kind, ns, s3):
    over = []
    for operation, (fields, budgets) in STEPS.items():
        limit = budgets[KINDS.index(kind)]
        started = time.monotonic()
        with s3.count() as count:
            getattr(ns, operation)({"id": T, **fields})
            took = time.monotonic() - started
            wait_for_background_work()
        # A commit that takes a second on a busy machine lists the manifest's versions once more.
        if count.total > limit + (took > SLOW_SECONDS):
            over.append(f"{operation}, at most {limit}: {count.summary()}")
    assert not over, "\n".join(over)
