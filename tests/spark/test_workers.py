"""What Python workers of Spark keep from task to task."""

from __future__ import annotations

import gc
import subprocess
import sys

import pyarrow as pa
from support import create_table, ipc

from pennon.spark.reading import scan


def test_a_worker_that_has_read_leaves_its_imports_out_of_later_looks_for_garbage(spark, lake) -> None:
    create_table(lake.catalog, "t", data=ipc({"x": range(10)}))
    wanted = scan.scan(lake.address, ("t",))
    (split,) = wanted.splits(1)

    def read(batches):
        for _ in batches:
            rows = sum(batch.num_rows for batch in scan.read_split(wanted, split, wanted.read_schema()))
            yield pa.record_batch({"rows": [rows], "left_out": [gc.get_freeze_count()]})

    (found,) = spark.range(0, 1, 1, 1).mapInArrow(read, "rows bigint, left_out bigint").collect()
    assert found.rows == 10
    assert found.left_out > 10_000


def test_the_program_itself_is_left_alone(lake) -> None:
    create_table(lake.catalog, "t", data=ipc({"x": range(10)}))
    wanted = scan.scan(lake.address, ("t",))
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


def test_hotspot_knows_of_arrow_before_it_compiles_anything_for_columns(tmp_path) -> None:
    done = subprocess.run([sys.executable, "-c", LOADED, tmp_path], capture_output=True, text=True, check=True)
    assert "loaded: False True" in done.stdout
