"""Python workers, which do one task of Spark after the other."""

from __future__ import annotations

import gc
import sys
import traceback
from typing import Any


class _QuietTraceback:
    """The module `traceback` as PySpark's daemon uses it, without reports of closed connections."""

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)

    def print_exc(self) -> None:
        """Print the exception that is being handled, unless the other side has closed the connection."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            traceback.print_exc()


def freeze_imports() -> None:
    """Spare a worker that has imported Lance the look at all that is imported, after each of its tasks.

    PySpark collects garbage whenever a task has ended. With Lance, Arrow and pandas there, that took 20 ms of processor
    time each time. What is there once will stay; only later objects are looked at from then on. Any other process is
    left alone: it may be somebody's program.
    """
    if gc.get_freeze_count() or not _is_worker():
        return
    gc.collect()
    gc.freeze()


def silence_closed_connections() -> None:
    """Keep the daemon of PySpark from printing a traceback when Spark has read enough, as for `head()`.

    Spark closes the connection to the worker then. The last write of the worker fails, the worker ends, which is what
    Spark wants, and the daemon prints the BrokenPipeError to the stderr of the user's program.
    """
    daemon = sys.modules["__main__"]
    # In any other process this is somebody's program.
    if getattr(daemon.__spec__, "name", None) == "pyspark.daemon":
        vars(daemon)["traceback"] = _QuietTraceback()


def _is_worker() -> bool:
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.TaskContext.get() is not None
