"""Adjustments for Spark's Python workers, which run many tasks each."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from typing import Any

# The process in which imports are frozen. `gc.get_freeze_count()` walks all frozen objects, which takes 7 ms.
_FROZEN_IN: set[int] = set()


class _QuietTraceback:
    """The module `traceback` for PySpark's daemon, without reports of closed connections."""

    def __getattr__(self, name: str) -> Any:
        return getattr(traceback, name)

    def print_exc(self) -> None:
        """Print the exception that is being handled, unless the other side has closed the connection."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            traceback.print_exc()


def freeze_imports() -> None:
    """Exclude the objects that exist now from garbage collection, if this process is a worker.

    PySpark collects garbage after each task. With Lance, Arrow and pandas imported, that took 20 ms of processor time.
    Imported modules stay anyway, so only later objects need to be examined. Any other process may be the user's program
    and is left alone.
    """
    if os.getpid() in _FROZEN_IN or not _is_worker():
        return
    gc.collect()
    gc.freeze()
    _FROZEN_IN.add(os.getpid())


def silence_closed_connections() -> None:
    """Keep the daemon of PySpark from printing a traceback when Spark stops reading early, as for `head()`.

    Spark then closes the connection to the worker. The worker's last write fails and the worker ends, as Spark intends,
    but the daemon prints the BrokenPipeError to the stderr of the user's program.
    """
    daemon = sys.modules["__main__"]
    # Any other process may be the user's program.
    if getattr(daemon.__spec__, "name", None) == "pyspark.daemon":
        vars(daemon)["traceback"] = _QuietTraceback()


def _is_worker() -> bool:
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.TaskContext.get() is not None
