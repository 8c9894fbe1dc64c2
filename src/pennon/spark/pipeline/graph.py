"""The dependencies between sources, steps, targets and checks, and which steps are staged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.spark.pipeline.statements import is_this, list_references

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pennon.spark.pipeline.model import Check, Definition
    from pennon.spark.pipeline.statements import Name, QueryReference


@dataclass(frozen=True)
class CheckGroup:
    """The checks of a step (`steps.tidy`), of a target (`sales.orders`), or of the whole pipeline."""

    label: str
    checks: tuple[Check, ...]
    step: str | None = None
    target: int | None = None


@dataclass(frozen=True)
class Graph:
    """The names of a pipeline and their dependencies."""

    definition: Definition

    def find_local(self, name: Name) -> str | None:
        """Return the source or step that a name in a query refers to, or None."""
        if len(name) != 1:
            return None
        wanted = name[0].lower()
        return next((one for one in (*self.definition.sources, *self.definition.steps) if one.lower() == wanted), None)

    def local_reads(self, sql: str) -> tuple[str, ...]:
        """Return the sources and steps that a query reads."""
        return tuple(
            dict.fromkeys(one for reference in list_references(sql) if (one := self.find_local(reference.name)))
        )

    def external_reads(self, sql: str) -> tuple[QueryReference, ...]:
        """Return the tables of the catalog or of Spark that a query reads."""
        return tuple(one for one in list_references(sql) if self.find_local(one.name) is None and not is_this(one.name))

    def dependencies(self, sql: str, within: Collection[str] | None = None) -> tuple[str, ...]:
        """Return the sources and steps that a query reads, directly or indirectly, in the order of the file.

        With `within`, only the dependencies of those steps are followed.
        """
        found: set[str] = set()
        open_names = list(self.local_reads(sql))
        while open_names:
            name = open_names.pop()
            if name not in found:
                found.add(name)
                if name in self.definition.steps and (within is None or name in within):
                    open_names += self.local_reads(self.definition.steps[name].sql)
        return tuple(name for name in (*self.definition.sources, *self.definition.steps) if name in found)

    def readers(self, name: str) -> tuple[str, ...]:
        """Return what reads a source or step directly: used steps, targets and checks."""
        definition = self.definition
        used = self.used_names()
        found = [
            f"step {one}"
            for one, step in definition.steps.items()
            if one in used and name in self.local_reads(step.sql)
        ]
        found += [target.table for target in definition.targets if target.from_ == name]
        for group in self.check_groups():
            if group.step == name:
                found.append(f"checks of {group.label}")
            found += [
                f"check {check.title}"
                for check in group.checks
                if check.sql is not None and name in self.local_reads(check.sql)
            ]
        return tuple(dict.fromkeys(found))

    def used_names(self) -> frozenset[str]:
        """Return the sources and steps that a target or check depends on."""
        definition = self.definition
        found: set[str] = set()
        for target in definition.targets:
            found |= {target.from_, *self._dependencies_of(target.from_)}
        for group in self.check_groups():
            if group.step is not None:
                found |= {group.step, *self._dependencies_of(group.step)}
            for check in group.checks:
                found |= set(self.dependencies(check.sql)) if check.sql is not None else set()
        return frozenset(found)

    def all_queries(self) -> Iterator[str]:
        """Yield the queries of all used steps and of all checks."""
        used = self.used_names()
        yield from (step.sql for name, step in self.definition.steps.items() if name in used)
        yield from (check.sql for group in self.check_groups() for check in group.checks if check.sql is not None)

    def staged_steps(self) -> tuple[str, ...]:
        """Return the steps whose results are staged until the run ends: those that are read more than once.

        All readers of a staged step see the same rows, even if its query is not deterministic. A resumed run does not
        compute the step again.
        """
        used = self.used_names()
        return tuple(
            name
            for name, step in self.definition.steps.items()
            if name in used and (step.stage == "always" or (step.stage == "auto" and len(self.readers(name)) > 1))
        )

    def check_groups(self) -> Iterator[CheckGroup]:
        """Yield all groups of checks, in the order of the file."""
        for name, step in self.definition.steps.items():
            if step.checks:
                yield CheckGroup(f"steps.{name}", step.checks, step=name)
        for number, target in enumerate(self.definition.targets):
            if target.checks:
                yield CheckGroup(target.table, target.checks, target=number)
        if self.definition.checks:
            yield CheckGroup("pipeline", self.definition.checks)

    def _dependencies_of(self, name: str) -> tuple[str, ...]:
        step = self.definition.steps.get(name)
        return () if step is None else self.dependencies(step.sql)
