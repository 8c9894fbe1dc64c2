"""Programs that run without an activated environment: Spark's workers find Pennon, or `attach` names the setting.

Each test starts a real program with the interpreter of an environment, and with a search path on which `python3` is an
interpreter without Pennon.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from pennon.spark.session_settings import classic_context
from pennon.spark.worker_python import require_pennon_in_workers
from tests.support import fails

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java 17 or newer"),
]

PROGRAM = """
import sys
from pyspark.sql import SparkSession
from pennon.spark import attach

builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
how, root = sys.argv[1:]
spark = (builder.remote("local[1]") if how == "connect" else builder.master(how)).getOrCreate()
lake = attach(spark, root=root)
lake.write(spark.range(10), "t", mode="create")
print("rows:", lake.table("t").filter("id > 3").count())
print("workers:", spark.range(1).mapInArrow(lambda batches: batches, "id long").count())
spark.stop()
"""


@pytest.fixture
def other(tmp_path):
    """Return an interpreter with only the standard library."""
    other = tmp_path / "tools" / "python3"
    other.parent.mkdir()
    other.write_text(f'#!/bin/sh\nexec "{os.path.realpath(sys.executable)}" -S "$@"\n')
    other.chmod(0o755)
    return other


@pytest.fixture
def start(tmp_path, other):
    """Run the program with a search path to an interpreter without Pennon."""
    tools = other.parent
    (tools / "java").symlink_to(str(shutil.which("java")))
    for name in (
        "bash",
        "sh",
        "dirname",
        "env",
        "uname",
        "ps",
        "nice",
        "hostname",
        "readlink",
        "basename",
        "rm",
        "mkdir",
    ):
        found = shutil.which(name)
        if found is not None:
            (tools / name).symlink_to(found)

    def run(how: str, **variables: str) -> subprocess.CompletedProcess[str]:
        dropped = ("PYSPARK_", "VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, how, str(tmp_path / "root")],
            env={**kept, "PATH": str(tools), "SPARK_LOCAL_IP": "127.0.0.1", **variables},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )

    return run


def test_workers_of_a_local_session_use_the_interpreter_of_the_program(start):
    done = start("local[1]")
    assert done.returncode == 0, done.stderr
    assert "rows: 6" in done.stdout
    assert "workers: 1" in done.stdout


@pytest.mark.soak
def test_chosen_interpreter_without_pennon_is_refused_by_attach(start, other):
    done = start("local[1]", PYSPARK_PYTHON=str(other))
    assert done.returncode != 0
    assert "rows:" not in done.stdout
    last = done.stderr.strip().splitlines()[-1]
    assert "InvalidInputError" in last
    assert str(other) in last
    assert f"PYSPARK_PYTHON={sys.executable}" in last


@pytest.mark.soak
def test_connect_server_without_pennon_is_refused_by_attach(start, other):
    done = start("connect", PYSPARK_PYTHON=str(other))
    assert done.returncode != 0
    assert "rows:" not in done.stdout
    assert "InvalidInputError" in done.stderr
    assert "Set PYSPARK_PYTHON where the server starts" in done.stderr


@pytest.mark.soak
def test_connect_server_with_pennon_is_used(start):
    done = start("connect", PYSPARK_PYTHON=sys.executable)
    assert done.returncode == 0, done.stderr
    assert "rows: 6" in done.stdout


@pytest.fixture
def context(spark):
    found = classic_context(spark)
    if found is None:
        pytest.skip("the workers of Spark Connect are those of its server")
    return found


def test_chosen_interpreter_is_used_only_if_it_has_pennon(spark, context, other, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    monkeypatch.setattr(context, "pythonExec", str(other))
    with fails(13, f"PYSPARK_PYTHON={sys.executable}"):
        require_pennon_in_workers(spark)
    other.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    require_pennon_in_workers(spark)
    assert context.pythonExec == str(other)


def test_default_interpreter_is_replaced_by_that_of_the_program(spark, context, other, monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr(context, "pythonExec", str(other))
    require_pennon_in_workers(spark)
    assert context.pythonExec == sys.executable
    assert spark.range(1).mapInArrow(lambda batches: batches, "id long").count() == 1
