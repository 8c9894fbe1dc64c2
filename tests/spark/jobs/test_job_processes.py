"""Jobs in separate processes: killed and resumed, with spark-submit, and with Spark Connect."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from pennon.spark.jobs import __file__ as jobs_file
from pennon.spark.jobs import compact, verify
from tests.spark.jobs.stock import by_table

# Each test starts its own Spark, which is slow on a busy machine.
pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.timeout(900)]
HERE = Path(__file__).parent


def run_command(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    spark_home = str(Path(pyspark.__file__).parent)
    environment = {**os.environ, "SPARK_HOME": spark_home, "SPARK_LOCAL_IP": "127.0.0.1", **variables}
    environment["PYSPARK_PYTHON"] = sys.executable
    environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=850, check=False)


@pytest.mark.soak
def test_killed_compaction_resumes(spark, new_stock, tmp_path):
    """The driver dies after it has committed the first table, while the others are being rewritten on executors."""
    stock = new_stock("managed")
    for name in "abc":
        stock.create(name, batches=4)
    state = tmp_path / "state"
    result = run_command(
        sys.executable, str(HERE / "killed_compaction.py"), str(stock.root), str(state), "local-cluster[2,1,1024]"
    )
    assert result.returncode == -signal.SIGKILL, result.stderr
    lake = stock.lake(spark)
    noted = [json.loads(line) for line in state.read_text(encoding="utf-8").splitlines() if line]
    (first,) = [entry["table"] for entry in noted]
    assert {name: len(stock.open(name).get_fragments()) for name in "abc"} == {
        name: 1 if name == first else 4 for name in "abc"
    }
    # The rewritten files of the other tables remain, and no version refers to them.
    left = {name: row["recent_files"] for name, row in by_table(verify(lake)).items()}
    assert left == {name: 0 if name == first else 1 for name in "abc"}
    versions = {name: stock.open(name).version for name in "abc"}
    again = by_table(compact(lake, job_id="night", state=state))
    assert {name: row["status"] for name, row in again.items()} == {
        name: "skipped" if name == first else "done" for name in "abc"
    }
    assert stock.open(first).version == versions[first]
    for name in "abc":
        assert stock.keys(name) == list(range(40))
        assert len(stock.open(name).get_fragments()) == 1


def test_jobs_run_with_spark_submit(stock, tmp_path):
    stock.create("a", batches=3)
    stock.create("b", batches=3)
    min(stock.directory("b").glob("data/*")).unlink()
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    script = Path(jobs_file).parent / "__main__.py"
    result = run_command(
        *(str(submit), "--master", "local[2]", "--conf", "spark.ui.enabled=false", str(script)),
        *("compact", "--root", str(stock.root), "--json", "--job-id", "n", "--state", str(tmp_path / "state")),
    )
    assert result.returncode == 1, result.stderr
    document = json.loads(result.stdout)
    assert (document["job"], document["failed"]) == ("compact", 1)
    assert {one["id"][0]: one["status"] for one in document["tables"]} == {"a": "done", "b": "failed"}
    assert stock.keys("a") == list(range(30))
    assert len(stock.open("a").get_fragments()) == 1


@pytest.mark.soak
def test_jobs_run_with_spark_connect(stock):
    stock.create("t", batches=4)
    result = run_command(sys.executable, str(HERE / "connected_jobs.py"), str(stock.root))
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout.splitlines()[-1])
    assert found.pop("is_connect")
    assert {job: rows[0]["status"] for job, rows in found.items()} == dict.fromkeys(found, "done"), found
    assert (found["compact"][0]["tasks"], found["index"][0]["tasks"]) == (2, 2)
    assert (found["verify"][0]["rows_read"], found["stats"][0]["indexes"]) == (40, 1)
    assert stock.open("t").to_table(filter="k = 2")["name"].to_pylist() == ["two"]
