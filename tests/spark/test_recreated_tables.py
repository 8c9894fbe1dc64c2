"""Tables that are purged and recreated under the same name: rows of the old table are never returned."""

from __future__ import annotations

import shutil
import subprocess
import sys

import lance
import pyarrow as pa
import pytest

from pennon.spark.reading.pinned import VersionOptions, pin
from tests.servers import CountingS3
from tests.support import create_table, describe_table, drop_table, fails, ipc

MANY = 6_000  # more than the driver reads itself


def write(lake, *values, name="t", column="a"):
    rows = [(value,) for value in values]
    lake.write(lake.spark.createDataFrame(rows, f"{column} BIGINT"), name)


def rows(lake, text):
    return sorted(tuple(row) for row in lake.sql(text).collect())


def test_every_statement_sees_the_recreated_table(lake):
    write(lake, 1)
    assert rows(lake, "SELECT * FROM t") == [(1,)]
    assert lake.count("t") == 1
    lake.sql("DROP TABLE t PURGE")
    write(lake, 2, 3)
    assert rows(lake, "SELECT * FROM t") == [(2,), (3,)]
    assert rows(lake, "SELECT a + 1 AS b FROM t WHERE a >= 2") == [(3,), (4,)]
    assert lake.count("t") == 2
    assert lake.count("t", where="a = 2") == 1
    assert sorted(row.a for row in lake.table("t").collect()) == [2, 3]


def test_changes_apply_to_the_recreated_table(lake):
    for values in ([1], [2, 3, 4]):
        write(lake, *values)
        assert rows(lake, "SELECT * FROM t WHERE a + 0 >= 0") == [(value,) for value in values]
        if values == [1]:
            lake.sql("DROP TABLE t PURGE")
    merge = "MERGE INTO t USING (SELECT 2 AS a) s ON t.a = s.a WHEN NOT MATCHED THEN INSERT *"
    assert lake.sql(merge).first().inserted == 0
    assert lake.sql("UPDATE t SET a = 9 WHERE a = 2").first().updated == 1
    assert lake.sql("DELETE FROM t WHERE a = 3").first().deleted == 1
    location = describe_table(lake.catalog, "t").location
    assert sorted(lance.dataset(location).to_table()["a"].to_pylist()) == [4, 9]


def test_schema_of_the_recreated_table_is_read(lake):
    write(lake, 1)
    assert rows(lake, "SELECT * FROM t") == [(1,)]
    lake.sql("DROP TABLE t")
    lake.sql("PURGE TABLE t FORCE")
    write(lake, 5, column="b")
    assert rows(lake, "SELECT b FROM t WHERE b > 1") == [(5,)]
    assert lake.count("t", where="b = 5") == 1


def test_tasks_read_the_recreated_table(lake):
    lake.write(lake.spark.range(MANY).selectExpr("id AS a"), "t")
    query = "SELECT count(a + 0), sum(a + 0) FROM t WHERE pmod(a, 2) >= 0"
    assert rows(lake, query) == [(MANY, MANY * (MANY - 1) // 2)]
    lake.sql("DROP TABLE t PURGE")
    lake.write(lake.spark.range(MANY).selectExpr("-id AS a"), "t")
    assert rows(lake, query) == [(MANY, -MANY * (MANY - 1) // 2)]


def test_query_planned_before_the_recreation_fails(lake):
    lake.write(lake.spark.range(MANY).selectExpr("id AS a"), "t")
    planned = lake.sql("SELECT a + 1 FROM t")
    lake.sql("DROP TABLE t PURGE")
    lake.write(lake.spark.range(MANY).selectExpr("-id AS a"), "t")
    with pytest.raises(Exception, match="was dropped and created again"):
        planned.collect()
    assert rows(lake, "SELECT max(a + 0) FROM t") == [(0,)]


def test_table_recreated_by_another_process_is_read(lake, root):
    write(lake, 1)
    assert rows(lake, "SELECT * FROM t") == [(1,)]
    program = """
import sys, pyarrow as pa, lance, pennon
ns = pennon.connect("dir", {"root": sys.argv[1]})
ns.drop_table({"id": ["t"], "context": {"purge": "true"}})
lance.write_dataset(pa.table({"a": [2, 3]}), namespace_client=ns, table_id=["t"], mode="create")
ns.close()
"""
    subprocess.run([sys.executable, "-c", program, root], check=True, timeout=120)
    assert rows(lake, "SELECT * FROM t") == [(2,), (3,)]
    assert lake.count("t") == 2


def test_recreated_branch_is_read(lake):
    write(lake, 1)
    location = describe_table(lake.catalog, "t").location
    for values in ([2], [3, 4]):
        branch = lance.dataset(location).create_branch("dev")
        lance.write_dataset(pa.table({"a": values}), branch, mode="append")
        assert rows(lake, "SELECT * FROM t VERSION AS OF 'dev'") == [(1,), *((one,) for one in values)]
        assert lake.count("t", branch="dev") == 1 + len(values)
        lance.dataset(location).branches.delete("dev")


def test_pinned_version_is_identified_by_its_content(root, open_namespace):
    from pennon.spark.address import Address

    ns = open_namespace(root)
    address = Address.of("dir", {"root": root})
    pinned = []
    for values in ([1], [2, 3]):
        create_table(ns, "t", data=ipc({"a": values}))
        pinned.append(pin(address, ("t",))[0])
        assert pinned[-1].open().to_table()["a"].to_pylist() == values
        drop_table(ns, "t", purge="true")
    assert pinned[0] != pinned[1]
    create_table(ns, "t", data=ipc({"a": [4]}))
    assert pin(address, ("t",), VersionOptions(version=1))[0].open().to_table()["a"].to_pylist() == [4]


def test_other_content_of_a_pinned_version_is_refused(root, open_namespace):
    from pennon.spark.address import Address

    location = create_table(open_namespace(root), "t").location
    pinned, _ = pin(Address.of("dir", {"root": root}), ("t",))
    shutil.rmtree(location)
    lance.write_dataset(pa.table({"x": [9]}), location)
    with fails(14, "created again"):
        pinned.open()


@pytest.mark.s3
def test_recreated_table_in_a_bucket_is_read(spark):
    from pennon.spark import attach

    with CountingS3() as server:
        lake = attach(spark, root=server.endpoint.uri("lake"), **server.endpoint.properties())
        write(lake, 1)
        assert rows(lake, "SELECT * FROM t") == [(1,)]
        lake.sql("DROP TABLE t PURGE")
        write(lake, 2, 3)
        assert rows(lake, "SELECT * FROM t") == [(2,), (3,)]
