"""Programs that tests run as separate drivers: one Spark job each, on executors in processes of their own.

`python driver.py <program> <root> <signals>`; the last line of the output is JSON. Tasks signal each
other through files in the directory `signals`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pyspark

DEADLINE_SECONDS = 120
ROWS = 400
BATCH = 10
TEXT = "x" * 10_000


def session(master="local-cluster[2,1,1024]", **settings):
    from pennon.spark.session import new_session

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    return new_session(
        "cluster test",
        master=master,
        **{
            "spark.sql.execution.arrow.maxRecordsPerBatch": str(BATCH),
            **settings,
        },
    )


@contextmanager
def two_hosts(work):
    """Run a cluster with two workers on different host names: Spark speculates only on another host."""
    home = Path(pyspark.__file__).parent
    launcher = [str(home / "bin" / "spark-class")]
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_WORKER_DIR": work, "SPARK_LOG_DIR": work}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    worker = ["org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0"]
    url = f"spark://127.0.0.1:{port}"
    commands = [master, *([*worker, "--host", f"127.0.0.{number}", url] for number in (2, 3))]
    processes = [subprocess.Popen([*launcher, *command], env=environment) for command in commands]
    try:
        yield url
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def once(signals, name):
    """Return True for the first call with this name in any process."""
    try:
        os.close(os.open(f"{signals}/{name}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def until(condition):
    """Wait until a condition holds that another process fulfils."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("the other process did not do it")
        time.sleep(0.01)


def ancestors(pid):
    """Return the ancestors of a process, the nearest first."""
    above = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        above.append(pid)
    return above


def executor(pid):
    """Return the Java process that runs the task of a Python worker."""
    return next(one for one in ancestors(pid) if "java" in str(Path(f"/proc/{one}/exe").readlink()))


def rows(spark, act):
    """Return rows in four partitions; each task calls `act` after half of its rows."""

    def flowing(batches):
        import pyarrow as pa

        passed = 0
        for batch in batches:
            ids = batch.column(0).to_pylist()
            for start in range(0, len(ids), BATCH):
                part = ids[start : start + BATCH]
                if passed == ROWS // 8:
                    act(part[0] // (ROWS // 4))
                yield pa.record_batch({"id": part, "text": [TEXT] * len(part)})
                passed += len(part)

    return spark.range(0, ROWS, 1, 4).mapInArrow(flowing, "id bigint, text string")


def kill_executor(root, signals):
    """The first task that has written and noted a file kills the Java process of its executor."""
    from pennon.spark import attach

    spark = session()
    lake = attach(spark, root=root)
    lake.write(spark.range(1000, 1001).selectExpr("id", "'old' AS text"), "t")
    folder = Path(lake.catalog.describe_table({"id": ["t"]}).location)

    def act(partition):
        if partition != 0 or not once(signals, "killed"):
            return
        until(lambda: list(folder.glob("_pennon/*/*")))
        os.kill(executor(os.getpid()), signal.SIGKILL)
        time.sleep(DEADLINE_SECONDS)  # until this worker is killed too

    done = lake.write(rows(spark, act), "t", max_rows_per_file=20)
    return {"version": done.version, "rows": done.rows, "files": done.files}


def speculate(root, signals):
    """A task waits halfway until Spark starts a second attempt of it; then both finish."""
    from pennon.spark import attach

    def act(partition):
        if partition != 0:
            return
        if once(signals, "slow"):
            until(lambda: Path(f"{signals}/twin").exists())
        else:
            once(signals, "twin")

    with two_hosts(f"{signals}.work") as master:
        spark = session(
            master,
            **{
                "spark.driver.host": "127.0.0.1",
                "spark.executor.memory": "512m",
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",
                "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{DEADLINE_SECONDS}s",
                "spark.cores.max": "2",
                "spark.speculation": "true",
                "spark.speculation.quantile": "0.5",
                "spark.speculation.multiplier": "1.1",
                "spark.speculation.minTaskRuntime": "1ms",
                "spark.speculation.interval": "50ms",
            },
        )
        lake = attach(spark, root=root)
        done = lake.write(rows(spark, act), "t", max_rows_per_file=20)
        spark.stop()
    return {"version": done.version, "rows": done.rows, "files": done.files}


def die_writing(root, signals):
    """Write the rows of one task and get killed after two files. Needs no Spark session."""
    import pyarrow as pa
    from pyspark.sql.types import LongType, StructField, StructType

    from pennon.spark import tables
    from pennon.spark.address import Address
    from pennon.spark.tables.prepared_write import prepare_write

    address = Address.of("dir", {"root": root})
    schema = StructType([StructField("id", LongType())])
    destination = tables.find_destination(address, ("t",), None)
    settings = tables.FileSettings(max_rows_per_file=10)
    task = prepare_write(address, ("t",), destination, schema, settings=settings, run="killed")

    def batches():
        for start in range(0, 40, 5):
            with task.files() as files:
                if len(files.noted_files(task.run)) == 2:
                    os.kill(os.getpid(), signal.SIGKILL)
            yield pa.record_batch({"id": list(range(start, start + 5))})

    task.write(batches())
    return "it was not killed"


def die_staged(root, signals):
    """Stage a write and get killed before it is published."""
    from pennon.spark import attach, tables

    spark = session("local[1]")
    lake = attach(spark, root=root)
    table = tuple(os.environ["PENNON_TEST_TABLE"].split("."))
    tables.stage(lake.address, spark.range(0, 40, 1, 2).selectExpr("id", "'new' AS text"), table)
    os.kill(os.getpid(), signal.SIGKILL)


def die_committed(root, signals):
    """Write and get killed before the result is reported."""
    from pennon.spark import attach

    spark = session("local[1]")
    lake = attach(spark, root=root)
    frame = spark.range(0, 40, 1, 2).selectExpr("id", "'new' AS text")
    lake.write(frame, os.environ["PENNON_TEST_TABLE"], "create", job_id="nightly")
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    program, where, signalled = sys.argv[1:4]
    print(json.dumps(globals()[program](where, signalled)))
