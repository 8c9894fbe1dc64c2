"""The data that checks read: steps, targets as they will be, or the whole pipeline."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from pennon.spark import types
from pennon.spark.pipeline.check_runner import CheckSubject, run_checks
from pennon.spark.pipeline.queries import PipelineQueries, QueryScope, is_partial
from pennon.spark.reading import scan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from pennon.identifiers import Identifier
    from pennon.spark.pipeline.graph import CheckGroup
    from pennon.spark.pipeline.model import Check
    from pennon.spark.pipeline.report import CheckReport
    from pennon.spark.pipeline.scrubbing import Scrubber
    from pennon.spark.reading.scan import Scan
    from pennon.spark.tables.staged_write import StagedWrite


@dataclass(frozen=True)
class CheckAudit:
    """Runs checks over what is staged."""

    queries: PipelineQueries
    staged: Mapping[int, StagedWrite]
    """The staged data of targets, by number."""
    published: Mapping[Identifier, Scan]
    """Targets that are published already, one by one."""
    scrubber: Scrubber

    def reports(self, group: CheckGroup) -> list[CheckReport]:
        """Run the checks of one group, and return a report for each."""
        samples = self.queries.graph.definition.samples
        if group.target is None:
            subject = replace(self._make_subject(group), scrubber=self.scrubber)
            return run_checks(subject, group.checks, samples=samples)
        found: dict[int, CheckReport] = {}
        for scope in ("table", "new"):
            chosen: list[tuple[int, Check]] = [
                (number, one) for number, one in enumerate(group.checks) if one.scope == scope
            ]
            if chosen:
                subject = replace(self._target_subject(group, self.staged[group.target], scope), scrubber=self.scrubber)
                reports = run_checks(subject, [one for _, one in chosen], samples=samples)
                found.update(zip([number for number, _ in chosen], reports, strict=True))
        return [found[number] for number in range(len(group.checks))]

    def _make_subject(self, group: CheckGroup) -> CheckSubject:
        """Return a step, or the whole pipeline, as the subject of checks."""
        step = group.step
        if step is None:
            scope = QueryScope(targets=self._target_scans())
            return CheckSubject(
                group.label, StructType(), _unused, _unused, lambda sql: self.queries.dataframe(sql, scope)
            )
        if step in self.queries.steps:
            return self._scan_subject(group.label, self.queries.steps[step], {})
        frame = self.queries.read_local(step)
        seen = QueryScope(step=step)
        return CheckSubject(
            group.label, frame.schema, frame.select, frame.count, lambda sql: self.queries.dataframe(sql, seen)
        )

    def _target_subject(self, group: CheckGroup, staged: StagedWrite, scope: str) -> CheckSubject:
        targets = self._target_scans()
        whole = targets[staged.identifier]
        seen = whole if scope == "table" else _new_rows_scan(staged, whole)
        return replace(self._scan_subject(group.label, seen, targets), published_rows=_count_published_rows(staged))

    def _scan_subject(self, label: str, whole: Scan, targets: dict[Identifier, Scan]) -> CheckSubject:
        spark = self.queries.lake.spark
        scope = QueryScope(whole, targets=targets)
        return CheckSubject(
            label,
            types.spark_schema(whole.schema),
            lambda columns: scan.to_dataframe(spark, replace(whole, columns=tuple(columns))),
            lambda: _count_rows(spark, whole),
            lambda sql: self.queries.dataframe(sql, scope),
        )

    def _target_scans(self) -> dict[Identifier, Scan]:
        """Return all targets as they will be."""
        return {**self.published, **{one.identifier: _preview_scan(one) for one in self.staged.values()}}


def _unused(*_: object) -> Any:
    raise AssertionError


def _preview_scan(staged: StagedWrite) -> Scan:
    """Return a target as it will be."""
    # A write is recorded as staged only after it is readable.
    assert staged.preview is not None
    return scan.scan_pinned(staged.preview)


def _new_rows_scan(staged: StagedWrite, whole: Scan) -> Scan:
    """Return the rows that the run writes: those of fragments that the published version lacks."""
    if not staged.read_version:
        return whole
    before = {
        fragment.fragment_id for fragment in staged.destination.pin_version(staged.read_version).open().get_fragments()
    }
    is_overwrite = type(staged.operation).__name__ == "Overwrite"
    return (
        whole
        if is_overwrite
        else replace(whole, fragments=tuple(one for one in whole.fragments if one.id not in before))
    )


def _count_published_rows(staged: StagedWrite) -> int | None:
    """Return the number of rows of the version that the run builds on, or None if the table is new."""
    if not staged.read_version:
        return None
    return int(staged.destination.pin_version(staged.read_version).open().count_rows())


def _count_rows(spark: SparkSession, seen: Scan) -> int:
    """Return the number of rows. New fragments have no deleted rows, so their metadata is enough."""
    if is_partial(seen):
        return seen.rows
    return scan.count_rows(spark, seen)
