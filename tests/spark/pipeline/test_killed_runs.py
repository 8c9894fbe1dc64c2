"""Drivers are killed (SIGKILL) at every boundary of a run, and another process resumes the run.

At every boundary, no part of the run is visible alone, its rows exist once, and finished work is not repeated.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pennon.spark.address import Address
from tests.spark.pipeline.shop import Shop

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("java") is None and "JAVA_HOME" not in os.environ, reason="Spark needs Java"),
]

HERE = Path(__file__).parent
RECORD = "pennon.pipeline_runs.run_state:RunState.record"
PIPELINE = """
name: killed
vars: {files: null}
sources:
  orders_file:
    format: csv
    path: ${files}/orders.csv
    options: {header: true}
    schema: id BIGINT, customer STRING, amount DOUBLE, status STRING
steps:
  orders: SELECT *, uuid() AS token FROM orders_file
targets:
  - {table: shop.orders, from: orders, mode: merge, on: id, checks: [{unique: id}]}
  - {table: shop.log, from: orders}
"""
NEW = "  - {table: shop.new, from: orders, mode: overwrite}\n"
SECOND = [(1, "ada", 1.0, "open"), (5, "eve", 2.0, "paid")]

# The notes of a run, in order: step, intent and staging of each of three targets, checks, publishing.
STEP, INTENT, STAGED, INTENT_2, STAGED_2, INTENT_3, STAGED_3, CHECKED, PUBLISHING = range(1, 10)
POINTS = {
    # name: (point, work that is left for the next process: steps, targets, checks)
    "begun": (("after", "pennon.pipeline_runs.run_state:RunState.begin", 1), (1, 3, 1)),
    "step written": (("before", RECORD, STEP), (1, 3, 1)),
    "step noted": (("after", RECORD, STEP), (0, 3, 1)),
    "merge staged": (("before", RECORD, STAGED), (0, 3, 1)),
    "append half staged": (("after", "pennon.spark.tables:fragment_writer.write_dataframe", 1), (0, 2, 1)),
    "new table staged": (("before", RECORD, STAGED_3), (0, 1, 1)),
    "checked": (("after", RECORD, CHECKED), (0, 0, 0)),
    "about to publish": (("after", RECORD, PUBLISHING), (0, 0, 0)),
    "committed": (("after", "pennon.directory.manifest.manifest:Manifest.mutate", 1), (0, 0, 0)),
    "published": (("after", "pennon.spark.pipeline.targets:publish", 1), (0, 0, 0)),
    "outcome noted": (("before", "pennon.pipeline_runs.run_state:RunState.tidy", 1), (0, 0, 0)),
}
VISIBLE = {"committed", "published", "outcome noted"}
ALWAYS = {"committed"}
"""The point that `make test` covers; `make soak` covers the others."""


class Driver:
    """A driver in a separate process."""

    def __init__(self, port: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "driver_process.py"), port],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, shop: Shop, root: Path, **command) -> None:
        content = {
            "root": str(root),
            "files": str(shop.files),
            "pipeline": PIPELINE + NEW,
            "run_id": "second",
            **command,
        }
        self._process.stdin.write(json.dumps(content) + "\n")
        self._process.stdin.flush()

    def answer(self):
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["trace"]
        return answer

    def wait_until_killed(self) -> None:
        messages, _ = self._process.communicate(timeout=600)
        assert self._process.returncode == -signal.SIGKILL, messages

    def close(self) -> None:
        """Wait for the end of the process, unless it was killed."""
        if self._process.poll() is None:
            self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def port():
    """Start the Spark server of all drivers, and return its port."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "connect_server.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process.stdout.readline().strip()
    process.communicate(timeout=60)


@pytest.fixture(scope="module")
def survivor(port):
    """Start the driver that resumes the runs of killed ones."""
    driver = Driver(port)
    yield driver
    driver.close()


@pytest.fixture(scope="module")
def first(survivor, tmp_path_factory):
    """Create a shop with one published run, from which every test starts."""
    folder = tmp_path_factory.mktemp("shop")
    made = Shop(Address.of("dir", {"root": str(folder / "first")}), folder)
    made.write_orders()
    survivor.send(made, folder / "first", run_id="first", prepare=True, pipeline=PIPELINE)
    assert survivor.answer()["report"]["status"] == "published"
    shutil.rmtree(folder / "first/__pennon")
    made.write_orders(SECOND)
    return made


@pytest.mark.parametrize("name", [pytest.param(one, marks=() if one in ALWAYS else pytest.mark.soak) for one in POINTS])
def test_killed_run_is_resumed(name, first, port, survivor, tmp_path):
    (side, call, number), left = POINTS[name]
    root = tmp_path / "root"
    shutil.copytree(first.files / "first", root)
    shop = Shop(Address.of("dir", {"root": str(root)}), first.files)
    before = {"log": 1, "orders": 1}
    assert shop.versions() == before

    victim = Driver(port)
    victim.send(shop, root, strike=[side, call, number, signal.SIGKILL])
    victim.wait_until_killed()
    expected = {"log": 2, "new": 1, "orders": 2}
    assert shop.versions() == (expected if name in VISIBLE else before)

    survivor.send(shop, root)
    answer = survivor.answer()
    assert answer["report"]["status"] == ("already published" if name == "outcome noted" else "published")
    counts = answer["counts"]
    assert (counts["steps"], counts["writes"] + counts["merges"], counts["checks"]) == left
    assert shop.versions() == expected
    assert [row[0] for row in shop.rows("orders", "id")] == [1, 2, 3, 4, 5]
    assert len(shop.rows("log")) == 6
    assert shop.rows("new", "id") == [(1,), (5,)]
    # All three tables have the rows of the same evaluation.
    tokens = set(shop.rows("new", "token"))
    assert tokens <= set(shop.rows("log", "token"))
    assert tokens <= set(shop.rows("orders", "token"))
    assert len(tokens) == 2
    assert shop.leftovers() == []
