"""The data that checks read: steps, targets as they will be, or the whole pipeline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from pennon.identifiers import parse_table_name
from pennon.spark import types
from pennon.spark.pipeline.check_runner import CheckSubject, run_checks
from pennon.spark.pipeline.queries import PipelineQueries, QueryScope, is_partial
from pennon.spark.reading import scan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pennon.identifiers import Identifier
    from pennon.pipeline_runs.report import CheckReport
    from pennon.spark.pipeline.model import CheckGroup
    from pennon.spark.pipeline.scrubbing import Scrubber
    from pennon.spark.reading.scan import Scan
    from pennon.spark.tables.staged_write import StagedWrite


@dataclass(frozen=True)
class CheckAudit:
    """Runs checks over what is staged, or published already."""

    queries: PipelineQueries
    staged: Mapping[int, StagedWrite]
    """The staged data of targets, by number."""
    published: Mapping[Identifier, Scan]
    """Targets that are published already."""
    scrubber: Scrubber

    def reports(self, group: CheckGroup) -> list[CheckReport]:
        """Run the checks of one group, and return a report for each."""
        samples = self.queries.graph.definition.samples
        found: dict[int, CheckReport] = {}
        is_published = group.target is not None and group.target not in self.staged
        for scope in ("table",) if is_published else ("table", "new"):
            chosen = {number: one for number, one in enumerate(group.checks) if one.scope == scope}
            if chosen:
                subject = replace(self._make_subject(group, scope), scrubber=self.scrubber)
                reports = run_checks(subject, list(chosen.values()), samples=samples)
                found.update(zip(chosen, reports, strict=True))
        return [found[number] for number in sorted(found)]

    def _make_subject(self, group: CheckGroup, scope: str) -> CheckSubject:
        queries, step = self.queries, group.step
        if group.target is not None and group.target in self.staged:
            return self._target_subject(group.label, self.staged[group.target], scope)
        if group.target is not None:
            identifier = parse_table_name(queries.graph.definition.targets[group.target].table)
            return self._scan_subject(group.label, self.published[identifier], self._target_scans())
        if step is None:
            whole = QueryScope(targets=self._target_scans())
            return CheckSubject(group.label, StructType(), _unused, _unused, lambda sql: queries.dataframe(sql, whole))
        if step in queries.steps:
            return self._scan_subject(group.label, queries.steps[step], {})
        frame = queries.read_local(step)
        return CheckSubject(
            group.label,
            frame.schema,
            frame.select,
            frame.count,
            lambda sql: queries.dataframe(sql, QueryScope(step=step)),
        )

    def _target_subject(self, label: str, staged: StagedWrite, scope: str) -> CheckSubject:
        targets = self._target_scans()
        seen = targets[staged.identifier]
        if not staged.read_version:
            return self._scan_subject(label, seen, targets)
        before = staged.destination.pin_version(staged.read_version).open()
        if scope == "new" and type(staged.operation).__name__ != "Overwrite":
            # The run has written the fragments that the published version lacks.
            known = {fragment.fragment_id for fragment in before.get_fragments()}
            seen = replace(seen, fragments=tuple(one for one in seen.fragments if one.id not in known))
        return replace(self._scan_subject(label, seen, targets), published_rows=int(before.count_rows()))

    def _scan_subject(self, label: str, whole: Scan, targets: dict[Identifier, Scan]) -> CheckSubject:
        spark = self.queries.lake.spark
        return CheckSubject(
            label,
            types.spark_schema(whole.schema),
            lambda columns: scan.to_dataframe(spark, replace(whole, columns=tuple(columns))),
            # New fragments have no deleted rows, so their metadata is enough.
            lambda: whole.rows if is_partial(whole) else scan.count_rows(spark, whole),
            lambda sql: self.queries.dataframe(sql, QueryScope(whole, targets=targets)),
        )

    def _target_scans(self) -> dict[Identifier, Scan]:
        """Return all targets as they will be."""
        scans = dict(self.published)
        for one in self.staged.values():
            # A write is recorded as staged only after it is readable.
            assert one.preview is not None
            scans[one.identifier] = scan.scan_pinned(one.preview)
        return scans


def _unused(*_: object) -> Any:
    raise AssertionError
