"""What all jobs share: the tables that are left to process, the outcome of each, and the state file."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pennon.errors import ConcurrentModificationError, InvalidInputError
from pennon.identifiers import Identifier, quote_identifier
from pennon.spark.jobs import progress, table_selection
from pennon.spark.jobs.executor_tasks import run_tasks
from pennon.spark.jobs.outcome import DONE, PLANNED, SKIPPED, TableOutcome, failed_outcome
from pennon.spark.jobs.state_file import StateFile

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    from pennon.spark.address import Address
    from pennon.spark.jobs.table_selection import TableSelector
    from pennon.spark.lake import Lake

CONFLICT = ConcurrentModificationError("").code
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


@dataclass(frozen=True)
class TableTask:
    """A task for one table, with the options of the job."""

    identifier: Identifier
    options: Any = None

    @property
    def table(self) -> str:
        """The table's name, quoted where needed."""
        return quote_identifier(self.identifier)


@dataclass
class JobRun:
    """One run of a job: collects the outcomes, and records finished tables in the state file."""

    lake: Lake
    job: str
    settings: JobSettings
    state: StateFile | None
    outcomes: list[TableOutcome] = field(default_factory=list)

    @classmethod
    def start(cls, lake: Lake, job: str, settings: JobSettings, *, noted_in_tables: bool = False) -> JobRun:
        """Check the settings, and return the run.

        Raises UnsupportedOperationError if the catalog is not a directory catalog.
        """
        lake.address.directory()
        return cls(lake, job, settings, settings.open_state(job, noted_in_tables=noted_in_tables))

    def find_tables(self, which: TableSelector) -> list[Identifier]:
        """Return the selected tables, without those that an earlier run of this job id has finished."""
        return self._skip_finished(table_selection.find_tables(self.lake.directory, which))

    def _skip_finished(self, identifiers: Iterable[Identifier]) -> list[Identifier]:
        """Return the tables that an earlier run of this job id has not finished; the others get a skipped outcome."""
        finished = {} if self.state is None else self.state.finished_tables()
        left = []
        for identifier in identifiers:
            at = finished.get(quote_identifier(identifier))
            if at is None:
                left.append(identifier)
            else:
                message = f"done by an earlier run of this job, at {at}"
                self.outcomes.append(TableOutcome(quote_identifier(identifier), SKIPPED, message))
        return left

    def collect(self, outcomes: Iterable[TableOutcome], total: int) -> list[TableOutcome]:
        """Record outcomes as they arrive, show progress, and return all outcomes of the run."""
        dry_run = self.settings.dry_run
        with progress.show_progress(self.job, total, wanted=self.settings.progress) as advance:
            for outcome in outcomes:
                one = replace(outcome, status=PLANNED) if dry_run and outcome.status == DONE else outcome
                self.outcomes.append(one)
                # Recorded before the next table, so that a finished table is not processed again after a crash.
                if self.state is not None and one.table is not None and one.status in {DONE, SKIPPED} and not dry_run:
                    self.state.record(one)
                advance(one)
        return self.outcomes

    def run_on_executors(
        self, work: Callable[[Address, TableTask], TableOutcome], identifiers: list[Identifier], options: object = None
    ) -> Iterator[TableOutcome]:
        """Run a function on executors for each table, and yield the outcomes as they arrive."""
        items = [TableTask(identifier, options) for identifier in identifiers]
        for result in run_tasks(self.lake.spark, self.lake.address, work, items, subject=self.describe_task):
            if result.value is not None:
                yield result.value
            elif result.error is not None:
                yield failed_outcome(result.item.table, result.error)

    def retry_conflicts(
        self,
        tables: list[Identifier],
        run_round: Callable[[list[Identifier]], Iterator[tuple[Identifier, TableOutcome]]],
        rounds: int,
    ) -> Iterator[TableOutcome]:
        """Run rounds until no table has a conflict with another writer, at most `rounds`; yield the outcomes."""
        for attempt in range(rounds):
            conflicts: list[Identifier] = []
            for identifier, outcome in run_round(tables):
                if outcome.code == CONFLICT and attempt < rounds - 1:
                    conflicts.append(identifier)
                else:
                    yield outcome
            tables = conflicts
            if not tables:
                return

    def describe_task(self, item: Any) -> str:
        """Return the name of a task for messages."""
        return f"{self.job} of {item.table}"
