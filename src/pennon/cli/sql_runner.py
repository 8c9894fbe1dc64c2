"""Run SQL statements on Spark, one after the other; Ctrl-C cancels the one that runs."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from pennon.cli.failures import CommandFailure, ExitCode
from pennon.cli.status_line import show_status

if TYPE_CHECKING:
    import pyarrow as pa

    from pennon.cli.sql_results import ResultWriter
    from pennon.spark import Lake

_CANCEL_AGAIN_SECONDS = 0.2


class StatementRunner:
    """Runs statements in a thread of its own, so that the main thread can cancel them.

    An interrupted call would leave the main thread's connection to Spark in an unknown state.
    """

    def __init__(self, lake: Lake, writer: ResultWriter) -> None:
        self.lake = lake
        self._writer = writer
        self._thread = ThreadPoolExecutor(1, "pennon-sql")

    def close(self) -> None:
        """Let the thread end."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def run(self, statement: str) -> None:
        """Run a statement and write its result.

        Raises CommandFailure for errors of Spark. On KeyboardInterrupt, the statement is cancelled first.
        """
        started = time.monotonic()
        with show_status("Running"):
            try:
                rows = self._thread.submit(self._compute, statement).result()
            except KeyboardInterrupt:
                self._cancel()
                raise
        self._writer.write(rows, time.monotonic() - started)

    def _compute(self, statement: str) -> pa.Table:
        from lance_namespace.errors import InvalidInputError
        from pyspark.errors import PySparkException

        try:
            frame = self.lake.sql(statement)
            most = self._writer.most_rows
            return (frame if most is None else frame.limit(most)).toArrow()
        except PySparkException as error:
            raise _translate(error) from error
        except InvalidInputError as error:
            # Spark adds the statement to a syntax error.
            raise InvalidInputError(str(error).partition("\n== SQL ==")[0].strip()) from error

    def _cancel(self) -> None:
        """Cancel the jobs of a statement until it ends: it may submit another one after the first was cancelled."""
        from pennon.spark.session_settings import classic_context

        context = classic_context(self.lake.spark)
        # The thread makes this call after the statement, whose own future an early Ctrl-C keeps from being returned.
        ended = self._thread.submit(lambda: None)
        while not ended.done():
            if context is None:
                self.lake.spark.interruptAll()
            else:
                context.cancelAllJobs()
            wait([ended], _CANCEL_AGAIN_SECONDS)


def _translate(error: Exception) -> CommandFailure:
    """Return an error of Spark in one line. Those that a statement or its data cause are bad input."""
    from pyspark import errors

    from pennon.spark.pipeline.spark_errors import shorten_error

    caused = (
        errors.AnalysisException,
        errors.ArithmeticException,
        errors.ArrayIndexOutOfBoundsException,
        errors.DateTimeException,
        errors.IllegalArgumentException,
        errors.NumberFormatException,
        errors.SparkRuntimeException,
    )
    return CommandFailure(shorten_error(error), ExitCode.BAD_INPUT if isinstance(error, caused) else ExitCode.INTERNAL)
