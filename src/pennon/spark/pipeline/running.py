"""Running a pipeline: stage everything, check everything, then show everything.

What is finished is noted as it is finished (see `state`). A run that is taken up again goes on from there: it reads the
versions that it began with, computes no staged step twice, and publishes under one job id, which a table accepts once.

| a crash | leaves | and taken up again, the run |
|---|---|---|
| before the run is noted | nothing | begins |
| while a step or target is staged | files that nothing refers to | removes them, and stages it anew |
| after it is noted | what is staged, seen by nobody | goes on with it |
| while it publishes | all targets shown, or none | finds its own job id in the tables, or publishes |
| after it published | what is staged in the run's directory | notes that it is published, and tidies up |
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from pennon.errors import ConcurrentModificationError, TableAlreadyExistsError
from pennon.spark import writing
from pennon.spark.merging import merge
from pennon.spark.pipeline import publishing, staged_notes
from pennon.spark.pipeline.auditing import Audit
from pennon.spark.pipeline.interrupts import held_back
from pennon.spark.pipeline.references import identifier_of
from pennon.spark.pipeline.report import (
    CHECKS_FAILED,
    PUBLISHED,
    CheckReport,
    RunReport,
    SourceReport,
    StepReport,
    TargetReport,
)
from pennon.spark.pipeline.steps import stage_step, staged_scan
from pennon.spark.reading import scan
from pennon.spark.reading.pinned import VersionSelector

if TYPE_CHECKING:
    from pennon.identifiers import Identifier
    from pennon.spark.commits.staged_write import StagedWrite
    from pennon.spark.pipeline.graph import CheckedPlace, Graph
    from pennon.spark.pipeline.lease import Lease
    from pennon.spark.pipeline.model import Target
    from pennon.spark.pipeline.observing import Observer
    from pennon.spark.pipeline.preflight import Shapes
    from pennon.spark.pipeline.queries import Queries
    from pennon.spark.pipeline.scrubbing import Scrubber
    from pennon.spark.pipeline.state import RunState
    from pennon.spark.reading.scan import Scan


_ATTEMPTS = 3


class Run:
    """One try of a run, from the moment at which all is known to be in order."""

    def __init__(
        self,
        state: RunState,
        lease: Lease,
        queries: Queries,
        shapes: Shapes,
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
        self._shapes = shapes
        self._observer = observer
        self._scrubber = scrubber
        self._resumed = resumed
        self._began = time.monotonic()
        self._started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._staged_steps = [one for one in self._graph.staged() if one not in shapes.unstageable]
        self._steps: dict[str, StepReport] = {}
        self._targets: list[TargetReport] = []
        self._checks: list[CheckReport] = []
        self._staged: dict[int, StagedWrite] = {}
        self._earlier: dict[int, int] = {}
        """Targets that an earlier try has published, with their versions."""

    def go(self) -> RunReport:
        """Do what is left to do; gives the report, whose status says whether the targets are visible."""
        self._observer.planned(self._work())
        self._earlier = publishing.earlier(self._lake.address, self._state, self._definition)
        for name in self._definition.steps:
            self._step(name)
            if self._failed:
                return self._given_up()
        for attempt in range(_ATTEMPTS):
            for number, target in enumerate(self._definition.targets):
                self._target(number, target)
            for place in self._graph.places():
                if place.step is None:
                    self._check(place)
            if self._failed:
                return self._given_up()
            self._lease.require()
            try:
                return self._published()
            except (ConcurrentModificationError, TableAlreadyExistsError):
                # Others have changed a table since: it is staged and checked anew, on what is there now.
                if attempt == _ATTEMPTS - 1 or not self._restaged():
                    raise
        raise AssertionError

    def _work(self) -> list[str]:
        """Name all there is to do."""
        places = list(self._graph.places())
        work = []
        for name in self._definition.steps:
            work += [f"step {name}"] if name in self._staged_steps else []
            work += [f"checks of {place.label}" for place in places if place.step == name]
        work += [f"target {target.table}" for target in self._definition.targets]
        work += [f"checks of {place.label}" for place in places if place.step is None]
        return [*work, "publish"]

    # Steps

    def _step(self, name: str) -> None:
        if name in self._staged_steps:
            self._stage_step(name)
        elif name in self._graph.used():
            self._steps[name] = StepReport(name, staged=False, within=self._graph.readers(name))
        for place in self._graph.places():
            if place.step == name:
                self._check(place)

    def _stage_step(self, name: str) -> None:
        work = f"step {name}"
        self._observer.begun(work)
        note = self._state.done(f"step.{name}")
        reused = note is not None
        if note is None:
            self._lease.require()
            made = stage_step(
                self._lake.address, self._state, name, self._queries.frame(self._definition.steps[name].sql)
            )
            note, _ = self._state.record(f"step.{name}", made)
        self._queries.steps[name] = staged_scan(self._lake.address, self._state, name, note)
        figures: dict[str, Any] = {key: note.get(key) for key in ("rows", "bytes", "seconds")}
        self._steps[name] = StepReport(name, staged=True, reused=reused, **figures)
        self._observer.done(work, reused=reused)

    # Targets

    def _target(self, number: int, target: Target) -> None:
        work = f"target {target.table}"
        self._observer.begun(work)
        note = self._state.done(f"target.{number}")
        reused = note is not None
        mine = False
        if note is None:
            note, mine = self._stage_target(number, target)
        note = staged_notes.parse(self._state, number, note, identifier_of(target.table))
        if number not in self._earlier:
            self._staged[number] = staged_notes.restored(self._lake, note, proven=mine)
        figures = {key: note[key] for key in ("rows", "bytes", "seconds")}
        base = note["read_version"] or None
        self._targets.append(TargetReport(target.table, target.mode, base_version=base, reused=reused, **figures))
        self._observer.done(work, reused=reused)

    def _stage_target(self, number: int, target: Target) -> tuple[dict[str, Any], bool]:
        """Stage a target; gives what is noted of it, and whether this process noted it."""
        self._lease.require()
        started = time.monotonic()
        identifier = identifier_of(target.table)
        intent = publishing.Intent(self._state, number, identifier)
        intent.sweep(self._lake.address)
        run = intent.announce()
        frame = self._queries.of(target.from_)
        if target.mode == "merge" and publishing.is_there(self._lake.address, identifier):
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
            staged = writing.stage(self._lake, frame, identifier, mode, merge_schema=target.merge_schema, run=run)
        staged = writing.make_readable(self._lake, staged)
        seconds = round(time.monotonic() - started, 3)
        note, mine = self._state.record(f"target.{number}", {**staged_notes.noted(staged), "seconds": seconds})
        if not mine:
            # Another process has taken the run over and was first: what it staged is what gets published.
            writing.discard(self._lake, staged)
        return note, mine

    # Checks

    def _check(self, place: CheckedPlace) -> None:
        work = f"checks of {place.label}"
        self._observer.begun(work)
        name = _work_of(place)
        note = self._state.done(name)
        reused = note is not None
        if note is None:
            self._lease.require()
            audit = Audit(self._queries, self._staged, self._published_targets(), self._scrubber)
            reports = audit.reports(place)
            note, _ = self._state.record(name, {"reports": [one.document() for one in reports]})
        try:
            reports = [CheckReport.of(one) for one in note["reports"]]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._state.damaged(self._state.place_of(name), f"{type(error).__name__}: {error}") from error
        self._checks += [replace(one, reused=reused) for one in reports]
        self._observer.done(work, reused=reused)

    @property
    def _failed(self) -> bool:
        return any(not one.passed and one.severity == "error" for one in self._checks)

    # The end

    def _restaged(self) -> bool:
        """Forget what was staged for tables that others have changed, and the checks; False if there is none."""
        self._earlier = publishing.earlier(self._lake.address, self._state, self._definition)
        late = [number for number, one in self._staged.items() if number not in self._earlier and publishing.moved(one)]
        for place in self._graph.places():
            # Once some targets are published, one by one, nothing but those that are left can be looked at again.
            if place.target in late or (place.step is None and not self._earlier):
                self._state.undo(_work_of(place))
        for number in late:
            # Its files are found by the note that was made before, and removed before it is staged anew.
            self._state.undo(f"target.{number}")
        self._checks = [one for one in self._checks if one.on.startswith("steps.")]
        self._targets.clear()
        self._staged.clear()
        return bool(late)

    def _published(self) -> RunReport:
        self._observer.begun("publish")
        together = self._definition.publish == "atomic"
        versions: dict[int, int | None] = dict(self._earlier)
        if self._resumed:
            for staged in self._staged.values():
                staged_notes.require_files(staged)
        with held_back():
            if len(versions) < len(self._targets):
                versions |= publishing.publish(
                    self._lake, self._state, self._staged, together=together, unchanged=self._checked_whole()
                )
            self._targets = [replace(one, version=versions[number]) for number, one in enumerate(self._targets)]
            report = self._report(PUBLISHED)
            publishing.settle(self._lake.address, self._state, self._earlier, self._definition)
            self._state.finish(report.document())
        self._observer.done("publish", reused=False)
        return report

    def _published_targets(self) -> dict[Identifier, Scan]:
        return {
            identifier_of(self._definition.targets[number].table): scan.plan_scan(
                self._lake.address,
                identifier_of(self._definition.targets[number].table),
                VersionSelector(version=version),
            )
            for number, version in self._earlier.items()
        }

    def _given_up(self) -> RunReport:
        report = self._report(CHECKS_FAILED)
        publishing.clean_up(self._lake.address, self._state, self._definition, report.document())
        return report

    def _report(self, status: str) -> RunReport:
        sources = [
            SourceReport(name, source.format or "table", _version(self._queries.reads.sources.get(name)))
            for name, source in self._definition.sources.items()
            if name in self._graph.used()
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
        return self._scrubber.report(report)

    def _checked_whole(self) -> set[Identifier]:
        """Name the targets of which checks have seen more than the new rows: nobody may have changed those since."""
        found = {
            identifier_of(target.table)
            for target in self._definition.targets
            if any(one.scope == "table" for one in target.checks)
        }
        for place in self._graph.places():
            for check in place.checks:
                named = self._graph.tables(check.sql) if check.sql is not None else ()
                # A name may begin with the lake's own.
                found |= {name for one in named for name in (one.name, one.name[1:])}
        return found


def _work_of(place: CheckedPlace) -> str:
    if place.step is not None:
        return f"checks.{place.step}"
    return "checks" if place.target is None else f"checks-{place.target}"


def _version(table: Any) -> int | None:
    return None if table is None else int(table.version)
