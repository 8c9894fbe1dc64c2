"""Start Spark for a command, and stop it at the end."""

from __future__ import annotations

import logging
import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

_TERMINATED = 128 + signal.SIGTERM
# Set if spark-submit started this process; then spark-submit chooses the master.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"


@contextmanager
def start_spark(
    app: str, *, master: str | None = None, remote: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Start Spark, and stop it at the end, also after SIGTERM.

    It runs where spark-submit has chosen, at `master` or `remote`, or on this machine. An existing session of this
    process is used and not stopped.
    """
    from pyspark.sql import SparkSession

    from pennon.spark.session import new_session

    quiet: dict[str, str] = {}
    if remote is None:
        if master is None and _SUBMITTED not in os.environ:
            master = "local[*]"
        # Spark's log would mix with our output, and repeats every error.
        quiet = {"spark.log.level": "ERROR"}
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    with _terminable():
        mine = SparkSession.getActiveSession() is None
        spark = new_session(app, master=master, remote=remote, **{**quiet, **(settings or {})})
        try:
            yield spark
        finally:
            if mine:
                spark.stop()


class _Terminated(KeyboardInterrupt):
    """The process received SIGTERM."""


@contextmanager
def _terminable() -> Iterator[None]:
    """Make SIGTERM end the command cleanly, as Ctrl-C does."""

    def end(*_: object) -> None:
        raise _Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except _Terminated:
        raise SystemExit(_TERMINATED) from None
    finally:
        signal.signal(signal.SIGTERM, before)
