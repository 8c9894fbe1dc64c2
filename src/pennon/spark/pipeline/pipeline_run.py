"""Running a pipeline: stage everything, check everything, then publish everything.

Each piece of work is recorded when it is finished (see `run_state`). A resumed run continues from there: it reads the
versions that it began with, computes no staged step twice, and publishes under one job id, which a table accepts once.

| a crash | leaves | the resumed run |
|---|---|---|
| before the run is recorded | nothing | begins |
| while a step or target is staged | files that nothing refers to | deletes them, and stages it again |
| after that is recorded | staged data, which is not visible | continues with it |
| while it publishes | all targets published, or none | finds its job id in the tables, or publishes |
| after it published | staged data in the run's directory | records that it is published, and deletes the data |
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from pennon.errors import ConcurrentModificationError, TableAlreadyExistsError
from pennon.spark import tables
from pennon.spark.merging import merge
from pennon.spark.pipeline import staged_notes, target_publishing
from pennon.spark.pipeline.check_subjects import CheckAudit
from pennon.spark.pipeline.interrupts import defer_signals
from pennon.spark.pipeline.report import (
    CHECKS_FAILED,
    PUBLISHED,
    CheckReport,
    RunReport,
    SourceReport,
    StepReport,
    TargetReport,
)
from pennon.spark.pipeline.staged_files import has_versions
from pennon.spark.pipeline.staged_steps import open_staged_step, stage_step
from pennon.spark.pipeline.statements import parse_table_name
from pennon.spark.reading import scan
from pennon.spark.reading.pinned import VersionOptions

if TYPE_CHECKING:
    from pennon.identifiers import Identifier
    from pennon.spark.pipeline.graph import CheckGroup, Graph
    from pennon.spark.pipeline.lease import Lease
    from pennon.spark.pipeline.model import Target
    from pennon.spark.pipeline.observer import Observer
    from pennon.spark.pipeline.queries import PipelineQueries
    from pennon.spark.pipeline.run_state import RunState
    from pennon.spark.pipeline.scrubbing import Scrubber
    from pennon.spark.reading.scan import Scan
    from pennon.spark.tables.staged_write import StagedWrite


_ATTEMPTS = 3


class PipelineRun:
    """One attempt of a run, after all checks of the definition."""

    def __init__(
        self,
        state: RunState,
        lease: Lease,
        queries: PipelineQueries,
        unstageable: frozenset[str],
        observer: Observer,
        *,
        scrubber: Scrubber,
        resumed: bool,
    ) -> None:
        self._state = state
        self._lease = lease
        self._queries = queries
        self._graph: Graph = queries.graph
        self._definition = queries.graph.definition
        self._lake = queries.lake
        self._observer = observer
        self._scrubber = scrubber
        self._resumed = resumed
        self._began = time.monotonic()
        self._started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._staged_steps = [one for one in self._graph.staged_steps() if one not in unstageable]
        self._steps: dict[str, StepReport] = {}
        self._targets: list[TargetReport] = []
        self._checks: list[CheckReport] = []
        self._staged: dict[int, StagedWrite] = {}
        self._published_before: dict[int, int] = {}
        """Targets that an earlier attempt has published, with their versions."""

    def execute(self) -> RunReport:
        """Do the work that is left, and return the report. Its status shows whether the targets are published."""
        self._observer.planned(self._list_work())
        self._published_before = target_publishing.find_published(self._lake.address, self._state, self._definition)
        for name in self._definition.steps:
            self._run_step(name)
            if self._failed:
                return self._give_up()
        for attempt in range(_ATTEMPTS):
            for number, target in enumerate(self._definition.targets):
                self._prepare_target(number, target)
            for group in self._graph.check_groups():
                if group.step is None:
                    self._run_checks(group)
            if self._failed:
                return self._give_up()
            self._lease.require()
            try:
                return self._publish()
            except (ConcurrentModificationError, TableAlreadyExistsError):
                # Another writer has changed a table: stage and check it again, on its new version.
                if attempt == _ATTEMPTS - 1 or not self._forget_outdated():
                    raise
        raise AssertionError

    def _list_work(self) -> list[str]:
        """Return the names of all pieces of work."""
        groups = list(self._graph.check_groups())
        work = []
        for name in self._definition.steps:
            work += [f"step {name}"] if name in self._staged_steps else []
            work += [f"checks of {group.label}" for group in groups if group.step == name]
        work += [f"target {target.table}" for target in self._definition.targets]
        work += [f"checks of {group.label}" for group in groups if group.step is None]
        return [*work, "publish"]

    # Steps

    def _run_step(self, name: str) -> None:
        if name in self._staged_steps:
            self._stage_step(name)
        elif name in self._graph.used_names():
            self._steps[name] = StepReport(name, staged=False, within=self._graph.readers(name))
        for group in self._graph.check_groups():
            if group.step == name:
                self._run_checks(group)

    def _stage_step(self, name: str) -> None:
        work = f"step {name}"
        self._observer.begun(work)
        note = self._state.read_note(f"step.{name}")
        reused = note is not None
        if note is None:
            self._lease.require()
            made = stage_step(
                self._lake.address, self._state, name, self._queries.dataframe(self._definition.steps[name].sql)
            )
            note, _ = self._state.record(f"step.{name}", made)
        self._queries.steps[name] = open_staged_step(self._lake.address, self._state, name, note)
        figures: dict[str, Any] = {key: note.get(key) for key in ("rows", "bytes", "seconds")}
        self._steps[name] = StepReport(name, staged=True, reused=reused, **figures)
        self._observer.done(work, reused=reused)

    # Targets

    def _prepare_target(self, number: int, target: Target) -> None:
        work = f"target {target.table}"
        self._observer.begun(work)
        note = self._state.read_note(f"target.{number}")
        reused = note is not None
        mine = False
        if note is None:
            note, mine = self._stage_target(number, target)
        note = staged_notes.parse_note(self._state, number, note, parse_table_name(target.table))
        if number not in self._published_before:
            self._staged[number] = staged_notes.restore_write(self._lake, note, proven=mine)
        figures = {key: note[key] for key in ("rows", "bytes", "seconds")}
        base = note["read_version"] or None
        self._targets.append(TargetReport(target.table, target.mode, base_version=base, reused=reused, **figures))
        self._observer.done(work, reused=reused)

    def _stage_target(self, number: int, target: Target) -> tuple[dict[str, Any], bool]:
        """Stage a target; return what is recorded, and whether this process recorded it."""
        self._lease.require()
        started = time.monotonic()
        identifier = parse_table_name(target.table)
        intent = target_publishing.StagingIntent(self._state, number, identifier)
        intent.sweep(self._lake.address)
        run = intent.announce()
        frame = self._queries.read_local(target.from_)
        if target.mode == "merge" and has_versions(self._lake.address, identifier):
            staged = merge.stage_merge(
                self._lake,
                frame,
                identifier,
                on=list(target.on),
                when_matched=target.when_matched,
                when_not_matched=target.when_not_matched,
                when_not_matched_by_source=target.when_not_matched_by_source,
                null_safe=target.null_safe,
                merge_schema=target.merge_schema,
                run=run,
            )
        else:
            mode = "overwrite" if target.mode == "overwrite" else "append"
            staged = tables.stage(self._lake, frame, identifier, mode, merge_schema=target.merge_schema, run=run)
        staged = tables.make_readable(self._lake, staged)
        seconds = round(time.monotonic() - started, 3)
        note, mine = self._state.record(f"target.{number}", {**staged_notes.to_note(staged), "seconds": seconds})
        if not mine:
            # Another process has taken over the run and recorded its own staged data, which will be published.
            tables.discard(self._lake, staged)
        return note, mine

    # Checks

    def _run_checks(self, group: CheckGroup) -> None:
        work = f"checks of {group.label}"
        self._observer.begun(work)
        name = _note_name(group)
        note = self._state.read_note(name)
        reused = note is not None
        if note is None:
            self._lease.require()
            audit = CheckAudit(self._queries, self._staged, self._published_targets(), self._scrubber)
            reports = audit.reports(group)
            note, _ = self._state.record(name, {"reports": [one.document() for one in reports]})
        try:
            reports = [CheckReport.of(one) for one in note["reports"]]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._state.damaged_error(self._state.note_path(name), f"{type(error).__name__}: {error}") from error
        self._checks += [replace(one, reused=reused) for one in reports]
        self._observer.done(work, reused=reused)

    @property
    def _failed(self) -> bool:
        return any(not one.passed and one.severity == "error" for one in self._checks)

    # Publishing

    def _forget_outdated(self) -> bool:
        """Forget what was staged for tables that others have changed, and the checks; return False if there is none."""
        self._published_before = target_publishing.find_published(self._lake.address, self._state, self._definition)
        late = [
            number
            for number, one in self._staged.items()
            if number not in self._published_before and target_publishing.has_moved(one)
        ]
        for group in self._graph.check_groups():
            # After some targets are published one by one, only the checks of the others can run again.
            if group.target in late or (group.step is None and not self._published_before):
                self._state.undo(_note_name(group))
        for number in late:
            # The note of the intent remains; its files are deleted before the target is staged again.
            self._state.undo(f"target.{number}")
        self._checks = [one for one in self._checks if one.on.startswith("steps.")]
        self._targets.clear()
        self._staged.clear()
        return bool(late)

    def _publish(self) -> RunReport:
        self._observer.begun("publish")
        together = self._definition.publish == "atomic"
        versions: dict[int, int | None] = dict(self._published_before)
        if self._resumed:
            for staged in self._staged.values():
                staged_notes.require_files(staged)
        with defer_signals():
            if len(versions) < len(self._targets):
                versions |= target_publishing.publish(
                    self._lake, self._state, self._staged, together=together, unchanged=self._fully_checked_tables()
                )
            self._targets = [replace(one, version=versions[number]) for number, one in enumerate(self._targets)]
            report = self._make_report(PUBLISHED)
            target_publishing.settle(self._lake.address, self._state, self._published_before, self._definition)
            self._state.finish(report.document())
        self._observer.done("publish", reused=False)
        return report

    def _published_targets(self) -> dict[Identifier, Scan]:
        return {
            parse_table_name(self._definition.targets[number].table): scan.plan_scan(
                self._lake.address,
                parse_table_name(self._definition.targets[number].table),
                VersionOptions(version=version),
            )
            for number, version in self._published_before.items()
        }

    def _give_up(self) -> RunReport:
        report = self._make_report(CHECKS_FAILED)
        target_publishing.clean_up(self._lake.address, self._state, self._definition, report.document())
        return report

    def _make_report(self, status: str) -> RunReport:
        sources = [
            SourceReport(name, source.format or "table", _version(self._queries.reads.sources.get(name)))
            for name, source in self._definition.sources.items()
            if name in self._graph.used_names()
        ]
        report = RunReport(
            self._state.pipeline,
            self._state.run_id,
            status,
            self._definition.publish,
            self._started,
            round(time.monotonic() - self._began, 3),
            self._resumed,
            tuple(sources),
            tuple(self._steps.values()),
            tuple(self._targets),
            tuple(self._checks),
        )
        return self._scrubber.scrub_report(report)

    def _fully_checked_tables(self) -> set[Identifier]:
        """Return the tables that checks have read completely, not only their new rows.

        Other writers must not have changed those tables since.
        """
        found = {
            parse_table_name(target.table)
            for target in self._definition.targets
            if any(one.scope == "table" for one in target.checks)
        }
        for group in self._graph.check_groups():
            for check in group.checks:
                named = self._graph.external_reads(check.sql) if check.sql is not None else ()
                # A name may begin with that of the lake.
                found |= {name for one in named for name in (one.name, one.name[1:])}
        return found


def _note_name(group: CheckGroup) -> str:
    if group.step is not None:
        return f"checks.{group.step}"
    return "checks" if group.target is None else f"checks-{group.target}"


def _version(table: Any) -> int | None:
    return None if table is None else int(table.version)
