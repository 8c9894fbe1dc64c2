"""Programs that work with large tables on executors with a gigabyte of memory each.

`python large_driver.py <program> <root> <gigabytes>`; the last line of the output is JSON. Results are checked here, by
arithmetic: the tables are as large as the disk allows, not as the memory does.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

ROW_BYTES = 160
COLUMNS, FRAGMENTS, WIDTH = 1_000, 10_000, 4_096
TEN_MB = 10 * 1024 * 1024


def start(root):
    """Return a lake on two executors; each process has one gigabyte, and everything else is Spark's default."""
    from pennon.spark import attach
    from pennon.spark.session import new_session

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {"spark.driver.memory": "1g", "spark.local.dir": f"{root}.scratch"}
    spark = new_session("large tables", master="local-cluster[2,1,1024]", **settings)
    spark.sparkContext.setLogLevel("ERROR")
    return attach(spark, root=root)


def require(found, expected, what):
    if found != expected:
        raise AssertionError(f"{what}: {found}, expected {expected}")


class Steps:
    """Times the steps of a program, and prints each: a soak run shows how far it is."""

    def __init__(self):
        self.seconds = {}

    def run(self, name, call):
        begun = time.monotonic()
        found = call()
        self.seconds[name] = round(time.monotonic() - begun, 1)
        print(f"{name}: {self.seconds[name]} s", flush=True)
        return found


def large_tables(root, gigabytes):
    """Join, aggregate, sort, window, write and merge tables of this size."""
    lake = start(root)
    rows = int(gigabytes * 1024**3 / ROW_BYTES)
    rows -= rows % 1_000
    steps = Steps()

    def table(first, last):
        # No two texts are equal, so neither Lance nor Spark can compress them to nothing.
        return lake.spark.range(first, last).selectExpr(
            "id",
            "(id * 7919) % 1000 AS k",
            "id % 97 AS v",
            "concat(sha2(cast(id AS string), 256), sha2(cast(-id AS string), 256)) AS s",
        )

    for name in ("facts", "others"):
        done = steps.run(f"write {name}", lambda name=name: lake.write(table(0, rows), name, mode="create"))
        require(done.rows, rows, "rows written")

    total = sum(value * (rows // 97 + (value < rows % 97)) for value in range(97))
    joined = (
        "SELECT count(*), sum(a.v + b.v), count(DISTINCT a.k) FROM facts a JOIN others b ON a.id = b.id AND a.s = b.s"
    )
    require(tuple(steps.run("join", lambda: lake.sql(joined).first())), (rows, 2 * total, 1_000), "join")
    grouped = "SELECT count(*), sum(c), max(c) FROM (SELECT s, count(*) c FROM facts GROUP BY s)"
    require(tuple(steps.run("aggregate", lambda: lake.sql(grouped).first())), (rows, rows, 1), "groups")
    window = (
        "SELECT max(r), count(*) FROM "
        "(SELECT row_number() OVER (PARTITION BY k ORDER BY s) r, s FROM facts) WHERE length(s) = 128"
    )
    require(tuple(steps.run("window", lambda: lake.sql(window).first())), (rows // 1_000, rows), "window")

    def sort():
        return lake.write(lake.sql("SELECT * FROM facts ORDER BY s"), "sorted", mode="create")

    require(steps.run("sort", sort).rows, rows, "rows sorted")
    require(lake.sql("SELECT sum(v) FROM sorted").first()[0], total, "sum of the sorted rows")

    fresh = rows // 10
    changes = table(rows - fresh, rows + fresh).selectExpr("id", "k", "cast(-1 AS bigint) AS v", "s")
    merged = steps.run("merge", lambda: lake.merge(changes, "facts", on="id"))
    require((merged.updated, merged.inserted), (fresh, fresh), "merged rows")
    require(tuple(lake.sql("SELECT count(*), sum(int(v = -1)) FROM facts").first()), (rows + fresh, 2 * fresh), "merge")
    return {"rows": rows, "seconds": steps.seconds}


def many_fragments(root, _gigabytes):
    """Read, append to and merge into a table with 10,000 fragments."""
    import lance
    import pyarrow as pa

    lake = start(root)
    rows = 10 * FRAGMENTS
    lake.write(lake.spark.range(0, 0).selectExpr("id", "id AS v"), "t", mode="create")
    data = pa.table({"id": pa.array(range(rows), pa.int64()), "v": pa.array(range(rows), pa.int64())})
    location = lake.catalog.describe_table({"id": ["t"]}).location
    lance.write_dataset(data, location, mode="append", max_rows_per_file=10)
    require(len(lance.dataset(location).get_fragments()) >= FRAGMENTS, True, "fragments")
    steps = Steps()
    total = rows * (rows - 1) // 2
    read = "SELECT count(*), sum(v + 0) FROM t"
    require(tuple(steps.run("read", lambda: lake.sql(read).first())), (rows, total), "read")
    require(steps.run("lookup", lambda: lake.sql("SELECT v FROM t WHERE id = 77777").first())[0], 77777, "lookup")
    steps.run("append", lambda: lake.write(lake.spark.range(rows, rows + 50).selectExpr("id", "id AS v"), "t"))
    changes = lake.spark.range(0, rows, rows // 50).selectExpr("id", "cast(-1 AS bigint) AS v")
    require(steps.run("merge", lambda: lake.merge(changes, "t", on="id")).updated, 50, "merged rows")
    require(lake.sql("SELECT count(*) FROM t WHERE v = -1").first()[0], 50, "rows after the merge")
    return {"seconds": steps.seconds}


def many_columns(root, _gigabytes):
    """Write, read and merge into a table with 1,000 columns."""
    lake = start(root)
    rows = 20_000
    steps = Steps()
    columns = ["id", *(f"id % {number + 2} AS c{number}" for number in range(COLUMNS))]
    steps.run("write", lambda: lake.write(lake.spark.range(0, rows).selectExpr(*columns), "wide", mode="create"))
    frame = lake.sql("SELECT * FROM wide")
    require(len(frame.columns), COLUMNS + 1, "columns")
    steps.run("scan", lambda: frame.write.format("noop").mode("overwrite").save())
    last = f"SELECT max(c{COLUMNS - 1}) FROM wide"
    require(steps.run("one column", lambda: lake.sql(last).first())[0], COLUMNS, "last column")
    changes = lake.spark.range(rows - 25, rows + 25).selectExpr(*columns)
    merged = steps.run("merge", lambda: lake.merge(changes, "wide", on="id"))
    require((merged.updated, merged.inserted), (25, 25), "merged rows")
    return {"seconds": steps.seconds}


def large_rows(root, _gigabytes):
    """Write, read, append and merge rows of 10 MB."""
    lake = start(root)
    steps = Steps()

    def table(first, last):
        return lake.spark.range(first, last, 1, 4).selectExpr(
            "id", f"repeat(chr(cast(65 + id % 26 AS int)), {TEN_MB}) AS s", "id AS v"
        )

    steps.run("write", lambda: lake.write(table(0, 40), "t", mode="create"))
    steps.run("append", lambda: lake.write(table(40, 60), "t"))
    read = "SELECT sum(length(s)), count(DISTINCT substr(s, 5000000, 1)) FROM t"
    require(tuple(steps.run("read", lambda: lake.sql(read).first())), (60 * TEN_MB, 26), "read")
    merged = steps.run("merge", lambda: lake.merge(table(50, 70), "t", on="id"))
    require((merged.updated, merged.inserted), (10, 10), "merged rows")
    return {"seconds": steps.seconds}


def wide_vectors(root, _gigabytes):
    """Write, read and merge vectors of 4,096 floats."""
    lake = start(root)
    rows = 20_000
    steps = Steps()

    def table(first, last):
        made = f"transform(sequence(1, {WIDTH}), n -> cast(n + id AS float)) AS e"
        return lake.spark.range(first, last).selectExpr("id", made).withMetadata("e", {"pennon.vector.width": WIDTH})

    steps.run("write", lambda: lake.write(table(0, rows), "t", mode="create"))
    read = "SELECT sum(e[0] - id), sum(size(e)) FROM t"
    require(tuple(steps.run("read", lambda: lake.sql(read).first())), (float(rows), rows * WIDTH), "read")
    merged = steps.run("merge", lambda: lake.merge(table(rows - 100, rows + 100), "t", on="id"))
    require((merged.updated, merged.inserted), (100, 100), "merged rows")
    return {"seconds": steps.seconds}


PROGRAMS = {one.__name__: one for one in (large_tables, many_fragments, many_columns, large_rows, wide_vectors)}

if __name__ == "__main__":
    Path(f"{sys.argv[2]}.scratch").mkdir(parents=True, exist_ok=True)
    print(json.dumps(PROGRAMS[sys.argv[1]](sys.argv[2], float(sys.argv[3]))))
