"""Running tasks on executors: functions and plain values are sent there, values or errors come back.

Only the catalog's address is sent along. An error in one task is the result of that task. If an executor dies, Spark
replaces it. If the Spark job still fails, its tasks are run one by one, so that only the faulty one fails.
"""

from __future__ import annotations

import pickle
import uuid
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa

from pennon.errors import InternalError, LanceNamespaceError, from_error_code, translate_errors
from pennon.spark.reading.scan import count_cores
from pennon.spark.session_settings import classic_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from pyspark.sql import SparkSession

    from pennon.spark.address import Address

Item = TypeVar("Item")
Value = TypeVar("Value")
# Two batches run at any time, so that executors have work while the last tasks of a batch finish.
_BATCHES = 2
_PIECES_PER_CORE = 4
_PATIENCE_SECONDS = 0.5
_ANSWER = "number bigint, result binary"


@dataclass(frozen=True)
class TaskResult(Generic[Item, Value]):
    """The result of one task: a value or a catalog error."""

    item: Item
    value: Value | None
    error: LanceNamespaceError | None = None


def run_tasks(
    spark: SparkSession,
    address: Address,
    work: Callable[[Address, Item], Value],
    items: Sequence[Item],
    *,
    subject: Callable[[Item], str] = str,
) -> Iterator[TaskResult[Item, Value]]:
    """Run `work` on executors for each item, and yield the results in the order in which they arrive.

    `work` is a module-level function. Items and return values must be picklable. `work` may run more than once for an
    item. `subject` names an item in messages.
    """
    group = _TaskGroup(spark, f"pennon-{uuid.uuid4().hex[:12]}", Event())
    size = max(1, count_cores(spark) * _PIECES_PER_CORE)
    batches = [items[start : start + size] for start in range(0, len(items), size)]
    with ThreadPoolExecutor(max_workers=_BATCHES, thread_name_prefix="pennon-jobs") as threads:
        waiting = {threads.submit(_run_batch, group, address, work, batch, subject) for batch in batches}
        try:
            while waiting:
                ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for one in ready:
                    yield from one.result()
        except BaseException:
            group.cancel(waiting)
            raise


@dataclass(frozen=True)
class _TaskGroup:
    """All batches of one call: the session, the tag of their Spark jobs, and whether they are cancelled."""

    spark: SparkSession
    tag: str
    stopped: Event

    @contextmanager
    def tagged(self) -> Iterator[None]:
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


def _run_batch(
    group: _TaskGroup,
    address: Address,
    work: Callable[[Address, Item], Value],
    batch: Sequence[Item],
    subject: Callable[[Item], str],
) -> list[TaskResult[Item, Value]]:
    """Run one batch as one Spark job. If the job fails, run each of its tasks as a job of its own."""
    if group.stopped.is_set():
        return []
    try:
        with group.tagged():
            return _collect_batch(group.spark, address, work, batch, subject)
    except Exception as error:
        # An error of Spark, of any class, is the result of the task.
        if group.stopped.is_set():
            raise
        if len(batch) == 1:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            failed = InternalError(f"{subject(batch[0])}: the task on the executors failed: {reason}")
            return [TaskResult(batch[0], None, failed)]
        return [result for item in batch for result in _run_batch(group, address, work, [item], subject)]


def _collect_batch(
    spark: SparkSession,
    address: Address,
    work: Callable[[Address, Item], Value],
    batch: Sequence[Item],
    subject: Callable[[Item], str],
) -> list[TaskResult[Item, Value]]:
    subjects = [subject(item) for item in batch]

    def task(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in numbers:
            for number in part.column(0).to_pylist():
                result = pickle.dumps(run_task(work, address, batch[number], subjects[number]))
                yield pa.record_batch({"number": pa.array([number], pa.int64()), "result": [result]})

    frame = spark.range(0, len(batch), 1, len(batch)).mapInArrow(task, _ANSWER)
    results = []
    for row in frame.collect():
        value, code, message = pickle.loads(row.result)  # noqa: S301 - it comes from our own task
        error = None if code is None else from_error_code(code, message)
        results.append(TaskResult(batch[row.number], value, error))
    return results


def run_task(
    work: Callable[[Address, Item], Value], address: Address, item: Item, subject: str
) -> tuple[Value | None, int | None, str | None]:
    """Run one task in this process, and return its value or the code and message of its error."""
    try:
        with translate_errors(subject):
            return work(address, item), None, None
    except LanceNamespaceError as error:
        return None, int(error.code), str(error)
    except Exception as error:  # noqa: BLE001 - it is this task's result, and must not stop the others
        return None, int(InternalError("").code), f"{subject}: {type(error).__name__}: {error}"
    except BaseException as error:
        # A panic of Lance's native code is not a subclass of Exception.
        if type(error).__name__ != "PanicException":
            raise
        return None, int(InternalError("").code), f"{subject}: Lance panicked: {error}"
