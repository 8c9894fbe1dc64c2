"""Run jobs through Spark Connect, whose client has no JVM. Prints the results as JSON.

usage: connected_jobs.py ROOT
"""

from __future__ import annotations

import json
import sys

from pennon.spark import attach
from pennon.spark.session import new_session

if __name__ == "__main__":
    spark = new_session("connected", remote="local[2]")
    lake = attach(spark, root=sys.argv[1])
    from pennon.spark import jobs

    frame = spark.createDataFrame([(1, "one"), (2, "two")], "k long, name string")
    results = {
        "compact": jobs.compact(lake, target_rows_per_fragment=20, whole_table_bytes=1),
        "index": jobs.index(lake, "t", "k", rows_per_task=20),
        "backfill": jobs.backfill(lake, "t", frame, on="k"),
        "verify": jobs.verify(lake, deep=True),
        "stats": jobs.stats(lake),
    }
    shown = {job: [row.asDict(recursive=True) for row in result.to_df().collect()] for job, result in results.items()}
    print(json.dumps({"is_connect": "connect" in type(spark).__module__, **shown}))
