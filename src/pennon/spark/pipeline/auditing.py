"""What the checks of a run look at: steps, targets as they will be, or everything."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StructType

from pennon.spark import types
from pennon.spark.pipeline import publishing
from pennon.spark.pipeline.checking import Subject, run_checks
from pennon.spark.pipeline.queries import Queries, Sight
from pennon.spark.reading import scan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pennon.identifiers import Identifier
    from pennon.spark.commits.staged_write import StagedWrite
    from pennon.spark.pipeline.graph import CheckedPlace
    from pennon.spark.pipeline.model import Check
    from pennon.spark.pipeline.report import CheckReport
    from pennon.spark.pipeline.scrubbing import Scrubber
    from pennon.spark.reading.scan import Scan


@dataclass(frozen=True)
class Audit:
    """Checks over what is staged by now."""

    queries: Queries
    staged: Mapping[int, StagedWrite]
    """What is staged for targets, by number."""
    published: Mapping[Identifier, Scan]
    """Targets that are published already, one by one."""
    scrubber: Scrubber

    def reports(self, place: CheckedPlace) -> list[CheckReport]:
        """Run the checks of one place."""
        samples = self.queries.graph.definition.samples
        if place.target is None:
            subject = replace(self._subject(place), scrubber=self.scrubber)
            return run_checks(subject, place.checks, samples=samples)
        found: dict[int, CheckReport] = {}
        for scope in ("table", "new"):
            chosen: list[tuple[int, Check]] = [
                (number, one) for number, one in enumerate(place.checks) if one.scope == scope
            ]
            if chosen:
                subject = replace(self._target(place, self.staged[place.target], scope), scrubber=self.scrubber)
                reports = run_checks(subject, [one for _, one in chosen], samples=samples)
                found.update(zip([number for number, _ in chosen], reports, strict=True))
        return [found[number] for number in range(len(place.checks))]

    def _subject(self, place: CheckedPlace) -> Subject:
        """Give a step, or the whole pipeline, as checks see it."""
        step = place.step
        if step is None:
            sight = Sight(targets=self._targets())
            return Subject(place.label, StructType(), _unused, _unused, lambda sql: self.queries.frame(sql, sight))
        if step in self.queries.steps:
            return self._scanned(place.label, self.queries.steps[step], {})
        frame = self.queries.of(step)
        seen = Sight(step=step)
        return Subject(place.label, frame.schema, frame.select, frame.count, lambda sql: self.queries.frame(sql, seen))

    def _target(self, place: CheckedPlace, staged: StagedWrite, scope: str) -> Subject:
        targets = self._targets()
        whole = targets[staged.identifier]
        seen = whole if scope == "table" else publishing.only_new(staged, whole)
        return replace(self._scanned(place.label, seen, targets), published_rows=publishing.published_rows(staged))

    def _scanned(self, label: str, whole: Scan, targets: dict[Identifier, Scan]) -> Subject:
        spark = self.queries.lake.spark
        sight = Sight(whole, targets=targets)
        return Subject(
            label,
            types.spark_schema(whole.schema),
            lambda columns: scan.to_dataframe(spark, replace(whole, columns=tuple(columns))),
            lambda: publishing.counted(spark, whole),
            lambda sql: self.queries.frame(sql, sight),
        )

    def _targets(self) -> dict[Identifier, Scan]:
        """Give all targets as they will be."""
        return {**self.published, **{one.identifier: publishing.preview(one) for one in self.staged.values()}}


def _unused(*_: object) -> Any:
    raise AssertionError
