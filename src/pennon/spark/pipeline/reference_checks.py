"""Checking the names in a pipeline: whatever a step or target refers to must exist, and must come before it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.spark.pipeline.problems import Path, PipelineProblem, suggest
from pennon.spark.pipeline.statements import THIS, BadQueryError, Name, is_this, list_references, parse_table_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.identifiers import Identifier
    from pennon.spark.pipeline.model import CheckGroup, Definition
    from pennon.spark.pipeline.problems import Positions

_LOCAL_NAME = re.compile(r"[A-Za-z_][0-9A-Za-z_]{0,99}")


def find_reference_problems(definition: Definition, positions: Positions) -> list[PipelineProblem]:
    """Return problems with names that are missing, too late or duplicate, and with texts that are not queries."""
    checker = _ReferenceChecker(definition, positions)
    checker.check_names()
    checker.check_sources()
    checker.check_steps()
    checker.check_targets()
    for group in definition.check_groups():
        checker.check_checks(group)
    return checker.problems


@dataclass
class _ReferenceChecker:
    """Collects the problems of one pipeline."""

    definition: Definition
    positions: Positions
    problems: list[PipelineProblem] = field(default_factory=list)

    def check_names(self) -> None:
        """Local names are plain, and differ in more than case, because Spark ignores case."""
        seen: dict[str, Path] = {}
        names = [("sources", name) for name in self.definition.sources]
        for path in [*names, *(("steps", name) for name in self.definition.steps)]:
            name = path[1]
            if not _LOCAL_NAME.fullmatch(name):
                self._report(path, "a name must consist of letters, digits and '_', and must not begin with a digit")
            elif name.lower() == THIS:
                self._report(path, f"{name!r} is reserved for the data that a check reads; choose another name")
            first = seen.setdefault(name.lower(), path)
            if first != path:
                line = self.positions.find_line(first)
                where = "" if line is None else f" (line {line})"
                self._report(path, f"the name is taken: {first[0]}.{first[1]}{where}")

    def check_sources(self) -> None:
        """Sources have valid table names."""
        for name, source in self.definition.sources.items():
            if source.table is not None:
                self._table(("sources", name, "table"), source.table)

    def check_steps(self) -> None:
        """A step reads sources, earlier steps and tables of the catalog."""
        order = list(self.definition.steps)
        for position, name in enumerate(order):
            path = ("steps", name, "sql")
            later = {one.lower(): one for one in order[position:]}
            for used in self._names(path, self.definition.steps[name].sql):
                if is_this(used):
                    self._report(path, f"{THIS!r} is available in checks only")
                if len(used) == 1 and used[0].lower() in later:
                    other = later[used[0].lower()]
                    if other == name:
                        self._report(path, f"the step {name!r} reads itself")
                    else:
                        self._report(path, f"the step {other!r} comes later; steps run in the order of the file")

    def check_targets(self) -> None:
        """A target has a source or step, and each table is written once."""
        known = [*self.definition.sources, *self.definition.steps]
        written: dict[Identifier, Path] = {}
        for number, target in enumerate(self.definition.targets):
            path: Path = ("targets", number)
            if target.from_ not in known:
                self._report(
                    (*path, "from"), f"there is no source or step {target.from_!r}" + suggest(target.from_, known)
                )
            identifier = self._table((*path, "table"), target.table)
            if identifier is not None:
                first = written.setdefault(identifier, path)
                if first != path:
                    self._report((*path, "table"), f"{target.table!r} is also the table of another target")

    def check_checks(self, group: CheckGroup) -> None:
        """SQL checks are queries, and checks of the whole pipeline are SQL checks."""
        is_whole = group.step is None and group.target is None
        for number, check in enumerate(group.checks):
            here: Path = (*group.path, number)
            if is_whole and check.sql is None:
                self._report(
                    here, "a check of the whole pipeline must be an 'sql' check; move others below a target or step"
                )
            if group.step is not None and check.row_count is not None and check.row_count.has_ratio:
                self._report(
                    (*here, "row_count"),
                    "ratios are relative to a published table, so only checks of targets have them",
                )
            if group.target is None and "scope" in check.model_fields_set:
                self._report((*here, "scope"), "only checks of targets have a 'scope'")
            for used in self._names((*here, "sql"), check.sql) if check.sql is not None else ():
                if is_whole and is_this(used):
                    self._report((*here, "sql"), f"{THIS!r} is not available here; name a table, source or step")

    def _names(self, path: Path, sql: str) -> Iterator[Name]:
        try:
            yield from (one.name for one in list_references(sql))
        except BadQueryError as error:
            line = self.positions.find_line(path)
            if line is not None and error.line is not None and {path, path[:-1]} & self.positions.blocks:
                line += error.line
            self.problems.append(PipelineProblem(path, str(error), line))

    def _table(self, path: Path, text: str) -> Identifier | None:
        try:
            return parse_table_name(text)
        except InvalidInputError as error:
            self._report(path, str(error))
            return None

    def _report(self, path: Path, message: str) -> None:
        self.problems.append(self.positions.problem(path, message))
