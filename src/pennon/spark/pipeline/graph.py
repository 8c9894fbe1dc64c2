"""The dependencies between sources, steps, targets and checks, and which steps are staged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.spark.pipeline.statements import is_this, list_references

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pennon.spark.pipeline.model import Definition
    from pennon.spark.pipeline.statements import Name, QueryReference


@dataclass(frozen=True)
class Graph:
    """The names of a pipeline and their dependencies."""

    definition: Definition
    publishes: bool = True
    """False if only checks run, so that what only targets are written from is not needed."""

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
        return self._close(self.local_reads(sql), within)

    def readers(self, name: str) -> tuple[str, ...]:
        """Return what reads a source or step directly: used steps, targets and checks."""
        steps, used = self.definition.steps, self.used_names()
        found = [f"step {one}" for one in steps if one in used and name in self.local_reads(steps[one].sql)]
        found += [target.table for target in self.definition.targets if target.from_ == name]
        for group in self.definition.check_groups():
            if group.step == name:
                found.append(f"checks of {group.label}")
            for check in group.checks:
                if check.sql is not None and name in self.local_reads(check.sql):
                    found.append(f"check {check.title}")
        return tuple(dict.fromkeys(found))

    def used_names(self) -> frozenset[str]:
        """Return the sources and steps that a target or check depends on."""
        begun = [target.from_ for target in self.definition.targets] if self.publishes else []
        for group in self.definition.check_groups():
            begun += [] if group.step is None else [group.step]
            begun += [name for check in group.checks if check.sql is not None for name in self.local_reads(check.sql)]
        return frozenset(self._close(begun))

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

    def _close(self, names: Iterable[str], within: Collection[str] | None = None) -> tuple[str, ...]:
        """Return sources and steps with all that they read, in the order of the file."""
        steps = self.definition.steps
        found: set[str] = set()
        left = list(names)
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                if name in steps and (within is None or name in within):
                    left += self.local_reads(steps[name].sql)
        return tuple(name for name in (*self.definition.sources, *steps) if name in found)
