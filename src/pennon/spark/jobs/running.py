"""What all jobs share: which tables are left to do, what came of each, and where that is written down."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError
from pennon.identifiers import Identifier, quote_identifier
from pennon.spark.jobs import progress, targets
from pennon.spark.jobs.outcome import DONE, PLANNED, SKIPPED, Outcome, failure
from pennon.spark.jobs.spreading import spread
from pennon.spark.jobs.state import State

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

    from pennon.spark.address import Address
    from pennon.spark.jobs.targets import Which
    from pennon.spark.lake import Lake

DECLARED = "the table is declared, and nothing has been written to it yet"


@dataclass(frozen=True)
class Settings:
    """How a job is run, whichever job it is."""

    dry_run: bool = False
    job_id: str | None = None
    state: str | os.PathLike[str] | None = None
    progress: bool | None = None
    """Show a bar on stderr; None: if that is a terminal."""

    def checked(self, job: str, *, noted_in_tables: bool = False) -> State | None:
        """Give the state file if there is one; raises 13 if the id alone would not be enough, or is missing."""
        if self.job_id is None:
            if self.state is not None:
                raise InvalidInputError(f"The state file {str(self.state)!r} of a {job} job needs a job id")
            return None
        if not self.job_id.strip():
            raise InvalidInputError(f"The id of a {job} job is empty")
        if self.state is None:
            if not noted_in_tables:
                raise InvalidInputError(
                    f"A {job} job leaves no note in tables: with the job id {self.job_id!r} give a state file too"
                )
            return None
        return State.at(self.state, job, self.job_id)


@dataclass(frozen=True)
class TableWork:
    """What a task on an executor is told: the table, and the job's options."""

    identifier: Identifier
    options: Any = None

    @property
    def table(self) -> str:
        """Name the table as people write it."""
        return quote_identifier(self.identifier)


@dataclass
class Run:
    """One run of a job: collects the outcomes, and notes those that are finished."""

    lake: Lake
    job: str
    settings: Settings
    state: State | None
    outcomes: list[Outcome] = field(default_factory=list)

    @classmethod
    def begin(cls, lake: Lake, job: str, settings: Settings, *, noted_in_tables: bool = False) -> Run:
        """Check the settings before anything is looked at; 0 if the catalog is no directory namespace."""
        lake.address.directory()
        return cls(lake, job, settings, settings.checked(job, noted_in_tables=noted_in_tables))

    def targets(self, which: Which) -> list[Identifier]:
        """Find the tables that are meant and not finished by an earlier run of this id; those are skipped."""
        return self.left(targets.find(self.lake.directory, which))

    def left(self, identifiers: Iterable[Identifier]) -> list[Identifier]:
        """Give the tables that an earlier run of this id has not finished; the others are skipped."""
        finished = {} if self.state is None else self.state.finished()
        left = []
        for identifier in identifiers:
            at = finished.get(quote_identifier(identifier))
            if at is None:
                left.append(identifier)
            else:
                message = f"done by an earlier run of this job, at {at}"
                self.outcomes.append(Outcome(quote_identifier(identifier), SKIPPED, message))
        return left

    def take(self, outcomes: Iterable[Outcome], total: int) -> list[Outcome]:
        """Take in outcomes as they come, note them, and show how far it is; gives all of the run."""
        dry_run = self.settings.dry_run
        with progress.shown(self.job, total, wanted=self.settings.progress) as moved:
            for outcome in outcomes:
                one = replace(outcome, status=PLANNED) if dry_run and outcome.status == DONE else outcome
                self.outcomes.append(one)
                # Before the next one is begun: a table that is done must not be done again after a crash.
                if self.state is not None and one.table is not None and one.status in {DONE, SKIPPED} and not dry_run:
                    self.state.record(one)
                moved(one)
        return self.outcomes

    def on_executors(
        self, work: Callable[[Address, TableWork], Outcome], identifiers: list[Identifier], options: object = None
    ) -> Iterator[Outcome]:
        """Run a function on executors for each table, and give what came of each as it comes."""
        items = [TableWork(identifier, options) for identifier in identifiers]
        for answer in spread(self.lake.spark, self.lake.address, work, items, subject=self.subject):
            if answer.value is not None:
                yield answer.value
            elif answer.error is not None:
                yield failure(answer.item.table, answer.error)

    def subject(self, item: Any) -> str:
        """Name a piece of work in messages."""
        return f"{self.job} of {item.table}"
