"""Pages while tables are created, changed, renamed, dropped, restored and purged."""

from __future__ import annotations

import itertools
import random
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
import urllib3

from pennon import DirectoryNamespace
from pennon.errors import LanceNamespaceError
from tests.server.served import served
from tests.support import create_namespace, create_table, drop_table, ipc

NAMES = ("a", "b", "c")
ROUNDS = 150
VIEWS = ("", "/rows", "/versions", "/compare", "/code", "?version=1", "/media?column=id&row=0")
PATHS = (
    "/",
    "/pages/namespace/n",
    "/pages/tree/n",
    "/pages/search?q=a",
    "/pages/search?q=i&in=columns",
    "/pages/search?q=o&in=properties",
    "/pages/health",
    "/pages/trash",
    "/pages/trash?namespace=n",
    *(f"/pages/table/n${name}{view}" for name in NAMES for view in VIEWS),
    *(f"/pages/trash/purge?id=n${name}" for name in NAMES),
)
EXPECTED = {200, 400, 404, 409}


def change(catalog: DirectoryNamespace, seed: int) -> Counter[str]:
    """Change tables at random; return how often each kind of change was possible."""
    rng = random.Random(seed)
    done: Counter[str] = Counter()
    for _ in range(ROUNDS):
        name, other = rng.sample(NAMES, 2)
        changes = {
            "create": lambda name=name: create_table(catalog, "n", name, data=ipc({"id": [1, 2]})),
            "append": lambda name=name: catalog.open_dataset(["n", name]).insert(pa.table({"id": [3]})),
            "rename": lambda name=name, other=other: catalog.rename_table(
                {"id": ["n", name], "new_table_name": other, "new_namespace_id": ["n"]}
            ),
            "drop": lambda name=name: drop_table(catalog, "n", name),
            "restore": lambda name=name: catalog.undrop_table(["n", name]),
            "purge": lambda name=name: catalog.purge_table(["n", name], force=True),
        }
        kind = rng.choice(list(changes))
        try:
            changes[kind]()
        except (LanceNamespaceError, OSError):
            continue
        done[kind] += 1
    return done


@pytest.mark.parametrize("managed", [False, True], ids=["plain", "managed"])
def test_no_page_breaks_while_tables_change(tmp_path, managed):
    with DirectoryNamespace(root=str(tmp_path), dir_listing_enabled="false") as catalog:
        if managed:
            catalog.enable_table_version_management()
        create_namespace(catalog, "n")
        for name in NAMES:
            create_table(catalog, "n", name, data=ipc({"id": [1, 2]}))
        finished = threading.Event()

        def look(url: str, start: int) -> Counter[tuple[str, int]]:
            seen: Counter[tuple[str, int]] = Counter()
            with urllib3.PoolManager(retries=False, timeout=60.0) as browser:
                for path in itertools.islice(itertools.cycle(PATHS), start, None):
                    if finished.is_set() and seen.total() >= len(PATHS):
                        return seen
                    seen[path, browser.request("GET", url + path, redirect=False).status] += 1
            return seen

        with served(catalog) as url, ThreadPoolExecutor(4) as pool:
            looking = [pool.submit(look, url, start) for start in (0, len(PATHS) // 2)]
            changing = [pool.submit(change, catalog, seed) for seed in (1, 2)]
            try:
                done = sum((one.result() for one in changing), Counter())
            finally:
                finished.set()
            seen = sum((one.result() for one in looking), Counter())
    assert len(done) == 6, f"some changes were never possible: {done}"
    assert {key: count for key, count in seen.items() if key[1] not in EXPECTED} == {}
