"""Pipeline: a validated definition that can be looked at, run, taken up again and discarded."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError, InvalidTableStateError
from pennon.redaction import SHORTEST_SECRET
from pennon.spark.pipeline import document, preflight, publishing, reads, targets
from pennon.spark.pipeline.code_rules import code_problems, unknown_names
from pennon.spark.pipeline.graph import Graph
from pennon.spark.pipeline.interrupts import heard, held_back
from pennon.spark.pipeline.observing import Observer, Silent
from pennon.spark.pipeline.planning import Plan, planned
from pennon.spark.pipeline.preflight import Shapes
from pennon.spark.pipeline.problems import InvalidPipelineError, Path, Problem, dotted, line_of
from pennon.spark.pipeline.queries import Queries
from pennon.spark.pipeline.report import ALREADY, RunReport
from pennon.spark.pipeline.running import Run
from pennon.spark.pipeline.scrubbing import Scrubber
from pennon.spark.pipeline.state import RunState, checked_run_id, new_run_id
from pennon.spark.pipeline.validation import defined, validated

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from pennon.identifiers import Identifier
    from pennon.spark.address import Address
    from pennon.spark.lake import Lake
    from pennon.spark.pipeline.lease import Lease
    from pennon.spark.pipeline.model import Definition
    from pennon.spark.reading.pinned import VersionSelector
    from pennon.spark.sql.references import TimeTravel
    from pennon.store import Store

# These can change between two tries of a run without making it another one.
_CIRCUMSTANCES = {"description", "catalog", "spark", "samples", "vars"}


class Pipeline:
    """Sources, steps, targets and checks: `Pipeline.from_yaml("pipeline.yaml")`, or from a dict of the same form.

    What is wrong raises InvalidPipelineError (13) with every problem that was found.
    """

    def __init__(self, definition: Definition | Mapping[str, Any]) -> None:
        self.definition = defined(definition)
        self.file = "pipeline"
        self.secrets: set[str] = set()
        """Values that came from the environment or secret variables, and must not be shown."""
        self._lines: Mapping[Path, int] = {}
        self._shown: Any = self.definition.model_dump(mode="json", by_alias=True)

    @classmethod
    def from_yaml(
        cls,
        file: str | os.PathLike[str],
        variables: Mapping[str, str] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> Pipeline:
        """Read a file; `variables` win over the defaults in it, and `environment` stands for the process's own."""
        return cls._of(document.read(file, variables or {}, environment))

    @classmethod
    def from_text(
        cls,
        text: str,
        variables: Mapping[str, str] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> Pipeline:
        """Read YAML from a text, in the same way."""
        return cls._of(document.parse(text, variables or {}, environment))

    @classmethod
    def _of(cls, read: document.Document) -> Pipeline:
        made = cls(validated(read))
        made.file = read.file
        made.secrets = {one for one in read.secrets if len(one) >= SHORTEST_SECRET}
        made._lines = read.lines
        made._shown = read.shown
        return made

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.definition.name

    @property
    def fingerprint(self) -> str:
        """What makes two definitions the same: all that decides about the result, but no secret."""
        content = {key: value for key, value in self._shown.items() if key not in _CIRCUMSTANCES}
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()

    def plan(self, address: Address, *, lake_name: str = "lake", allow_code: bool = True) -> Plan:
        """Say what a run would do now; nothing is changed, and Spark is not needed. Errors as of `run`."""
        if not allow_code:
            self._refuse_code()
            found = reads.resolved(address, lake_name, Graph(self.definition), lambda *_: None, self._place)
            self._refuse_unknown_names(found)
        return planned(self.definition, address, lake_name, self._place, self._scrubber)

    def run(
        self,
        spark: SparkSession | Lake,
        *,
        run_id: str | None = None,
        take_over: bool = False,
        state: str | None = None,
        observer: Observer | None = None,
        allow_code: bool = True,
    ) -> RunReport:
        """Stage all targets, check them, and publish them; the report says whether the checks let it.

        With the id of a run that did not come to its end, the run goes on; with one that did, nothing is done.
        `take_over` takes the run from a process that still seems to be at work; `state` is where runs are noted, the
        catalog's root unless it is given. With `allow_code=False`, a pipeline that may run programs or read files by
        their path raises InvalidPipelineError. Errors 0 (the catalog cannot publish several tables at once), 1, 4, 13,
        14 (others at work), 19 (the run was begun by another definition).
        """
        if not allow_code:
            self._refuse_code()
        lake = self._lake(spark)
        found = self._state(lake.address, run_id, state)
        done = self._already(found)
        if done is not None:
            return done
        if self.definition.publish == "atomic":
            targets.require_management(lake.address, self.definition)
        with found.lease(take_over=take_over) as lease:
            return self._already(found) or self._run(lake, found, lease, observer or Silent(), allow_code=allow_code)

    def discard(self, address: Address, run_id: str, *, take_over: bool = False, state: str | None = None) -> bool:
        """Remove what a run has staged, and forget it; False if there is nothing.

        Raises InvalidTableStateError if it has published, or if something was kept because its state names what is not
        certainly its own; everything else is removed then.
        """
        found = self._state(address, run_id, state)
        if found.beginning() is None or found.outcome() is not None:
            return False
        with found.lease(take_over=take_over):
            cleaned = publishing.clean_up(address, found, self.definition)
        if cleaned.published:
            names = ", ".join(self.definition.targets[number].table for number in sorted(cleaned.published))
            raise InvalidTableStateError(f"{found.subject} has published {names}: run it again to bring it to its end")
        if cleaned.kept:
            raise InvalidTableStateError(
                f"{found.subject} is not discarded completely. What is not certainly its own was kept: "
                + "; ".join(cleaned.kept)
            )
        return True

    def _run(self, lake: Lake, state: RunState, lease: Lease, observer: Observer, *, allow_code: bool) -> RunReport:
        noted = state.beginning()
        graph = Graph(self.definition)
        if noted is not None:
            state.require_same(noted, self.fingerprint)
            found = reads.restored(noted.get("reads"), lake.address)
        else:
            found = reads.resolved(lake.address, lake.name, graph, _moments(lake), self._place)
        if not allow_code:
            self._refuse_unknown_names(found)
        queries = Queries(lake, graph, found)
        try:
            with heard():
                if noted is None:
                    tables = targets.looked_up(lake.address, self.definition, self._place)
                    shapes = preflight.looked_at(queries, tables, file=self.file, lines=self._lines)
                    state.begin(self.fingerprint, {**found.note(), "unstageable": sorted(shapes.unstageable)})
                else:
                    shapes = Shapes({}, reads.unstageable(noted.get("reads")))
                run = Run(state, lease, queries, shapes, observer, scrubber=self._scrubber, resumed=noted is not None)
                return run.go()
        except KeyboardInterrupt:
            done = state.outcome()
            if done is not None:
                # It came too late: all is done.
                return self._scrubber.report(state.published_report(done))
            with held_back():
                if lease.is_held:
                    publishing.clean_up(lake.address, state, self.definition)
            raise
        finally:
            queries.close()

    def _already(self, state: RunState) -> RunReport | None:
        done = state.outcome()
        if done is None:
            return None
        state.require_same(done, self.fingerprint)
        report = state.published_report(done)
        state.tidy()
        return replace(self._scrubber.report(report), status=ALREADY)

    def _state(self, address: Address, run_id: str | None, place: str | None) -> RunState:
        return RunState(_store(address, place), self.name, checked_run_id(run_id or new_run_id()))

    def _lake(self, spark: SparkSession | Lake) -> Lake:
        from pennon.spark.lake import Lake, attach

        if isinstance(spark, Lake):
            return spark
        properties = self.definition.catalog.all_properties()
        if not properties:
            raise InvalidInputError(
                "The pipeline names no catalog: give a lake instead of a session, or write 'catalog'"
            )
        return attach(spark, impl=self.definition.catalog.impl, **properties)

    def _refuse_code(self) -> None:
        self._refuse(code_problems(self.definition, self._lines))

    def _refuse_unknown_names(self, found: reads.Reads) -> None:
        self._refuse(unknown_names(found))

    def _refuse(self, problems: list[Problem]) -> None:
        if problems:
            raise InvalidPipelineError(self.file, problems)

    @property
    def _scrubber(self) -> Scrubber:
        return Scrubber(frozenset(self.secrets))

    def _place(self, path: Path) -> str:
        """Say where something stands in the file."""
        line = line_of(self._lines, path)
        return f"{self.file}: {dotted(path)}" if line is None else f"{self.file}:{line}: {dotted(path)}"


def _moments(lake: Lake) -> Any:
    """Let Spark say which versions and times queries mean."""
    from pennon.spark.sql.name_resolution import NameResolver
    from pennon.spark.sql.query_runner import QueryRunner

    runner = QueryRunner(lake, NameResolver(lake))

    def moment(identifier: Identifier, travel: TimeTravel) -> VersionSelector:
        return runner.resolve_travel(identifier, travel)

    return moment


def _store(address: Address, place: str | None) -> Store:
    from pennon.store import open_store
    from pennon.store.root import make_root_absolute

    if place is not None:
        return open_store(make_root_absolute(place), address.storage_options)
    store: Store | None = publishing.root_store(address)
    if store is None:
        raise InvalidInputError(
            f"A catalog of the kind {address.impl!r} has no place for runs: say where they are noted (state)"
        )
    return store
