"""What all jobs share: the tables that are left to process, their tasks and outcomes, and the state file."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pennon.errors import ConcurrentModificationError, InvalidInputError
from pennon.identifiers import Identifier, parse_identifier, quote_identifier
from pennon.progress import show_progress
from pennon.spark.jobs import table_selection
from pennon.spark.jobs.executor_tasks import run_tasks
from pennon.spark.jobs.outcome import (
    DONE,
    FAILED,
    PLANNED,
    SKIPPED,
    JobResults,
    TableOutcome,
    failed_outcome,
    skipped_outcome,
)
from pennon.spark.jobs.state_file import StateFile

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pennon.spark.address import Address
    from pennon.spark.jobs.table_selection import TableSelector
    from pennon.spark.lake import Lake
    from pennon.spark.reading.pinned import PinnedTable

_CONFLICT = int(ConcurrentModificationError.code)
DECLARED = "the table is declared, and nothing has been written to it yet"


@dataclass(frozen=True)
class JobSettings:
    """The options that all jobs have."""

    dry_run: bool = False
    job_id: str | None = None
    state: str | os.PathLike[str] | None = None
    progress: bool | None = None
    """Whether to show a progress bar on stderr; None shows it on a terminal only."""

    def open_state(self, job: str, *, noted_in_tables: bool = False) -> StateFile | None:
        """Return the state file, or None if the job has none.

        Raises InvalidInputError if there is a state file without a job id, or a job id that would be recorded nowhere.
        """
        if self.job_id is None:
            if self.state is not None:
                raise InvalidInputError(f"The state file {str(self.state)!r} of a {job} job needs a job id")
            return None
        if not self.job_id.strip():
            raise InvalidInputError(f"The id of a {job} job must not be empty")
        if self.state is None:
            if not noted_in_tables:
                raise InvalidInputError(
                    f"A {job} job records nothing in tables: job id {self.job_id!r} needs a state file"
                )
            return None
        return StateFile.at(self.state, job, self.job_id)


class Task(Protocol):
    """A task of a job. It is sent to an executor."""

    @property
    def table(self) -> str:
        """The table's name, quoted where needed."""


@dataclass(frozen=True)
class TableTask:
    """A task for the latest version of a table, with the options of the job."""

    identifier: Identifier
    options: Any = None

    @property
    def table(self) -> str:
        """The table's name, quoted where needed."""
        return quote_identifier(self.identifier)


@dataclass(frozen=True)
class PinnedTask:
    """A task for one version of a table."""

    pinned: PinnedTable

    @property
    def table(self) -> str:
        """The table's name, quoted where needed."""
        return quote_identifier(self.pinned.identifier)


TaskT = TypeVar("TaskT", bound=Task)
Value = TypeVar("Value")


class JobRun:
    """One run of a job: runs its tasks, collects the outcomes, and records finished tables in the state file."""

    def __init__(
        self, lake: Lake, job: str, columns: str, settings: JobSettings, *, noted_in_tables: bool = False
    ) -> None:
        """`columns` are the columns of the result that only this job has, as in Spark's DDL.

        Raises InvalidInputError if the settings are not valid.
        """
        self.lake, self.settings = lake, settings
        self.outcomes: list[TableOutcome] = []
        self._job, self._columns = job, columns
        self._state = settings.open_state(job, noted_in_tables=noted_in_tables)
        self._seconds: dict[str | None, float] = defaultdict(float)

    def find_tables(self, which: TableSelector) -> list[Identifier]:
        """Return the selected tables. Those that an earlier run of this job id has finished get a skipped outcome."""
        finished = {} if self._state is None else self._state.finished_tables()
        left = []
        for identifier in table_selection.find_tables(self.lake.catalog, which):
            table = quote_identifier(identifier)
            if table in finished:
                message = f"done by an earlier run of this job, at {finished[table]}"
                self.outcomes.append(skipped_outcome(table, message))
            else:
                left.append(identifier)
        return left

    def collect(self, outcomes: Iterable[TableOutcome], total: int) -> JobResults:
        """Record outcomes as they arrive, show progress, and return all outcomes of the run."""
        dry_run, failed = self.settings.dry_run, 0
        with show_progress(self._job, total, wanted=self.settings.progress) as advance:
            for outcome in outcomes:
                status = PLANNED if dry_run and outcome.status == DONE else outcome.status
                seconds = outcome.seconds or self._seconds[outcome.table]
                one = replace(outcome, status=status, seconds=round(seconds, 3))
                self.outcomes.append(one)
                # Recorded before the next table, so that a finished table is not processed again after a crash.
                if self._state is not None and one.table is not None and one.status in {DONE, SKIPPED} and not dry_run:
                    self._state.record(one)
                failed += one.status == FAILED
                advance(1, f"{one.table or ''}  {failed} failed" if failed else one.table or "")
        return JobResults(self.lake.spark, self._columns, self.outcomes)

    @contextmanager
    def timed(self, table: str) -> Iterator[None]:
        """Count the time of the block, including its tasks, as work for a table. Other tasks are counted anyway."""
        before, begun = self._seconds[table], time.monotonic()
        try:
            yield
        finally:
            self._seconds[table] = before + time.monotonic() - begun

    def map_tasks(
        self,
        work: Callable[[Address, TaskT], Value | TableOutcome],
        tasks: Sequence[TaskT],
        address: Address | None = None,
    ) -> Iterator[tuple[TaskT, Value | TableOutcome]]:
        """Run a function on executors for each task, and yield the tasks with their values as they arrive.

        The value of a task that fails is a failed outcome.
        """
        where = self.lake.address if address is None else address
        results = run_tasks(self.lake.spark, where, work, tasks, subject=lambda task: f"{self._job} of {task.table}")
        for result in results:
            table = result.item.table
            self._seconds[table] += result.seconds
            yield result.item, result.value if result.error is None else failed_outcome(table, result.error)

    def map_tables(
        self, work: Callable[[Address, TableTask], Value | TableOutcome], tables: Iterable[Identifier], options: Any
    ) -> Iterator[Value | TableOutcome]:
        """Run a function on executors for each table, and yield its values as they arrive."""
        tasks = [TableTask(identifier, options) for identifier in tables]
        return (value for _, value in self.map_tasks(work, tasks))

    def map_parts(
        self, work: Callable[[Address, TaskT], Value], tasks: Sequence[TaskT]
    ) -> Iterator[tuple[str, list[Value], list[TableOutcome]]]:
        """Run several tasks for each table. When the last one of a table is done, yield its values and its failures."""
        waiting = Counter(task.table for task in tasks)
        values: dict[str, list[Value]] = defaultdict(list)
        failures: dict[str, list[TableOutcome]] = defaultdict(list)
        for task, value in self.map_tasks(work, tasks):
            table = task.table
            if isinstance(value, TableOutcome):
                failures[table].append(value)
            else:
                values[table].append(value)
            waiting[table] -= 1
            if not waiting[table]:
                yield table, values[table], failures[table]


def retry_conflicts(
    tables: Sequence[Identifier], run_round: Callable[[Sequence[Identifier]], Iterator[TableOutcome]], rounds: int
) -> Iterator[TableOutcome]:
    """Yield the outcomes of a round. Tables that another writer has changed go to the next of at most `rounds`."""
    conflicts: list[Identifier] = []
    for outcome in run_round(tables):
        if outcome.code == _CONFLICT and outcome.table is not None and rounds > 1:
            conflicts.append(parse_identifier(outcome.table))
        else:
            yield outcome
    if conflicts:
        yield from retry_conflicts(conflicts, run_round, rounds - 1)
