"""Python workers, which do one task of Spark after the other."""

from __future__ import annotations

import gc
import sys


def settle() -> None:
    """Spare a worker that has imported Lance the look at all that is imported, after each of its tasks.

    PySpark collects garbage whenever a task has ended. With Lance, Arrow and pandas there, that took 20 ms of processor
    time each time. What is there once will stay; only later objects are looked at from then on. Any other process is
    left alone: it may be somebody's program.
    """
    if gc.get_freeze_count() or not _is_worker():
        return
    gc.collect()
    gc.freeze()


def _is_worker() -> bool:
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.TaskContext.get() is not None
