"""Work on executors: a function and plain values go there, plain values or errors come back, as they get ready.

Nothing of the driver travels along but the catalog's address. A failure of one piece of work is that piece's result; an
executor that dies in the middle is Spark's to replace, and if that does not help, the pieces that were sent out
together are tried one by one, so that only the one to blame fails.
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
from pennon.spark.classic import context_of
from pennon.spark.reading.scan import cores

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from pyspark.sql import SparkSession

    from pennon.spark.address import Address

Item = TypeVar("Item")
Value = TypeVar("Value")
# Two batches are under way at any time, so that the last pieces of one do not leave executors without work.
_BATCHES = 2
_PIECES_PER_CORE = 4
_PATIENCE_SECONDS = 0.5
_ANSWER = "number bigint, answer binary"


@dataclass(frozen=True)
class Answer(Generic[Item, Value]):
    """What came of one piece of work: a value, or an error of the catalog's kinds."""

    item: Item
    value: Value | None
    error: LanceNamespaceError | None = None


def spread(
    spark: SparkSession,
    address: Address,
    work: Callable[[Address, Item], Value],
    items: Sequence[Item],
    *,
    subject: Callable[[Item], str] = str,
) -> Iterator[Answer[Item, Value]]:
    """Run `work` on executors for each item, and give the answers as they come, in any order.

    `work` is a function of a module; items and what it returns can be pickled. It may run more than once for an item.
    `subject` names an item in messages.
    """
    errand = _Errand(spark, f"pennon-{uuid.uuid4().hex[:12]}", Event())
    size = max(1, cores(spark) * _PIECES_PER_CORE)
    batches = [items[start : start + size] for start in range(0, len(items), size)]
    with ThreadPoolExecutor(max_workers=_BATCHES, thread_name_prefix="pennon-jobs") as threads:
        waiting = {threads.submit(_ran, errand, address, work, batch, subject) for batch in batches}
        try:
            while waiting:
                ready, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for one in ready:
                    yield from one.result()
        except BaseException:
            errand.call_off(waiting)
            raise


@dataclass(frozen=True)
class _Errand:
    """All batches of one call: where they run, the tag by which Spark knows them, and whether they are called off."""

    spark: SparkSession
    tag: str
    stopped: Event

    @contextmanager
    def named(self) -> Iterator[None]:
        """Name the Spark jobs of this thread."""
        # On classic Spark a session's own tags are known to the thread alone that set them; those of jobs are not.
        where = context_of(self.spark)
        add, remove = (
            (self.spark.addTag, self.spark.removeTag) if where is None else (where.addJobTag, where.removeJobTag)
        )
        add(self.tag)
        try:
            yield
        finally:
            with suppress(Exception):
                remove(self.tag)

    def call_off(self, waiting: set[Future[Any]]) -> None:
        """Begin nothing more and stop what runs, because nobody wants the answers any more."""
        self.stopped.set()
        for one in waiting:
            one.cancel()
        while waiting:
            self._interrupt()
            # A job may have been on its way to Spark just now.
            _, waiting = wait(waiting, timeout=_PATIENCE_SECONDS)

    def _interrupt(self) -> None:
        with suppress(Exception):
            where = context_of(self.spark)
            if where is None:
                self.spark.interruptTag(self.tag)
            else:
                where.cancelJobsWithTag(self.tag)


def _ran(
    errand: _Errand,
    address: Address,
    work: Callable[[Address, Item], Value],
    batch: Sequence[Item],
    subject: Callable[[Item], str],
) -> list[Answer[Item, Value]]:
    """Run one batch as one Spark job, and if the job fails, each of its pieces as a job of its own."""
    if errand.stopped.is_set():
        return []
    try:
        with errand.named():
            return _collected(errand.spark, address, work, batch, subject)
    except Exception as error:
        # Spark's errors, whatever kind, are the result of the piece.
        if errand.stopped.is_set():
            raise
        if len(batch) == 1:
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            failed = InternalError(f"{subject(batch[0])}: the task on the executors failed: {reason}")
            return [Answer(batch[0], None, failed)]
        return [answer for item in batch for answer in _ran(errand, address, work, [item], subject)]


def _collected(
    spark: SparkSession,
    address: Address,
    work: Callable[[Address, Item], Value],
    batch: Sequence[Item],
    subject: Callable[[Item], str],
) -> list[Answer[Item, Value]]:
    subjects = [subject(item) for item in batch]

    def task(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in numbers:
            for number in part.column(0).to_pylist():
                answer = pickle.dumps(attempt(work, address, batch[number], subjects[number]))
                yield pa.record_batch({"number": pa.array([number], pa.int64()), "answer": [answer]})

    frame = spark.range(0, len(batch), 1, len(batch)).mapInArrow(task, _ANSWER)
    answers = []
    for row in frame.collect():
        value, code, message = pickle.loads(row.answer)  # noqa: S301 - it comes from our own task
        error = None if code is None else from_error_code(code, message)
        answers.append(Answer(batch[row.number], value, error))
    return answers


def attempt(
    work: Callable[[Address, Item], Value], address: Address, item: Item, subject: str
) -> tuple[Value | None, int | None, str | None]:
    """Do one piece of work here; whatever goes wrong becomes a code and a message."""
    try:
        with translate_errors(subject):
            return work(address, item), None, None
    except LanceNamespaceError as error:
        return None, int(error.code), str(error)
    except Exception as error:  # noqa: BLE001 - it is this piece's result, and must not stop the others
        return None, int(InternalError("").code), f"{subject}: {type(error).__name__}: {error}"
    except BaseException as error:
        # A panic of Lance's native code is no Exception.
        if type(error).__name__ != "PanicException":
            raise
        return None, int(InternalError("").code), f"{subject}: Lance panicked: {error}"
