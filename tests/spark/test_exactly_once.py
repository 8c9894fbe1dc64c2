"""Writes exactly once: repeated jobs, dead drivers and executors, attempts without a report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from pennon.spark import tables
from pennon.spark.tables.fragment_writer import FileSettings, WrittenFragments
from pennon.spark.tables.prepared_write import prepare_write
from tests.support import create_namespace, create_table, describe_table, fails, ipc, list_tables

DRIVER = Path(__file__).parent / "cluster" / "driver.py"


def numbers(spark, *values):
    return spark.createDataFrame([(value, f"name-{value}") for value in values], "id bigint, name string")


def ids(lake, table="t"):
    return sorted(row.id for row in lake.table(table).select("id").collect())


def directory(lake, *names):
    return Path(describe_table(lake.catalog, *names).location)


def assert_only_used_files(folder):
    """Assert that every data file belongs to a version, and that no notes are left."""
    table = lance.dataset(str(folder))
    used = {
        file.path
        for one in table.versions()
        for fragment in table.checkout_version(one["version"]).get_fragments()
        for file in fragment.data_files()
    }
    assert {path.name for path in (folder / "data").glob("*.lance")} == used
    assert not (folder / "_pennon").exists()


def ran(program, root, signals, **variables):
    """Run a driver in a separate process."""
    signals.mkdir(exist_ok=True)
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", **variables}
    return subprocess.run(
        [sys.executable, str(DRIVER), program, str(root), str(signals)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=850,
        check=False,
    )


# Repeated jobs


@pytest.mark.parametrize("mode", ["append", "overwrite", "create", "ignore"])
def test_second_run_of_a_job_writes_nothing(spark, lake, mode):
    first = lake.write(numbers(spark, 1, 2), "t", mode, job_id="nightly")
    again = lake.write(numbers(spark, 1, 2), "t", mode, job_id="nightly")
    assert (again.version, again.rows, again.already) == (first.version, 2, True)
    assert again.bytes == first.bytes
    assert ids(lake) == [1, 2]
    assert_only_used_files(directory(lake, "t"))


def test_job_is_found_below_later_writes(spark, managed_lake):
    lake = managed_lake
    lake.write(numbers(spark, 1), "t")
    lake.write(numbers(spark, 2), "t", job_id="nightly")
    lake.write(numbers(spark, 3), "t", job_id="other")
    lake.write(numbers(spark, 4), "t")
    again = lake.write(numbers(spark, 2), "t", job_id="nightly")
    assert (again.version, again.already) == (2, True)
    assert ids(lake) == [1, 2, 3, 4]


def test_one_job_may_write_several_tables(spark, lake):
    for table in ("t", "u"):
        assert not lake.write(numbers(spark, 1), table, job_id="nightly").already
        assert lake.write(numbers(spark, 1), table, job_id="nightly").already


def test_bad_job_id_raises_invalid_input(spark, lake):
    with fails(13):
        lake.write(numbers(spark, 1), "t", job_id="")
    assert list_tables(lake.catalog) == []


# Attempts without a report


def test_files_of_unused_attempts_are_deleted(lake):
    """Two attempts write the same rows, as with speculation; the report of one is used."""
    from pyspark.sql.types import LongType, StructField, StructType

    create_namespace(lake.catalog, "a")
    create_table(lake.catalog, "a", "t", data=ipc(pa.table({"id": pa.array([0], pa.int64())})))
    schema = StructType([StructField("id", LongType())])
    batch = pa.record_batch({"id": [1, 2, 3]})
    for identifier in (("a", "t"), ("a", "new")):
        destination = tables.find_destination(lake.address, identifier, None)
        planned = prepare_write(lake.address, identifier, destination, schema, settings=FileSettings(2))
        winner, loser = planned.write(iter([batch])), planned.write(iter([batch]))
        assert (winner.rows, len(winner.files), len(loser.files)) == (3, 2, 2)
        done = tables.publish(planned.stage(winner))
        assert done.rows == 3
        assert [row.id for row in lake.table(list(identifier)).where("id > 0").collect()] == [1, 2, 3]
        assert_only_used_files(directory(lake, *identifier))


def test_attempt_that_outlives_its_write_deletes_its_files(spark, lake):
    """Spark does not wait for the slower of two attempts, nor for the other tasks when one fails."""
    for table, ended in (("t", tables.publish), ("t", tables.discard), ("new", tables.publish)):
        if table == "t":
            lake.write(numbers(spark, 0), "t", "overwrite")
        schema = numbers(spark, 1).schema
        planned = prepare_write(lake.address, (table,), tables.find_destination(lake.address, (table,), None), schema)
        task = planned.start_run()
        batch = pa.record_batch({"id": [1], "name": ["x"]})
        staged = task.stage(task.write(iter([batch])))
        ended(staged)
        with fails(14):
            task.write(iter([batch]))
        assert_only_used_files(directory(lake, table))


def test_files_of_a_killed_attempt_are_deleted(lake, tmp_path):
    """A process that writes a task's rows dies when two of its files are complete."""
    create_table(lake.catalog, "t", data=ipc(pa.table({"id": pa.array([0], pa.int64())})))
    killed = ran("die_writing", lake.catalog._store.identity(), tmp_path / "signals")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    folder = directory(lake, "t")
    assert len(list((folder / "data").glob("*.lance"))) == 3
    with tables.find_destination(lake.address, ("t",), None).files() as files:
        assert len(files.noted_files("killed")) == 2
        files.settle("killed")
    assert_only_used_files(folder)


# Dead drivers and executors. Each test starts its own Spark.


@pytest.mark.timeout(900)
@pytest.mark.parametrize("table", ["t", pytest.param("a.new", marks=pytest.mark.soak)])
def test_job_after_a_driver_died_before_the_commit_writes_once(spark, lake, tmp_path, table):
    create_namespace(lake.catalog, "a")
    if table == "t":
        lake.write(spark.range(1000, 1001).selectExpr("id", "'old' AS text"), "t")
    old = [1000] if table == "t" else []
    dead = ran("die_staged", lake.catalog._store.identity(), tmp_path / "signals", PENNON_TEST_TABLE=table)
    assert dead.returncode == -signal.SIGKILL, dead.stderr
    assert list_tables(lake.catalog, *table.split(".")[:-1]) == (["t"] if table == "t" else [])
    if table == "t":
        assert ids(lake, table) == old
    frame = spark.range(0, 40, 1, 2).selectExpr("id", "'new' AS text")
    assert not lake.write(frame, table, job_id="nightly").already
    assert ids(lake, table) == sorted([*range(40), *old])
    assert lake.write(frame, table, job_id="nightly").already
    assert ids(lake, table) == sorted([*range(40), *old])


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_job_after_a_driver_died_after_the_commit_writes_once(spark, lake, tmp_path):
    create_namespace(lake.catalog, "a")
    dead = ran("die_committed", lake.catalog._store.identity(), tmp_path / "signals", PENNON_TEST_TABLE="a.new")
    assert dead.returncode == -signal.SIGKILL, dead.stderr
    frame = spark.range(0, 40, 1, 2).selectExpr("id", "'new' AS text")
    assert lake.write(frame, "a.new", "create", job_id="nightly").already
    assert ids(lake, "a.new") == list(range(40))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("program", ["kill_executor", pytest.param("speculate", marks=pytest.mark.soak)])
def test_killed_executors_and_racing_attempts_write_each_row_once(lake, tmp_path, program):
    ended = ran(program, lake.catalog._store.identity(), tmp_path / "signals")
    assert ended.returncode == 0, ended.stderr
    done = json.loads(ended.stdout.splitlines()[-1])
    assert done["rows"] == 400
    assert {path.name for path in (tmp_path / "signals").iterdir()} in ({"killed"}, {"slow", "twin"})
    assert [one for one in ids(lake) if one < 1000] == list(range(400))
    assert_only_used_files(directory(lake, "t"))


def test_written_fragments_of_tasks_are_added_up():
    report = {"files": [{"path": "x.lance", "file_size_bytes": 5}], "physical_rows": 3}
    assert WrittenFragments((report, report), 6).files == ("data/x.lance", "data/x.lance")
    assert WrittenFragments((report, report), 6).bytes == 10
