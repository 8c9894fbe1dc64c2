"""Executors that die during a merge: the table has each row once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from pennon.spark.address import Address
from tests.spark.merging import assert_clean, open_latest, read_rows, write_table

DRIVER = Path(__file__).parent / "cluster" / "merge_driver.py"


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.skipif(
    shutil.which("java") is None and "JAVA_HOME" not in os.environ, reason="Spark needs Java 17 or newer"
)
def test_merge_survives_killed_executors(root, tmp_path):
    lake = SimpleNamespace(address=Address.of("dir", {"root": root}))
    numbers = pa.array(range(6000), pa.int64())
    data = pa.table({"id": numbers, "x": numbers, "text": [f"text {number}" for number in range(6000)]})
    write_table(lake, "t", data, rows_per_file=300)
    signals = tmp_path / "signals"
    signals.mkdir()
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, str(DRIVER), root, str(signals)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=850,
        check=False,
    )
    assert done.returncode == 0, done.stderr[done.stderr.rfind("Traceback") :][:4000]
    told = sorted(path.name for path in signals.iterdir())
    steps = ["apply_changes", "write_deletion_vectors"]
    assert told == sorted([*steps, *(f"{step} by all others" for step in steps)])
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["first"] == {"version": 2, "inserted": 300, "updated": 270, "deleted": 30, "already": False}
    assert said["again"] == {**said["first"], "already": True}
    assert open_latest(lake).version == 2
    found = read_rows(lake)
    expected = {number: (number, f"text {number}") for number in range(6000)}
    for number in range(0, 12_000, 20):
        if number < 6000 and number % 200 == 0:
            del expected[number]
        else:
            expected[number] = (number * 10, f"merged {number}")
    assert len(found) == len(expected)
    assert {row["id"]: (row["x"], row["text"]) for row in found} == expected
    open_latest(lake).validate()
    assert_clean(lake)
