"""Start Spark for a command, and stop it at the end."""

from __future__ import annotations

import logging
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

_TERMINATED = 128 + signal.SIGTERM


@contextmanager
def start_spark(
    app: str, *, master: str | None = None, remote: str | None = None, settings: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Start Spark as `start_session` does, and stop it at the end, also after SIGTERM."""
    from pennon.spark.session import start_session

    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    with _terminable(), start_session(app, master=master, remote=remote, settings=settings) as spark:
        yield spark


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
