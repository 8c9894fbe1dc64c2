"""How Spark joins tables of a lake in a session in which nothing is set: it knows how large they are."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.plan_driver import ROWS

DRIVER = Path(__file__).with_name("plan_driver.py")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        shutil.which("java") is None and "JAVA_HOME" not in os.environ, reason="Spark needs Java 17 or newer"
    ),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Return the plans and sizes that a new process finds."""
    command = [sys.executable, str(DRIVER), str(tmp_path_factory.mktemp("plans") / "root")]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def broadcast_side(plan):
    """Return the side that a join broadcasts, or None."""
    side = re.search(r"Broadcast(?:HashJoin|NestedLoopJoin) .*?(BuildLeft|BuildRight)", plan)
    return side and side[1]


@pytest.mark.parametrize(
    ("name", "side"),
    [
        ("small side on the right", "BuildRight"),
        ("small side on the left", "BuildLeft"),
        ("tiny side", "BuildRight"),
        ("many columns", "BuildRight"),
        ("few columns of a large table", "BuildRight"),
        ("few rows", "BuildRight"),
    ],
)
def test_small_side_is_broadcast(found, name, side):
    assert broadcast_side(found["plans"][name]) == side
    assert "SortMergeJoin" not in found["plans"][name]


@pytest.mark.parametrize(
    "name", ["two large tables", "large table with many columns", "many rows", "rows in one place"]
)
def test_two_large_sides_are_sorted_and_merged(found, name):
    assert "SortMergeJoin" in found["plans"][name]
    assert broadcast_side(found["plans"][name]) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("one column", ROWS * (8 + 8)),
        ("two columns", ROWS * (8 + 16)),
        ("a small table", 50_000 * (8 + 16)),
        ("many columns", 20_000 * (8 + 31 * 8)),
    ],
)
def test_announced_size_is_that_of_the_columns_in_memory(found, name, expected):
    assert expected <= found["bytes"][name] <= expected * 1.05


def test_adaptive_execution_sees_the_real_size(found):
    matching = [number for number in range(ROWS) if str(number)[::-1].startswith("7777")]
    assert found["rows"] == [[sum(2 * (number * 7919 % 1000) for number in matching)]]
    assert broadcast_side(found["before"]) is None
    assert "isFinalPlan=true" in found["after"]
    assert broadcast_side(found["after"].partition("Initial Plan")[0]) is not None
