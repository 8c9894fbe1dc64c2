"""Python workers of Spark: garbage collection, class loading and closed connections."""

from __future__ import annotations

import gc
import re
import subprocess
import sys

import pyarrow as pa
import pytest

from pennon.spark.reading import scan
from tests.support import create_table, ipc


def test_imports_of_a_worker_are_excluded_from_garbage_collection(spark, lake) -> None:
    create_table(lake.catalog, "t", data=ipc({"x": range(10)}))
    wanted = scan.plan_scan(lake.address, ("t",))
    (split,) = wanted.splits(1)

    def read(batches):
        for _ in batches:
            rows = sum(batch.num_rows for batch in scan.read_split(wanted, split, wanted.read_schema()))
            yield pa.record_batch({"rows": [rows], "left_out": [gc.get_freeze_count()]})

    (found,) = spark.range(0, 1, 1, 1).mapInArrow(read, "rows bigint, left_out bigint").collect()
    assert found.rows == 10
    assert found.left_out > 10_000


def test_garbage_collection_of_the_program_is_unchanged(lake) -> None:
    create_table(lake.catalog, "t", data=ipc({"x": range(10)}))
    wanted = scan.plan_scan(lake.address, ("t",))
    assert len(list(scan.read_split(wanted, wanted.splits(1)[0], wanted.read_schema()))) == 1
    assert gc.get_freeze_count() == 0


LOADED = """
import sys
from pennon.spark import attach
from pennon.spark.session import new_session

spark = new_session("classes", master="local[1]")
jvm, gateway = spark.sparkContext._jvm, spark.sparkContext._gateway
parameters = gateway.new_array(jvm.java.lang.Class, 1)
parameters[0] = jvm.java.lang.Class.forName("java.lang.String")
find = jvm.java.lang.Class.forName("java.lang.ClassLoader").getDeclaredMethod("findLoadedClass", parameters)
find.setAccessible(True)
name = gateway.new_array(jvm.java.lang.Object, 1)
name[0] = "org.apache.spark.sql.vectorized.ArrowColumnVector"
loaded = lambda: find.invoke(jvm.java.lang.ClassLoader.getSystemClassLoader(), name) is not None
before = loaded()
attach(spark, root=sys.argv[1])
print("loaded:", before, loaded())
"""


def test_arrow_class_is_loaded_before_hotspot_compiles(tmp_path) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED, tmp_path], capture_output=True, text=True, check=True)
    assert "loaded: False True" in done.stdout


ENDING = """
import sys
import time
from pennon import DirectoryNamespace
from pennon.spark import attach
from pennon.spark.session import new_session

root = sys.argv[1]
spark = new_session("ending", master="local[2]")
lake = attach(spark, root=root)
lake.write(spark.range(200_000).selectExpr("id", "repeat('x', 100) AS text"), "t")
assert len(lake.sql("SELECT * FROM t LIMIT 1").collect()) == 1
assert len(lake.sql("SELECT a.id FROM t a JOIN t b ON a.id = b.id LIMIT 3").collect()) == 3
assert len(lake.sql("SELECT * FROM t WHERE id % 3 = 1").take(2)) == 2
assert lake.table("t").head() is not None
assert not lake.table("t").isEmpty()
assert spark.read.format("pennon").option("root", root).load("t").first() is not None
time.sleep(IDLE)

def commit(batches):
    for batch in batches:
        ns = DirectoryNamespace(root=root)
        for number in range(20):
            ns.create_namespace({"id": [f"{batch.column(0)[0]}-{number}"]})
        yield batch

assert spark.range(0, 2, 1, 2).mapInArrow(commit, "id bigint").count() == 2
sys.exit(3)
"""


@pytest.mark.spark
@pytest.mark.parametrize(
    # Spark stops workers that were idle for a minute.
    "idle_seconds",
    [0, pytest.param(100, marks=pytest.mark.soak)],
)
def test_queries_that_stop_early_print_no_traceback(tmp_path, idle_seconds) -> None:
    command = [sys.executable, "-c", ENDING.replace("IDLE", str(idle_seconds)), tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 3
    assert [line for line in done.stderr.splitlines() if re.search("Traceback|Error|FATAL", line)] == []


WITHOUT_CATALOG = """
import sys
import pyarrow as pa
from pennon.spark import attach
from pennon.spark.session import new_session

root = sys.argv[1]
spark = new_session("workers", master="local[2]")
lake = attach(spark, root=root)
lake.catalog.enable_table_version_management()

def loaded(batches):
    imported = [name for name in sys.modules if name.startswith(("pennon.directory", "pennon.spark"))]
    yield pa.record_batch({"module": pa.array(imported, pa.string())})

lake.write(spark.range(10_000).selectExpr("id", "id % 7 AS k"), "t")
lake.merge(spark.range(5_000, 15_000).selectExpr("id", "-1 AS k"), "t", on="id")
lake.sql("UPDATE t SET k = 3 WHERE id < 10")
assert lake.sql("SELECT k, count(*) FROM t GROUP BY k").count() == 8
assert lake.table("t").where("k = -1").count() == 10_000
assert spark.read.format("pennon").option("root", root).load("t").toPandas().shape == (15_000, 2)
workers = spark.range(0, 8, 1, 8).mapInArrow(loaded, "module string")
print("imported:", *sorted({row.module for row in workers.collect()}))
"""


@pytest.mark.spark
def test_tasks_read_write_and_merge_without_the_catalog(tmp_path) -> None:
    command = [sys.executable, "-c", WITHOUT_CATALOG, tmp_path]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=280, check=True)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("imported:")]
    imported = line.split()[1:]
    assert "pennon.spark.reading.scan" in imported
    assert "pennon.spark.tables.fragment_writer" in imported
    assert [name for name in imported if name.startswith("pennon.directory")] == []
