"""The doctor repairs beside writers and loses nothing, and repairs what killed writers left."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING

import pytest

from pennon import DirectoryNamespace, LakeCatalog
from tests.concurrency import workers
from tests.concurrency.crew import Child
from tests.concurrency.hooks import (
    CLAIM,
    COMMIT_DATA,
    COMMIT_MANIFEST,
    DELETE_TREE,
    PURGE_CLAIM,
    PUT_IN_PLACE,
    REMOVE_FILES,
    WRITE_DATA,
    after,
    before,
)
from tests.support import MODES, Root, create_table, drop_table, ipc

if TYPE_CHECKING:
    from pennon import Finding

pytestmark = pytest.mark.concurrency

WRITERS = 3
ROUNDS = 8
ROWS = [1, 2, 3]


def open_lake(root: Root, mode: str) -> LakeCatalog:
    return LakeCatalog(DirectoryNamespace(**root.properties, **MODES[mode]), progress=False)


def write(root: Root, mode: str, writer: int) -> None:
    """Create tables, append to them, drop and restore or purge some of them; the rest stays."""
    with open_lake(root, mode) as lake:
        for number in range(ROUNDS):
            name = f"w{writer}x{number}"
            lake.create_table(name, {"x": ROWS})
            lake[name].append({"x": [number]})
            if number % 4 == 1:
                lake.drop(name)
            elif number % 4 == 2:
                lake.drop(name, purge=True)
            elif number % 4 == 3:
                lake.drop(name)
                lake.undrop(name)
                lake[name].append({"x": [number]})


def repair_until_they_end(lake: LakeCatalog, children: list[Child]) -> list[Finding]:
    """Repair again and again, and return the errors that were found."""
    errors = []
    while any(child.is_alive() for child in children):
        errors += [one for one in lake.doctor(fix=True, probe=False).findings if one.severity == "error"]
    return errors


def expected_rows() -> dict[str, list[int]]:
    """Return the rows of the tables that stay."""
    again = {0: 1, 3: 2}
    names = itertools.product(range(WRITERS), range(ROUNDS))
    return {f"w{writer}x{one}": [*ROWS, *[one] * again[one % 4]] for writer, one in names if one % 4 in again}


@pytest.mark.parametrize(("mode", "managed"), [("v1", False), ("compatibility", False), ("compatibility", True)])
def test_repairs_beside_writers_lose_nothing(disk, mode, managed):
    with open_lake(disk, mode) as lake, contextlib.ExitStack() as stack:
        lake.create_table("first", {"x": ROWS})
        if managed:
            lake.manage_versions()
        children = [stack.enter_context(Child(write, disk, mode, writer)) for writer in range(WRITERS)]
        errors = repair_until_they_end(lake, children)
        assert [child.result() for child in children] == [None] * WRITERS
        assert errors == []
        report = lake.doctor(fix=True, deep=True)
        assert [one for one in report.findings if one.severity != "note"] == []
        found = {name: lake[name].to_arrow()["x"].to_pylist() for name in lake.tables()}
        assert found == {"first": ROWS, **expected_rows()}
        dropped = {f"w{writer}x{one}" for writer in range(WRITERS) for one in range(ROUNDS) if one % 4 == 1}
        assert {table.id[0] for table in lake.trash()} == dropped
        for name in dropped:
            lake.undrop(name)
            assert lake[name].count() == len(ROWS) + 1


def insert(ns, _: int, name: str) -> None:
    LakeCatalog(ns, progress=False)[name].append({"x": [4]})


KILLS = [
    ("v1", after(CLAIM), workers.create_own_rows, "new", "markers"),
    ("v1", after(WRITE_DATA), workers.create_own_rows, "new", "markers"),
    ("compatibility", after(COMMIT_DATA), workers.create_own_rows, "new", "markers"),
    ("compatibility", after(PURGE_CLAIM), workers.purge, "gone", "markers"),
    ("compatibility", before(REMOVE_FILES), workers.purge, "gone", "markers"),
    ("v2", before(DELETE_TREE), workers.purge, "gone", "trash"),
    ("v2", after(DELETE_TREE), workers.purge, "gone", "trash"),
    ("v2", before(COMMIT_MANIFEST), workers.create_own_rows, "new", None),
    ("managed", before(PUT_IN_PLACE), insert, "kept", "versions"),
    ("managed", after(PUT_IN_PLACE), insert, "kept", "versions"),
]


@pytest.mark.parametrize("kill", KILLS, ids=lambda kill: f"{kill[0]}-{kill[1]}")
def test_what_killed_clients_left_is_repaired(disk, kill):
    kind, point, operation, name, repaired = kill
    mode = "v2" if kind == "managed" else kind
    with open_lake(disk, mode) as lake:
        if kind == "managed":
            lake.manage_versions()
        for one in ("kept", "gone", "other"):
            create_table(lake.namespace, one, data=ipc({"x": ROWS}))
        for one in ("gone", "other"):
            drop_table(lake.namespace, one)
    with Child(workers.die_at, disk, mode, point, operation, name) as child:
        child.wait_until_killed()
    with open_lake(disk, mode) as lake:
        report = lake.doctor(fix=True, deep=True)
        assert report.is_healthy, report.findings
        assert [check.name for check in report.checks if check.repaired] == ([repaired] if repaired else [])
        assert {one.subject for one in report.findings} <= young_directories(disk, lake)
        assert lake["kept"].to_arrow()["x"].to_pylist()[:3] == ROWS
        assert [table.id for table in lake.trash() if table.id != ["gone"]] == [["other"]]
        assert not any(table.being_purged for table in lake.trash())
        lake.undrop("other")
        assert lake["other"].count() == 3
        lake.create_table("new", {"x": ROWS}, mode="overwrite" if "new" in lake else "create")
        assert lake["new"].count() == 3


def young_directories(disk: Root, lake: LakeCatalog) -> set[str]:
    """Return the directories that a creation may have left, which are kept."""
    store = lake.namespace.catalog.store
    return {name for name in store.list_names("") if name[8:9] == "_"}
