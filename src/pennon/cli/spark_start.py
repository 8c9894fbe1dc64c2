"""Start Spark for a command, and stop it at the end."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import warnings
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

    from pennon.cli.status_line import StatusLine

_TERMINATED = 128 + signal.SIGTERM
_STDERR = 2


@contextmanager
def start_spark(
    app: str,
    status: StatusLine,
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
    verbose: bool = False,
) -> Iterator[SparkSession]:
    """Start Spark as `start_session` does, and stop it at the end, also after SIGTERM.

    Messages of Java and of Spark's workers are shown only if Spark does not start, or if `verbose`.
    """
    status.show("Starting Spark")
    from pennon.spark.pipeline.interrupts import raise_on_signals
    from pennon.spark.session import start_session

    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    with _terminable(), ExitStack() as stack:
        with ExitStack() as starting:
            if not verbose and sys.stderr is not None:
                # Py4J logs each interrupted call with a traceback, also by the root logger.
                logging.getLogger("py4j").setLevel(logging.CRITICAL)
                logging.getLogger().addFilter(_is_not_from_py4j)
                starting.enter_context(_hide_messages_of_java(status))
            spark = stack.enter_context(start_session(app, master=master, remote=remote, settings=settings))
        with raise_on_signals():
            yield spark


@contextmanager
def _hide_messages_of_java(status: StatusLine) -> Iterator[None]:
    """Redirect stderr of processes that start in this block to a file; show its content if the block raises an error.

    After Ctrl-C there is nothing to explain.
    """
    sys.stderr.flush()
    terminal = os.dup(_STDERR)
    with os.fdopen(terminal, "w") as shown, tempfile.TemporaryFile() as log, warnings.catch_warnings():
        # Lance warns of every fork. Spark's launcher runs another program right after it.
        warnings.filterwarnings("ignore", message="lance is not fork-safe")
        os.dup2(log.fileno(), _STDERR)
        try:
            yield
        except Exception:
            log.seek(0)
            status.clear()
            shown.write(log.read().decode(errors="replace"))
            raise
        finally:
            shown.flush()
            os.dup2(terminal, _STDERR)


def _is_not_from_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname


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
