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
import uuid
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from pennon.errors import ConcurrentModificationError, TableAlreadyExistsError
from pennon.identifiers import parse_table_name, quote_identifier
from pennon.pipeline_runs.report import (
    CHECKS_FAILED,
    PUBLISHED,
    CheckReport,
    CheckReports,
    RunReport,
    SourceReport,
    StepReport,
    TargetReport,
)
from pennon.spark import tables
from pennon.spark.merging import merge
from pennon.spark.merging.clauses import MergeSpec
from pennon.spark.pipeline import cleanup, staged_notes, targets
from pennon.spark.pipeline.check_subjects import CheckAudit
from pennon.spark.pipeline.interrupts import defer_signals
from pennon.spark.pipeline.staged_steps import open_staged_step, stage_step
from pennon.spark.reading import scan
from pennon.spark.reading.pinned import VersionOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from pennon.identifiers import Identifier
    from pennon.pipeline_runs.lease import Lease
    from pennon.pipeline_runs.run_state import RunState
    from pennon.spark.address import Address
    from pennon.spark.pipeline.graph import Graph
    from pennon.spark.pipeline.model import CheckGroup, Definition, Target
    from pennon.spark.pipeline.observer import Observer
    from pennon.spark.pipeline.queries import PipelineQueries
    from pennon.spark.pipeline.scrubbing import Scrubber
    from pennon.spark.reading.scan import Scan
    from pennon.spark.tables.staged_write import StagedWrite

_ATTEMPTS = 3


@dataclass
class PipelineRun:
    """One attempt of a run, after all checks of the definition."""

    state: RunState
    lease: Lease
    queries: PipelineQueries
    unstageable: frozenset[str]
    observer: Observer
    scrubber: Scrubber
    resumed: bool
    steps: dict[str, StepReport] = field(default_factory=dict)
    targets: list[TargetReport] = field(default_factory=list)
    checks: list[CheckReport] = field(default_factory=list)
    staged: dict[int, StagedWrite] = field(default_factory=dict)
    proven: set[int] = field(default_factory=set)
    """Targets that this process has staged."""
    published: dict[int, int] = field(default_factory=dict)
    """Targets that an earlier attempt has published, with their versions."""
    began: float = field(default_factory=time.monotonic)
    started: str = field(default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds"))

    def execute(self) -> RunReport:
        """Do the work that is left, and return the report. Its status shows whether the targets are published."""
        self.observer.planned(self._list_work())
        self.published = targets.find_published(self._address, self.state, self._definition)
        for name in self._definition.steps:
            self._run_step(name)
            if self._failed:
                return self._give_up()
        for attempt in range(_ATTEMPTS):
            for number, target in enumerate(self._definition.targets):
                self._prepare_target(number, target)
            for group in self._definition.check_groups():
                if group.step is None:
                    self._run_checks(group)
            if self._failed:
                return self._give_up()
            self.lease.require()
            try:
                return self._publish()
            except (ConcurrentModificationError, TableAlreadyExistsError):
                # Another writer has changed a table: stage and check it again, on its new version.
                if attempt == _ATTEMPTS - 1 or not self._forget_outdated():
                    raise
        raise AssertionError

    @property
    def _graph(self) -> Graph:
        return self.queries.graph

    @property
    def _definition(self) -> Definition:
        return self.queries.graph.definition

    @property
    def _address(self) -> Address:
        return self.queries.lake.address

    @property
    def _failed(self) -> bool:
        return any(not one.passed and one.severity == "error" for one in self.checks)

    def _is_staged(self, name: str) -> bool:
        return name in self._graph.staged_steps() and name not in self.unstageable

    def _list_work(self) -> list[str]:
        """Return the names of all pieces of work."""
        groups = list(self._definition.check_groups())
        work = []
        for name in self._definition.steps:
            work += [f"step {name}"] if self._is_staged(name) else []
            work += [f"checks of {group.label}" for group in groups if group.step == name]
        work += [f"target {target.table}" for target in self._definition.targets]
        work += [f"checks of {group.label}" for group in groups if group.step is None]
        return [*work, "publish"]

    def _do_once(self, work: str, note_name: str, make: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], bool]:
        """Do a piece of work that is not recorded yet; return its note, and whether an earlier attempt recorded it."""
        self.observer.begun(work)
        note = self.state.read_note(note_name)
        reused = note is not None
        if note is None:
            self.lease.require()
            note = make()
        self.observer.done(work, reused=reused)
        return note, reused

    # Steps

    def _run_step(self, name: str) -> None:
        reads, others = self._list_reads(name)
        if self._is_staged(name):
            note, reused = self._do_once(f"step {name}", f"step.{name}", lambda: self._stage_step(name))
            self.queries.steps[name] = open_staged_step(self._address, self.state, name, note)
            figures: dict[str, Any] = {key: note.get(key) for key in ("rows", "bytes", "seconds")}
            self.steps[name] = StepReport(name, staged=True, reused=reused, reads=reads, tables=others, **figures)
        elif name in self._graph.used_names():
            readers = self._graph.readers(name)
            self.steps[name] = StepReport(name, staged=False, within=readers, reads=reads, tables=others)
        for group in self._definition.check_groups():
            if group.step == name:
                self._run_checks(group)

    def _list_reads(self, step: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the sources and steps that the query of a step names, and the other tables."""
        sql, meant = self._definition.steps[step].sql, self.queries.reads.names
        tables = [quote_identifier(meant.get(one.name) or one.name) for one in self._graph.external_reads(sql)]
        return self._graph.local_reads(sql), tuple(dict.fromkeys(tables))

    def _stage_step(self, name: str) -> dict[str, Any]:
        frame = self.queries.dataframe(self._definition.steps[name].sql)
        return self.state.record(f"step.{name}", stage_step(self._address, self.state, name, frame))[0]

    # Targets

    def _prepare_target(self, number: int, target: Target) -> None:
        name = f"target.{number}"
        content, reused = self._do_once(f"target {target.table}", name, lambda: self._stage_target(number, target))
        note = staged_notes.parse_note(self.state, number, content, parse_table_name(target.table))
        if number not in self.published:
            self.staged[number] = staged_notes.restore_write(self._address, note, proven=number in self.proven)
        base = note.read_version or None
        figures = (note.rows, note.bytes, note.seconds)
        self.targets.append(TargetReport(target.table, target.mode, *figures, base, reused=reused, source=target.from_))

    def _stage_target(self, number: int, target: Target) -> dict[str, Any]:
        """Stage a target, and return what is recorded: by this process, or by another one that took over the run."""
        started = time.monotonic()
        identifier = parse_table_name(target.table)
        cleanup.sweep_intent(self._address, self.state, number, identifier)
        # The name of the notes is recorded before the first file is written, so that a crash leaves a trace.
        intent, _ = self.state.record(f"staging.{number}", {"run": uuid.uuid4().hex, "table": list(identifier)})
        staged = tables.make_readable(self._write_target(target, identifier, str(intent["run"])))
        seconds = round(time.monotonic() - started, 3)
        note, mine = self.state.record(f"target.{number}", staged_notes.to_note(staged, seconds))
        if mine:
            self.proven.add(number)
        else:
            tables.discard(staged)
        return note

    def _write_target(self, target: Target, identifier: Identifier, run: str) -> StagedWrite:
        frame = self.queries.read_local(target.from_)
        if target.mode != "merge" or not targets.has_versions(self._address, identifier):
            mode = "overwrite" if target.mode == "overwrite" else "append"
            return tables.stage(self._address, frame, identifier, mode, merge_schema=target.merge_schema, run=run)
        spec = MergeSpec(
            on=target.on,
            when_matched=target.when_matched,
            when_not_matched=target.when_not_matched,
            when_not_matched_by_source=target.when_not_matched_by_source,
            null_safe=target.null_safe,
            merge_schema=target.merge_schema,
        )
        return merge.stage_merge(self._address, frame, identifier, spec, run=run)

    # Checks

    def _run_checks(self, group: CheckGroup) -> None:
        name = _note_name(group)
        note, reused = self._do_once(f"checks of {group.label}", name, lambda: self._check(group))
        with self.state.parsing(self.state.note_path(name)):
            self.checks += [replace(one, reused=reused) for one in CheckReports.of(note).reports]

    def _check(self, group: CheckGroup) -> dict[str, Any]:
        published: dict[Identifier, Scan] = {}
        for number, version in self.published.items():
            identifier = parse_table_name(self._definition.targets[number].table)
            published[identifier] = scan.plan_scan(self._address, identifier, VersionOptions(version=version))
        audit = CheckAudit(self.queries, self.staged, published, self.scrubber)
        return self.state.record(_note_name(group), CheckReports(tuple(audit.reports(group))).document())[0]

    # Publishing

    def _forget_outdated(self) -> bool:
        """Forget what was staged for tables that others have changed, and the checks; return False if there is none."""
        self.published = targets.find_published(self._address, self.state, self._definition)
        late = [n for n, one in self.staged.items() if n not in self.published and targets.has_moved(one)]
        for group in self._definition.check_groups():
            # After some targets are published one by one, only the checks of the others can run again.
            if group.target in late or (group.step is None and not self.published):
                self.state.undo(_note_name(group))
        for number in late:
            # The note of the intent remains; its files are deleted before the target is staged again.
            self.state.undo(f"target.{number}")
        self.checks = [one for one in self.checks if one.on.startswith("steps.")]
        self.targets.clear()
        self.staged.clear()
        return bool(late)

    def _publish(self) -> RunReport:
        self.observer.begun("publish")
        versions: dict[int, int | None] = dict(self.published)
        for staged in self.staged.values() if self.resumed else ():
            staged_notes.require_files(staged)
        with defer_signals():
            if len(versions) < len(self.targets):
                together = self._definition.publish == "atomic"
                versions |= targets.publish(
                    self.state, self.staged, together=together, unchanged=self._fully_checked_tables()
                )
            self.targets = [replace(one, version=versions[number]) for number, one in enumerate(self.targets)]
            report = self._make_report(PUBLISHED)
            cleanup.settle(self._address, self.state, self.published, self._definition)
            self.state.finish(report.document())
        self.observer.done("publish", reused=False)
        return report

    def _give_up(self) -> RunReport:
        report = self._make_report(CHECKS_FAILED)
        cleanup.clean_up(self._address, self.state, self._definition, report.document())
        return report

    def _make_report(self, status: str) -> RunReport:
        pinned = self.queries.reads.sources
        sources = [
            SourceReport(
                name,
                source.format or "table",
                pinned[name].version if name in pinned else None,
                None if source.table is None else quote_identifier(parse_table_name(source.table)),
            )
            for name, source in self._definition.sources.items()
            if name in self._graph.used_names()
        ]
        report = RunReport(
            self.state.pipeline,
            self.state.run_id,
            status,
            self._definition.publish,
            self.started,
            round(time.monotonic() - self.began, 3),
            self.resumed,
            tuple(sources),
            tuple(self.steps.values()),
            tuple(self.targets),
            tuple(self.checks),
        )
        return self.scrubber.scrub_report(report)

    def _fully_checked_tables(self) -> set[Identifier]:
        """Return the tables that checks have read completely, not only their new rows.

        Other writers must not have changed those tables since.
        """
        found = {
            parse_table_name(target.table)
            for target in self._definition.targets
            if any(one.scope == "table" for one in target.checks)
        }
        for group in self._definition.check_groups():
            for check in group.checks:
                named = self._graph.external_reads(check.sql) if check.sql is not None else ()
                # A name may begin with that of the lake.
                found |= {name for one in named for name in (one.name, one.name[1:])}
        return found


def _note_name(group: CheckGroup) -> str:
    if group.step is not None:
        return f"checks.{group.step}"
    return "checks" if group.target is None else f"checks-{group.target}"
