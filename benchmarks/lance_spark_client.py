"""Measure lance-spark next to Parquet. `lance_spark.py` starts this program in an environment with Spark 3.5.

`python lance_spark_client.py <rows> <directory> <directory of jars>` prints the seconds of every run as JSON.
It needs only PySpark.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from spark_workload import DISCARDED, ROUNDS, STATEMENTS, WARM_UPS, make_rows, noop

if TYPE_CHECKING:
    from collections.abc import Callable

# Spark's own are used: they are older, but all that Spark is built with.
FROM_SPARK = ("jackson", "jsr305")
TABLE, WRITTEN = "connector.default.t", "connector.default.written"


def main(rows: int, directory: str, jars: str) -> None:
    """Run the operations of both systems alternately, and print the seconds."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    paths = sorted(map(str, Path(jars).glob("*.jar")))
    first = [path for path in paths if not Path(path).name.startswith(FROM_SPARK)]
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", "6g")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        # Spark has an older Arrow: the first classes on the path count.
        .config("spark.driver.extraClassPath", ":".join(first))
        .config("spark.jars", ",".join(paths))
        .config("spark.driver.extraJavaOptions", "--add-opens=java.base/java.nio=ALL-UNNAMED")
        .config("spark.sql.extensions", "org.lance.spark.extensions.LanceSparkSessionExtensions")
        .config("spark.sql.catalog.connector", "org.lance.spark.LanceNamespaceSparkCatalog")
        .config("spark.sql.catalog.connector.impl", "dir")
        .config("spark.sql.catalog.connector.root", f"{directory}/lance")
        .config("spark.sql.catalog.connector.single_level_ns", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    make_rows(spark, rows).write.parquet(f"{directory}/table.parquet")
    table = spark.read.parquet(f"{directory}/table.parquet")
    table.createOrReplaceTempView("parquet_table")
    # Cache a copy: if the table itself were cached, Spark would no longer read its files.
    table.write.parquet(f"{directory}/copy.parquet")
    source = spark.read.parquet(f"{directory}/copy.parquet").cache()
    source.count()
    source.writeTo(TABLE).createOrReplace()

    def ask(name: str, view: str) -> Callable[[], object]:
        text = STATEMENTS[name].format(table=view)
        return lambda: noop(spark.sql(text)) if name in DISCARDED else spark.sql(text).collect()

    operations = {
        name: {"Parquet": ask(name, "parquet_table"), "lance-spark": ask(name, TABLE)}
        for name in STATEMENTS
        if name != "filter, indexed"
    }
    operations["write"] = {
        "Parquet": lambda: source.write.mode("overwrite").parquet(f"{directory}/written.parquet"),
        "lance-spark": lambda: source.writeTo(WRITTEN).createOrReplace(),
    }
    operations["append"] = {
        "Parquet": lambda: source.write.mode("append").parquet(f"{directory}/written.parquet"),
        "lance-spark": lambda: source.writeTo(WRITTEN).append(),
    }
    found: dict[str, dict[str, list[float]]] = {
        name: {system: [] for system in run} for name, run in operations.items()
    }
    for name, run in operations.items():
        for turn in range(WARM_UPS + ROUNDS):
            for system, call in run.items():
                begun = time.perf_counter()
                call()
                if turn >= WARM_UPS:
                    found[name][system].append(time.perf_counter() - begun)
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
