"""Spark sessions that read and write with Pennon: preparing a session, and starting one."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from pennon.spark.session_settings import classic_context
from pennon.spark.worker_python import require_pennon_in_workers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"
# Spark reads each value of an Arrow batch by a call, and by default Arrow checks the memory in each call.
_UNCHECKED = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
# Columns of all types share the same call site. By default HotSpot profiles two types, and inlines a type that
# 90 % of the values have. If vectors are not among the two types, a scan takes up to 50 % longer.
_PROFILED = "-XX:+IgnoreUnrecognizedVMOptions -XX:TypeProfileWidth=8 -XX:TypeProfileMajorReceiverPercent=75"
_JAVA = f"{_UNCHECKED} {_PROFILED}"
_OURS = {
    PUSH_DOWN: "true",
    "spark.driver.defaultJavaOptions": _JAVA,
    "spark.executor.defaultJavaOptions": _JAVA,
    # Batches of Lance are large. By default their memory is returned to the system, which clears it for the next batch.
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 * 1024 * 1024),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(256 * 1024 * 1024),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
# Only for Spark Connect: writes of a classic session set this themselves (tables/light_rows.py).
_REMOTE = {"spark.sql.execution.arrow.maxRecordsPerBatch": "65536"}

# Set if spark-submit started this process.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
# Spark warns if a source is registered twice.
_PREPARED: WeakSet[SparkSession] = WeakSet()


def prepare(spark: SparkSession) -> None:
    """Register the data source, and enable the pushdown of filters to Python data sources, which it requires.

    Raises InvalidInputError if the session's Python workers cannot import Pennon.
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
    """Make a session the active one.

    When a source is registered, Spark looks for an existing one in the active session, not in the given session.
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
    """Load the class with which Spark reads Arrow batches before HotSpot compiles code that reads columns.

    As long as only the class for Parquet columns is loaded, HotSpot compiles the loops over lists for that class alone.
    Later code for both classes is slower: a scan of vectors took 20 % longer after Parquet had been read.
    """
    context = classic_context(spark)
    if context is not None:
        context._jvm.java.lang.Class.forName("org.apache.spark.sql.vectorized.ArrowColumnVector")  # type: ignore[union-attr]  # noqa: SLF001 - there is no other way


@contextmanager
def start_session(
    app: str, *, master: str | None = None, remote: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Start a session for a command and stop it at the end, unless the process had one before.

    Without `master` and `remote`, spark-submit decides where it runs, or it uses all cores of this machine.
    """
    from pyspark.sql import SparkSession

    if master is None and remote is None and _SUBMITTED not in os.environ:
        master = "local[*]"
    # Spark's log would mix with the command's output, and repeats every error. A Connect server has its own.
    quiet = {"spark.log.level": "ERROR"} if remote is None else {}
    mine = SparkSession.getActiveSession() is None
    spark = new_session(app, master=master, remote=remote, **{**quiet, **(settings or {})})
    try:
        yield spark
    finally:
        if mine:
            spark.stop()


def new_session(app: str, *, master: str | None = None, remote: str | None = None, **settings: str) -> SparkSession:
    """Start a session for one of Pennon's own programs: classic at `master`, or Spark Connect at `remote`.

    `settings` override Pennon's defaults. Under `spark-submit`, its arguments decide where the session runs.
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
        # A client of Spark Connect can only set options of its own session; Spark warns about all others.
        ours = {key: value for key, value in _OURS.items() if key.startswith("spark.sql.")} | _REMOTE
    for key, value in {**ours, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
