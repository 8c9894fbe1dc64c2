"""Running tasks on executors: functions and plain values are sent there, values or errors come back.

Only the catalog's address is sent along. An error in one task is the result of that task. If an executor dies, Spark
replaces it. If the Spark job still fails, its tasks are run one by one, so that only the faulty one fails.
"""

from __future__ import annotations

import pickle
import time
import uuid
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from threading import Event
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa

from pennon.errors import InternalError, LanceNamespaceError, from_error_code, translate_errors
from pennon.spark.jobs.outcome import first_line
from pennon.spark.reading.scan import count_cores
from pennon.spark.session_settings import classic_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from pyspark.sql import SparkSession

    from pennon.spark.address import Address

Item = TypeVar("Item")
# Two batches run at any time, so that executors have work while the last tasks of a batch finish.
_BATCHES = 2
_PIECES_PER_CORE = 4
_PATIENCE_SECONDS = 0.5
_ANSWER = "number bigint, result binary"


@dataclass(frozen=True)
class TaskResult(Generic[Item]):
    """The result of one task: a value or a catalog error, and the time that it took."""

    item: Item
    value: Any = None
    error: LanceNamespaceError | None = None
    seconds: float = 0.0


def run_tasks(
    spark: SparkSession,
    address: Address,
    work: Callable[[Address, Item], Any],
    items: Sequence[Item],
    *,
    subject: Callable[[Item], str] = str,
) -> Iterator[TaskResult[Item]]:
    """Run `work` on executors for each item, and yield the results in the order in which they arrive.

    `work` is a module-level function. Items and return values must be picklable. `work` may run more than once for an
    item. `subject` names an item in messages.
    """
    group = _TaskGroup(spark, address, work, subject)
    size = max(1, count_cores(spark) * _PIECES_PER_CORE)
    batches = [items[start : start + size] for start in range(0, len(items), size)]
    with ThreadPoolExecutor(max_workers=_BATCHES, thread_name_prefix="pennon-jobs") as threads:
        waiting = {threads.submit(group.run, batch) for batch in batches}
        try:
            while waiting:
                ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for one in ready:
                    yield from one.result()
        except BaseException:
            group.cancel(waiting)
            raise


def run_task(work: Callable[[Address, Item], Any], address: Address, item: Item, subject: str) -> TaskResult[Item]:
    """Run one task in this process. The error of the result can be pickled."""
    begun = time.monotonic()
    value, error = None, None
    try:
        with translate_errors(subject):
            value = work(address, item)
    except LanceNamespaceError as raised:
        error = from_error_code(int(raised.code), str(raised))
    except Exception as raised:  # noqa: BLE001 - it is this task's result, and must not stop the others
        error = InternalError(f"{subject}: {type(raised).__name__}: {raised}")
    except BaseException as raised:
        # A panic of Lance's native code is not a subclass of Exception.
        if type(raised).__name__ != "PanicException":
            raise
        error = InternalError(f"{subject}: Lance panicked: {raised}")
    return TaskResult(item, value, error, time.monotonic() - begun)


@dataclass(frozen=True)
class _TaskGroup(Generic[Item]):
    """All batches of one call. Their Spark jobs have the same tag."""

    spark: SparkSession
    address: Address
    work: Callable[[Address, Item], Any]
    subject: Callable[[Item], str]
    tag: str = field(default_factory=lambda: f"pennon-{uuid.uuid4().hex[:12]}")
    stopped: Event = field(default_factory=Event)

    def run(self, batch: Sequence[Item]) -> list[TaskResult[Item]]:
        """Run one batch as one Spark job. If the job fails, run each of its tasks as a job of its own."""
        if self.stopped.is_set():
            return []
        try:
            with self._tagged():
                return self._collect(batch)
        except Exception as error:
            # An error of Spark, of any class, is the result of the task.
            if self.stopped.is_set():
                raise
            if len(batch) == 1:
                message = f"{self.subject(batch[0])}: the task on the executors failed: {first_line(error)}"
                return [TaskResult(batch[0], error=InternalError(message))]
            return [result for item in batch for result in self.run([item])]

    def _collect(self, batch: Sequence[Item]) -> list[TaskResult[Item]]:
        # The session cannot be pickled, so the function that is sent to executors must not refer to this object.
        work, address, subjects = self.work, self.address, [self.subject(item) for item in batch]

        def task(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for part in numbers:
                for number in part.column(0).to_pylist():
                    result = replace(run_task(work, address, batch[number], subjects[number]), item=None)
                    yield pa.record_batch({"number": pa.array([number], pa.int64()), "result": [pickle.dumps(result)]})

        rows = self.spark.range(0, len(batch), 1, len(batch)).mapInArrow(task, _ANSWER).collect()
        return [replace(pickle.loads(row.result), item=batch[row.number]) for row in rows]  # noqa: S301 - from our own task

    @contextmanager
    def _tagged(self) -> Iterator[None]:
        """Tag the Spark jobs of this thread."""
        # On classic Spark, only the thread that set a session's tag can interrupt by it. Job tags have no such limit.
        where = classic_context(self.spark)
        add, remove = (
            (self.spark.addTag, self.spark.removeTag) if where is None else (where.addJobTag, where.removeJobTag)
        )
        add(self.tag)
        try:
            yield
        finally:
            with suppress(Exception):
                remove(self.tag)

    def cancel(self, waiting: set[Future[Any]]) -> None:
        """Start no more batches and stop those that run."""
        self.stopped.set()
        for one in waiting:
            one.cancel()
        while waiting:
            self._interrupt()
            # A thread may have submitted its job after the last interrupt.
            _, waiting = wait(waiting, timeout=_PATIENCE_SECONDS)

    def _interrupt(self) -> None:
        with suppress(Exception):
            where = classic_context(self.spark)
            if where is None:
                self.spark.interruptTag(self.tag)
            else:
                where.cancelJobsWithTag(self.tag)
