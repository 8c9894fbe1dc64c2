"""A merge whose executors are killed: `python merge_driver.py <root> <signals>` prints the results."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from threading import Thread

from tests.spark.cluster.driver import once, session, until


def signal_last_tasks(spark, signals):
    """Signal a waiting task when it is the last one of its stage."""
    tracker = spark.sparkContext.statusTracker()

    def is_last():
        stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        return any(one and one.numCompletedTasks == one.numTasks - 1 > 0 for one in stages)

    for step in ("apply_changes", "write_deletion_vectors"):
        until(Path(signals, step).exists)
        until(is_last)
        once(signals, f"{step} by all others")


def merged(root, signals):
    """Update every twentieth row, insert as many, delete a few."""
    from pennon.spark import attach
    from pennon.spark.merging.clauses import Delete, Update

    hooks = Path(__file__).parent / "hooked"
    spark = session(
        **{
            "spark.executorEnv.PYTHONPATH": str(hooks),
            "spark.executorEnv.PENNON_TEST_SIGNALS": signals,
            "spark.sql.shuffle.partitions": "4",
            "spark.sql.adaptive.coalescePartitions.enabled": "false",
        }
    )
    lake = attach(spark, root=root)
    Thread(target=signal_last_tasks, args=(spark, signals), daemon=True).start()
    source = spark.range(0, 12_000, 20, 3).selectExpr("id", "id * 10 AS x", "concat('merged ', id) AS text")
    clauses = [Delete("source.id % 200 = 0"), Update()]
    result = lake.merge(source, "t", on="id", when_matched=clauses, job_id="nightly")
    again = lake.merge(source, "t", on="id", when_matched=clauses, job_id="nightly")
    return {"first": asdict(result), "again": asdict(again)}


if __name__ == "__main__":
    print(json.dumps(merged(*sys.argv[1:3])))
