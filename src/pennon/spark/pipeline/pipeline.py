"""Pipeline: a validated definition that can be planned, run, resumed and discarded."""

from __future__ import annotations

import contextlib
import hashlib
import json
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError, InvalidTableStateError, LanceNamespaceError
from pennon.pipeline_runs.report import ALREADY_PUBLISHED, AuditReport, RunReport
from pennon.pipeline_runs.run_state import new_run_id
from pennon.redaction import SHORTEST_SECRET
from pennon.spark.pipeline import cleanup, document, pinned_reads, preflight, published_checks, selection, targets
from pennon.spark.pipeline.code_rules import find_code, find_unknown_names
from pennon.spark.pipeline.graph import Graph
from pennon.spark.pipeline.interrupts import defer_signals, raise_on_signals
from pennon.spark.pipeline.observer import Observer
from pennon.spark.pipeline.pipeline_run import PipelineRun
from pennon.spark.pipeline.planning import PipelinePlan, make_plan, resolve_tables
from pennon.spark.pipeline.problems import FaultCollector, Positions
from pennon.spark.pipeline.queries import PipelineQueries
from pennon.spark.pipeline.run_location import open_run_state
from pennon.spark.pipeline.scrubbing import Scrubber
from pennon.spark.pipeline.spark_errors import shorten_error
from pennon.spark.pipeline.validation import validate_definition, validate_document

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from pennon.identifiers import Identifier
    from pennon.pipeline_runs.lease import Lease
    from pennon.pipeline_runs.run_state import RunState
    from pennon.spark.address import Address
    from pennon.spark.lake import Lake
    from pennon.spark.pipeline.model import Definition
    from pennon.spark.query.references import TimeTravel
    from pennon.spark.reading.pinned import VersionOptions

# These keys may change between two attempts of a run.
_CIRCUMSTANCES = {"description", "catalog", "spark", "samples", "vars"}


class Pipeline:
    """Sources, steps, targets and checks: `Pipeline.from_yaml("pipeline.yaml")`, or from a dict of the same form.

    Raises InvalidPipelineError with all problems if the definition is invalid.
    """

    def __init__(self, definition: Definition | Mapping[str, Any]) -> None:
        self.definition = validate_definition(definition)
        self.secrets: set[str] = set()
        """Values of environment and secret variables, which must not be shown."""
        self._positions = Positions()
        self._masked: Any = self.definition.model_dump(mode="json", by_alias=True)

    @classmethod
    def from_yaml(
        cls,
        file: str | os.PathLike[str],
        variables: Mapping[str, str] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> Pipeline:
        """Load a pipeline from a file.

        `variables` override the defaults in the file. `environment` replaces the environment of the process.
        """
        return cls._from_document(document.load_document(file, variables or {}, environment))

    @classmethod
    def from_text(
        cls,
        text: str,
        variables: Mapping[str, str] | None = None,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> Pipeline:
        """Load a pipeline from YAML text; the arguments are those of `from_yaml`."""
        return cls._from_document(document.parse_document(text, variables or {}, environment))

    @classmethod
    def _from_document(cls, read: document.Document) -> Pipeline:
        made = cls(validate_document(read))
        made.secrets = {one for one in read.secrets if len(one) >= SHORTEST_SECRET}
        made._positions = read.positions
        made._masked = read.masked
        return made

    def __repr__(self) -> str:
        """Return the name of the pipeline."""
        return f"Pipeline({self.name!r})"

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.definition.name

    @property
    def fingerprint(self) -> str:
        """A hash of everything in the definition that determines the result; secrets do not change it."""
        content = {key: value for key, value in self._masked.items() if key not in _CIRCUMSTANCES}
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()

    def select(self, only: Sequence[str] = (), *, starting_from: Sequence[str] = ()) -> Pipeline:
        """Return a pipeline with only some of the targets, the steps that they need, and the checks of both.

        `only` names targets, or sources and steps from which targets are written. `starting_from` names sources and
        steps; all targets that depend on them are selected. Checks of the whole pipeline are kept. Raises
        InvalidInputError if a name selects no target.
        """
        if not only and not starting_from:
            return self
        numbers = selection.select_targets(self.definition, only, starting_from)
        definition = selection.narrow_definition(self.definition, numbers)
        masked = selection.narrow_content(self._masked, definition, numbers)
        positions = selection.narrow_positions(self._positions, numbers)
        part = copy(self)
        vars(part).update(definition=definition, _masked=masked, _positions=positions)
        return part

    def plan(
        self,
        address: Address,
        *,
        lake_name: str = "lake",
        allow_code: bool = True,
        spark_settings: Mapping[str, str] | None = None,
    ) -> PipelinePlan:
        """Return what a run would do now. Changes nothing and needs no Spark. Raises the errors of `run`.

        `spark_settings` are those of the session that is going to run it, by default those in the file.
        """
        graph = Graph(self.definition)
        self._refuse_code(address, lake_name, graph, allow_code=allow_code)
        settings = self.definition.spark.conf if spark_settings is None else spark_settings
        return make_plan(graph, address, lake_name, self._positions, scrubber=self._scrubber, settings=settings)

    def require_testable(self, address: Address, *, lake_name: str = "lake", allow_code: bool = True) -> None:
        """Raise the errors of `test` that need no Spark."""
        graph = self._make_test_graph()
        self._refuse_code(address, lake_name, graph, allow_code=allow_code)
        tables, _ = resolve_tables(graph, address, lake_name, self._positions, self.definition.spark.conf)
        published_checks.require_published(tables, self._positions)

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
        """Stage all targets, check them, publish them, and return the report.

        The report's status shows whether the checks passed and the targets were published. With the id of an unfinished
        run, that run is resumed; with the id of a published run, nothing is done. `take_over` resumes a run even if
        another process seems to be working on it. `state` is where runs are recorded, by default the root of the
        catalog. With `allow_code=False`, a pipeline that may run programs or read files by path raises
        InvalidPipelineError.

        Raises UnsupportedOperationError if the catalog cannot publish several tables at once, NamespaceNotFoundError or
        TableNotFoundError if a table does not exist, InvalidInputError if the pipeline does not fit the tables,
        ConcurrentModificationError if another process is working on the run, and InvalidTableStateError if the run was
        started with another definition.
        """
        if not allow_code:
            self._positions.refuse(find_code(self.definition, self._positions))
        lake = self._lake(spark)
        found = open_run_state(lake.address, self.name, run_id or new_run_id(), state)
        done = self._published_report(found)
        if done is not None:
            return done
        if self.definition.publish == "atomic":
            targets.require_version_management(lake.address, self.definition)
        with found.lease(take_over=take_over) as lease:
            done = self._published_report(found)
            return done or self._run(lake, found, lease, observer or Observer(), allow_code=allow_code)

    def test(
        self, spark: SparkSession | Lake, *, observer: Observer | None = None, allow_code: bool = True
    ) -> AuditReport:
        """Run the checks of targets and of the whole pipeline over the published tables, and return the report.

        Nothing is written. Checks of steps, and checks with the scope `new`, are about data that is not published yet;
        they do not run. Raises TableNotFoundError if a target is not published, and otherwise the errors of `run`.
        """
        lake = self._lake(spark)
        graph = self._make_test_graph()
        self._refuse_code(lake.address, lake.name, graph, allow_code=allow_code)
        with raise_on_signals():
            report = published_checks.check_published(
                lake,
                graph,
                self._positions,
                observer=observer or Observer(),
                scrubber=self._scrubber,
                moment_of=_moment_resolver(lake),
            )
        return self._scrubber.scrub_report(report)

    def is_begun(self, address: Address, run_id: str, *, state: str | None = None) -> bool:
        """Return True if a run was recorded. Raises InvalidInputError if the id is malformed."""
        found = open_run_state(address, self.name, run_id, state)
        return found.read_start() is not None or found.read_outcome() is not None

    def discard(self, address: Address, run_id: str, *, take_over: bool = False, state: str | None = None) -> bool:
        """Delete what a run has staged and its state; return False if there is nothing to delete.

        Raises InvalidTableStateError if the run has published, or if something was kept because the run may not have
        written it. Everything else is deleted then.
        """
        found = open_run_state(address, self.name, run_id, state)
        if found.read_start() is None or found.read_outcome() is not None:
            return False
        with found.lease(take_over=take_over):
            cleaned = cleanup.clean_up(address, found, self.definition)
        if cleaned.published:
            names = ", ".join(self.definition.targets[number].table for number in sorted(cleaned.published))
            raise InvalidTableStateError(f"{found.subject} has published {names}: run it again to finish it")
        if cleaned.kept:
            raise InvalidTableStateError(
                f"{found.subject} is not discarded completely. Files that it may not have written were kept: "
                + "; ".join(cleaned.kept)
            )
        return True

    def _run(self, lake: Lake, state: RunState, lease: Lease, observer: Observer, *, allow_code: bool) -> RunReport:
        noted = state.read_start()
        graph, faults = Graph(self.definition), FaultCollector(self._positions)
        unstageable: frozenset[str] = frozenset()
        if noted is not None:
            state.require_same(noted, self.fingerprint)
            reads, unstageable = pinned_reads.restore_reads(noted.get("reads"), lake.address)
        else:
            reads = pinned_reads.resolve_reads(lake.address, lake.name, graph, _moment_resolver(lake), faults.report)
            faults.refuse()
        if not allow_code:
            self._positions.refuse(find_unknown_names(reads))
        queries = PipelineQueries(lake, graph, reads)
        try:
            with raise_on_signals():
                if noted is None:
                    tables = targets.look_up_targets(lake.address, self.definition, faults.report)
                    faults.refuse()
                    unstageable = preflight.find_unstageable_steps(queries, tables, self._positions)
                    state.begin(self.fingerprint, reads.note(unstageable))
                run = PipelineRun(
                    state, lease, queries, unstageable, observer, self._scrubber, resumed=noted is not None
                )
                return run.execute()
        except KeyboardInterrupt:
            done = state.read_outcome()
            if done is not None:
                # The signal arrived after the run was published.
                return self._scrubber.scrub_report(state.published_report(done))
            with defer_signals():
                if lease.is_held:
                    cleanup.clean_up(lake.address, state, self.definition)
            raise
        except Exception as error:
            if lease.is_held:
                # The error that ended the attempt matters more than the note of it.
                with contextlib.suppress(LanceNamespaceError, OSError):
                    state.note_error(type(error).__name__, shorten_error(error, self._scrubber.scrub_text))
            raise
        finally:
            queries.close()

    def _refuse_code(self, address: Address, lake_name: str, graph: Graph, *, allow_code: bool) -> None:
        """Raise InvalidPipelineError if code is not allowed and the pipeline may run some."""
        if allow_code:
            return
        self._positions.refuse(find_code(self.definition, self._positions))
        faults = FaultCollector(self._positions)
        reads = pinned_reads.resolve_reads(address, lake_name, graph, lambda *_: None, faults.report)
        faults.refuse()
        self._positions.refuse(find_unknown_names(reads))

    def _make_test_graph(self) -> Graph:
        steps = {name: step.model_copy(update={"checks": ()}) for name, step in self.definition.steps.items()}
        return Graph(self.definition.model_copy(update={"steps": steps}), publishes=False)

    def _published_report(self, state: RunState) -> RunReport | None:
        done = state.read_outcome()
        if done is None:
            return None
        state.require_same(done, self.fingerprint)
        report = state.published_report(done)
        state.tidy()
        return replace(self._scrubber.scrub_report(report), status=ALREADY_PUBLISHED)

    def _lake(self, spark: SparkSession | Lake) -> Lake:
        from pennon.spark.lake import Lake, attach

        if isinstance(spark, Lake):
            return spark
        properties = self.definition.catalog.all_properties()
        if not properties:
            raise InvalidInputError(
                "The pipeline has no catalog: pass a lake instead of a session, or add the key 'catalog'"
            )
        return attach(spark, impl=self.definition.catalog.impl, **properties)

    @property
    def _scrubber(self) -> Scrubber:
        return Scrubber(frozenset(self.secrets))


def _moment_resolver(lake: Lake) -> Callable[[Identifier, TimeTravel], VersionOptions]:
    """Return a function that evaluates `VERSION AS OF` and `TIMESTAMP AS OF` with Spark."""
    from pennon.spark.query.names import NameResolver
    from pennon.spark.query.runner import QueryRunner

    return QueryRunner(lake, NameResolver(lake)).resolve_travel
