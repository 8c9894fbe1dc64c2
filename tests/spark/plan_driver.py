"""Plans of joins in a session in which nothing is set. `python plan_driver.py <root>` prints them as JSON."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
from pyspark.sql import SparkSession

from pennon.spark import attach
from tests.support import create_table, ipc

ROWS = 2_000_000
QUERIES = {
    "small side on the right": "SELECT sum(a.v + b.v) FROM facts a JOIN dims b ON a.id = b.id",
    "small side on the left": "SELECT sum(a.v + b.v) FROM dims b JOIN facts a ON a.id = b.id",
    "tiny side": "SELECT sum(a.v + b.v) FROM facts a JOIN tiny b ON a.id = b.id",
    "two large tables": "SELECT sum(a.v + b.v) FROM facts a JOIN others b ON a.id = b.id",
    "many columns": "SELECT b.*, a.v FROM facts a JOIN wide b ON a.id = b.id",
    "large table with many columns": "SELECT b.*, a.v FROM facts a JOIN wider b ON a.id = b.id",
    "few columns of a large table": "SELECT sum(a.v + b.c0) FROM facts a JOIN texts b ON a.id = b.c0",
    "few rows": "SELECT sum(a.v + b.v) FROM facts a JOIN others b ON a.id = b.id WHERE b.v = 7",
    "many rows": "SELECT sum(a.v + b.v) FROM facts a JOIN others b ON a.id = b.id WHERE b.v >= 7",
    "rows in one place": f"SELECT sum(a.v + b.v) FROM facts a JOIN others b ON a.id = b.id WHERE b.id >= {ROWS // 2}",
}
SIZES = {
    "one column": "SELECT id FROM facts",
    "two columns": "SELECT id, v FROM facts",
    "a small table": "SELECT * FROM dims",
    "many columns": "SELECT * FROM wide",
}


def main(root):
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    lake = attach(spark, root=root)
    numbers = pa.array(range(ROWS), pa.int64())
    large = pa.table({"id": numbers, "v": pa.array([number * 7919 % 1000 for number in range(ROWS)], pa.int64())})
    wide = pa.table({"id": range(20_000), **{f"c{number}": range(20_000) for number in range(30)}})
    wider = pa.table({"id": range(60_000), **{f"c{number}": range(60_000) for number in range(60)}})
    texts = pa.table({"c0": range(100_000), **{f"s{number}": ["x" * 40] * 100_000 for number in range(8)}})
    tables = {"facts": large, "others": large, "dims": large.slice(0, 50_000), "tiny": large.slice(0, 9)}
    for name, table in {**tables, "wide": wide, "wider": wider, "texts": texts}.items():
        create_table(lake.catalog, name, data=ipc(table))

    def plan(frame):
        return frame._jdf.queryExecution().executedPlan().toString()

    found = {"plans": {name: plan(lake.sql(text)) for name, text in QUERIES.items()}}
    found["bytes"] = {
        name: int(str(lake.sql(text)._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
        for name, text in SIZES.items()
    }
    # Spark cannot know how many rows this condition keeps before it has read them.
    adaptive = lake.sql(
        "SELECT sum(a.v + b.v) FROM facts a JOIN others b ON a.id = b.id WHERE reverse(string(b.id)) LIKE '7777%'"
    )
    found["before"] = plan(adaptive)
    found["rows"] = [list(row) for row in adaptive.collect()]
    found["after"] = plan(adaptive)
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
