"""Operations on versions keep to their budgets of store requests, where the catalog manages versions.

The budgets are what is needed now; lower one when it needs less. Of an append, Lance itself makes seven requests.
"""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest
from lance import LanceOperation
from lance.fragment import write_fragments

from pennon.directory.manifest import TABLE, Row
from pennon.directory.multi_table.transactions import TableCommit
from pennon.directory.versions.record import VersionRecord
from tests.support import create_namespace, create_table, describe_table, ipc, wait_for_background_work

pytestmark = pytest.mark.s3

ROOT, CHILD = "root", "child"
PLACES = [("v2", ROOT), ("v2", CHILD), ("compatibility", ROOT), ("compatibility", CHILD)]
BUDGETS = {
    #  In each of the places. For a root table in compatibility mode, the root is checked as well.
    "latest": (1, 1, 3, 1),
    "describe the latest": (1, 1, 3, 1),
    "describe the latest by number": (1, 1, 3, 1),
    "describe an old one": (2, 2, 4, 2),
    "list": (2, 2, 4, 2),
    "open": (4, 4, 8, 4),
}
APPEND = (24, 24, 30, 24)
BATCH_OF_THREE = (47, 47, 65, 47)
TABLES = ["a", "b", "c"]
ROWS = pa.table({"who": ["more"]})


def managed(ns, parent):
    """Create tables with managed versions, and run some operations on one of them.

    There are few commits, so that no upkeep of the manifest is counted.
    """
    if parent:
        create_namespace(ns, *parent)
    for name in TABLES:
        create_table(ns, *parent, name, data=ipc({"who": ["first"]}))
    ns.enable_table_version_management()
    append(ns, [*parent, "a"])
    wait_for_background_work()


def options(ns):
    return ns._catalog.store.storage_options


def append(ns, identifier):
    lance.write_dataset(ROWS, namespace_client=ns, table_id=identifier, mode="append", storage_options=options(ns))


def prepare(ns, parent):
    """Prepare an append to each table."""
    commits = []
    for name in TABLES:
        location = describe_table(ns, *parent, name).location
        fragments = write_fragments(ROWS, location, mode="append", storage_options=options(ns))
        version = ns.describe_table_version({"id": [*parent, name]}).version.version
        commits.append(TableCommit([*parent, name], LanceOperation.Append(fragments), version))
    return commits


QUESTIONS = {
    "latest": lambda ns, table: ns.list_table_versions({"id": table, "limit": 1, "descending": True}),
    "describe the latest": lambda ns, table: ns.describe_table_version({"id": table}),
    "describe the latest by number": lambda ns, table: ns.describe_table_version({"id": table, "version": 2}),
    "describe an old one": lambda ns, table: ns.describe_table_version({"id": table, "version": 1}),
    "list": lambda ns, table: ns.list_table_versions({"id": table}),
    "open": lambda ns, table: lance.dataset(namespace_client=ns, table_id=table, storage_options=options(ns)),
}


@pytest.mark.parametrize(("mode", "place"), PLACES)
def test_operations_on_versions_keep_to_their_budgets(mode, place, s3, s3_root, open_namespace):
    ns = open_namespace(s3_root, mode)
    parent = ["parent"] if place == CHILD else []
    column = PLACES.index((mode, place))
    managed(ns, parent)

    for operation, limits in BUDGETS.items():
        with s3.count() as count:
            QUESTIONS[operation](ns, [*parent, "a"])
        assert count.total <= limits[column], f"{operation}, at most {limits[column]}: {count.summary()}"
        assert {request.method for request in count.requests} <= {"GET", "HEAD"}

    commits = prepare(ns, parent)
    with s3.count() as count:
        ns.commit_tables(commits)
        wait_for_background_work()
    assert count.total <= BATCH_OF_THREE[column], f"a batch, at most {BATCH_OF_THREE[column]}: {count.summary()}"

    with s3.count() as count:
        append(ns, [*parent, "a"])
        wait_for_background_work()
    assert count.total <= APPEND[column], f"an append, at most {APPEND[column]}: {count.summary()}"


def test_version_reads_cost_the_same_with_many_other_versions(s3, s3_root, open_namespace):
    writer = open_namespace(s3_root, "v2")
    managed(writer, [])
    rows = []
    for number in range(100):
        key, location = f"t{number}", f"{number:08x}_t"
        rows.append(Row(key, TABLE, location))
        rows += [VersionRecord(version, "").with_final_path(location, None).to_row(key) for version in range(1, 101)]

    def plan(draft):
        for row in rows:
            draft.put(row)

    writer._catalog.manifest.mutate(plan)
    ns = open_namespace(s3_root, "v2")
    assert ns.describe_table_version({"id": ["t99"]}).version.version == 100

    for operation in ("latest", "describe the latest", "describe the latest by number"):
        with s3.count() as count:
            QUESTIONS[operation](ns, ["a"])
        assert count.total <= 1, f"{operation}: {count.summary()}"
