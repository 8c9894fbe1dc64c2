"""What a Spark session needs to read and write with Pennon."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from pennon.spark.session_settings import classic_context
from pennon.spark.worker_python import require_pennon_in_workers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
# Spark looks at each value of an Arrow batch, and Arrow checks each time whether the memory is still there.
_UNCHECKED = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
# It does so by one call for columns of all types. HotSpot remembers two types that it has met there, and makes the call
# fast for one that nine of ten values have; if vectors are not among the two, a scan takes up to half as long again.
_PROFILED = "-XX:+IgnoreUnrecognizedVMOptions -XX:TypeProfileWidth=8 -XX:TypeProfileMajorReceiverPercent=75"
_JAVA = f"{_UNCHECKED} {_PROFILED}"
_OURS = {
    PUSH_DOWN: "true",
    "spark.driver.defaultJavaOptions": _JAVA,
    "spark.executor.defaultJavaOptions": _JAVA,
    # Batches that Lance reads are large. By default each one's memory goes back to the system, which clears it anew.
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 * 1024 * 1024),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(256 * 1024 * 1024),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# Writes by a classic session choose that themselves (writing/light_rows.py).
_REMOTE = {"spark.sql.execution.arrow.maxRecordsPerBatch": "65536"}

# Spark warns of a source that is registered twice.
_PREPARED: WeakSet[SparkSession] = WeakSet()


def prepare(spark: SparkSession) -> None:
    """Register the data source, and switch on filters for Python data sources, without which they refuse to work.

    Raises InvalidInputError if the session's Python workers would not find Pennon.
    """
    from pennon.spark.source import PennonDataSource

    if spark in _PREPARED:
        return
    require_pennon_in_workers(spark)
    spark.conf.set(PUSH_DOWN, "true")
    with _active(spark):
        spark.dataSource.register(PennonDataSource)
    _announce_arrow(spark)
    _PREPARED.add(spark)


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Make a session the active one for a while.

    Spark looks in the active session whether it has a data source of a name, whichever session is asked to register it.
    """
    context = classic_context(spark)
    if context is None:
        yield
        return
    java: Any = context._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]  # noqa: SLF001 - there is no other way
    before = java.getActiveSession()
    java.setActiveSession(spark._jsparkSession)  # noqa: SLF001 - as above
    try:
        yield
    finally:
        if before.isDefined():
            java.setActiveSession(before.get())
        else:
            java.clearActiveSession()


def _announce_arrow(spark: SparkSession) -> None:
    """Load the class by which Spark reads Arrow batches before HotSpot compiles anything that reads columns.

    As long as it knows of no columns but those of Parquet files, HotSpot compiles the loops over lists for these alone.
    It never does as well for both later on: a scan of vectors took a fifth longer after Parquet had been read.
    """
    context = classic_context(spark)
    if context is not None:
        context._jvm.java.lang.Class.forName("org.apache.spark.sql.vectorized.ArrowColumnVector")  # type: ignore[union-attr]  # noqa: SLF001 - there is no other way


def new_session(app: str, *, master: str | None = None, remote: str | None = None, **settings: str) -> SparkSession:
    """Start a session for a program of ours: classic at `master`, or by Spark Connect at `remote`.

    `settings` win over what we would choose.

    Under `spark-submit`, what it was given decides where the session runs.
    """
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app)
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            settings = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", **settings}
    ours = _OURS
    if remote is not None:
        builder = builder.remote(remote)
        # A client of Spark Connect decides about its own session alone, and is warned of everything else.
        ours = {key: value for key, value in _OURS.items() if key.startswith("spark.sql.")} | _REMOTE
    for key, value in {**ours, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
