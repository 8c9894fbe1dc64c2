"""What reads what inside of a pipeline, and which steps are worth keeping."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.spark.pipeline.references import THIS
from pennon.spark.pipeline.statements import references

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pennon.spark.pipeline.model import Check, Definition
    from pennon.spark.pipeline.statements import Name, Reference


@dataclass(frozen=True)
class CheckedPlace:
    """What a check is about: a step (`steps.tidy`), a target (`sales.orders`), or the whole pipeline."""

    label: str
    checks: tuple[Check, ...]
    step: str | None = None
    target: int | None = None


@dataclass(frozen=True)
class Graph:
    """The names of a pipeline and how they hang together."""

    definition: Definition

    def local(self, name: Name) -> str | None:
        """Give the source or step that a name in a query means; None if it means something else."""
        if len(name) != 1:
            return None
        wanted = name[0].lower()
        return next((one for one in (*self.definition.sources, *self.definition.steps) if one.lower() == wanted), None)

    def reads(self, sql: str) -> tuple[str, ...]:
        """Give the sources and steps that a query reads."""
        return tuple(dict.fromkeys(one for reference in references(sql) if (one := self.local(reference.name))))

    def tables(self, sql: str) -> tuple[Reference, ...]:
        """Give what a query reads beside sources, steps and the data under check: tables of the catalog or of Spark."""
        return tuple(
            one for one in references(sql) if self.local(one.name) is None and [p.lower() for p in one.name] != [THIS]
        )

    def needed(self, sql: str, within: Collection[str] | None = None) -> tuple[str, ...]:
        """Give the sources and steps that a query reads, directly or not, in the order of the file.

        What is not among `within` is not looked into.
        """
        found: set[str] = set()
        open_names = list(self.reads(sql))
        while open_names:
            name = open_names.pop()
            if name not in found:
                found.add(name)
                if name in self.definition.steps and (within is None or name in within):
                    open_names += self.reads(self.definition.steps[name].sql)
        return tuple(name for name in (*self.definition.sources, *self.definition.steps) if name in found)

    def readers(self, name: str) -> tuple[str, ...]:
        """Name what reads a source or step directly: steps that are used themselves, targets, checks."""
        definition = self.definition
        used = self.used()
        found = [
            f"step {one}" for one, step in definition.steps.items() if one in used and name in self.reads(step.sql)
        ]
        found += [target.table for target in definition.targets if target.from_ == name]
        for place in self.places():
            if place.step == name:
                found.append(f"checks of {place.label}")
            found += [
                f"check {check.title}"
                for check in place.checks
                if check.sql is not None and name in self.reads(check.sql)
            ]
        return tuple(dict.fromkeys(found))

    def used(self) -> frozenset[str]:
        """Give the sources and steps from which something reaches a target or a check."""
        definition = self.definition
        found: set[str] = set()
        for target in definition.targets:
            found |= {target.from_, *self._below(target.from_)}
        for place in self.places():
            if place.step is not None:
                found |= {place.step, *self._below(place.step)}
            for check in place.checks:
                found |= set(self.needed(check.sql)) if check.sql is not None else set()
        return frozenset(found)

    def queries(self) -> Iterator[str]:
        """Go through the queries of all steps that are used, and of all checks."""
        used = self.used()
        yield from (step.sql for name, step in self.definition.steps.items() if name in used)
        yield from (check.sql for place in self.places() for check in place.checks if check.sql is not None)

    def staged(self) -> tuple[str, ...]:
        """Give the steps whose results are kept until the run is over: those that are used more than once.

        What reads such a step twice then reads the same rows, also if its query would not give them twice, and a run
        that is taken up again does not compute them again.
        """
        used = self.used()
        return tuple(
            name
            for name, step in self.definition.steps.items()
            if name in used and (step.stage == "always" or (step.stage == "auto" and len(self.readers(name)) > 1))
        )

    def places(self) -> Iterator[CheckedPlace]:
        """Go through all that is checked, in the order of the file."""
        for name, step in self.definition.steps.items():
            if step.checks:
                yield CheckedPlace(f"steps.{name}", step.checks, step=name)
        for number, target in enumerate(self.definition.targets):
            if target.checks:
                yield CheckedPlace(target.table, target.checks, target=number)
        if self.definition.checks:
            yield CheckedPlace("pipeline", self.definition.checks)

    def _below(self, name: str) -> tuple[str, ...]:
        step = self.definition.steps.get(name)
        return () if step is None else self.needed(step.sql)
