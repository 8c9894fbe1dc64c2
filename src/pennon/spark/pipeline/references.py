"""Names inside of a pipeline: what a step or target refers to has to be there, and before it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pennon.errors import InvalidInputError
from pennon.identifiers import Identifier, parse_identifier, table_identifier
from pennon.spark.pipeline.problems import Path, Problem, line_of, suggestion
from pennon.spark.pipeline.statements import BadQueryError, Name, references

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from pennon.spark.pipeline.model import Check, Definition

THIS = "this"
"""What a check calls the data that it is about."""
_LOCAL_NAME = re.compile(r"[A-Za-z_][0-9A-Za-z_]{0,99}")


def identifier_of(text: str) -> Identifier:
    """Read a table's name; error 13 if it is none."""
    return table_identifier(parse_identifier(text))


def reference_problems(definition: Definition, lines: Mapping[Path, int], blocks: AbstractSet[Path]) -> list[Problem]:
    """Find names that are missing, come too late, or stand twice, and texts that are no queries."""
    look = _Look(definition, lines, blocks)
    look.at_names()
    look.at_sources()
    look.at_steps()
    look.at_targets()
    look.at_checks(("checks",), definition.checks, this=False)
    return look.problems


@dataclass
class _Look:
    definition: Definition
    lines: Mapping[Path, int]
    blocks: AbstractSet[Path]
    problems: list[Problem] = field(default_factory=list)

    def at_names(self) -> None:
        """Local names are plain, and differ not only by case: Spark would take one for the other."""
        seen: dict[str, Path] = {}
        for path in [("sources", name) for name in self.definition.sources] + [
            ("steps", name) for name in self.definition.steps
        ]:
            name = path[1]
            if not _LOCAL_NAME.fullmatch(name):
                self._tell(path, "a name here is letters, digits and '_', and does not begin with a digit")
            elif name.lower() == THIS:
                self._tell(path, f"{name!r} is what checks call the data that they look at; take another name")
            first = seen.setdefault(name.lower(), path)
            if first != path:
                line = line_of(self.lines, first)
                where = "" if line is None else f" (line {line})"
                self._tell(path, f"the name is taken: {first[0]}.{first[1]}{where}")

    def at_sources(self) -> None:
        """Tables of the catalog have names that it can have."""
        for name, source in self.definition.sources.items():
            if source.table is not None:
                self._table(("sources", name, "table"), source.table)

    def at_steps(self) -> None:
        """A step reads sources, earlier steps and tables of the catalog."""
        order = list(self.definition.steps)
        for position, name in enumerate(order):
            path = ("steps", name, "sql")
            later = {one.lower(): one for one in order[position:]}
            for used in self._names(path, self.definition.steps[name].sql):
                if _is_this(used):
                    self._tell(path, f"{THIS!r} means something in checks only")
                if len(used) == 1 and used[0].lower() in later:
                    other = later[used[0].lower()]
                    if other == name:
                        self._tell(path, f"the step {name!r} reads itself")
                    else:
                        self._tell(path, f"the step {other!r} comes later; steps run in the order of the file")
            self.at_checks(("steps", name, "checks"), self.definition.steps[name].checks, this=True)

    def at_targets(self) -> None:
        """A target gets a source or a step, and each table is written once."""
        known = [*self.definition.sources, *self.definition.steps]
        written: dict[Identifier, Path] = {}
        for number, target in enumerate(self.definition.targets):
            path: Path = ("targets", number)
            if target.from_ not in known:
                self._tell(
                    (*path, "from"), f"there is no source or step {target.from_!r}" + suggestion(target.from_, known)
                )
            identifier = self._table((*path, "table"), target.table)
            if identifier is not None:
                first = written.setdefault(identifier, path)
                if first != path:
                    self._tell((*path, "table"), f"{target.table!r} is the table of another target too")
            self.at_checks((*path, "checks"), target.checks, this=True)

    def at_checks(self, path: Path, checks: Sequence[Check], *, this: bool) -> None:
        """A check by SQL reads; one that belongs to nothing is by SQL."""
        for number, check in enumerate(checks):
            here: Path = (*path, number)
            if not this and check.sql is None:
                self._tell(here, "a check of the whole pipeline is by 'sql'; put others below a target or step")
            if (
                path[0] == "steps"
                and check.row_count is not None
                and (check.row_count.min_ratio is not None or check.row_count.max_ratio is not None)
            ):
                self._tell((*here, "row_count"), "ratios are to a published table: they are for targets")
            if path[0] != "targets" and "scope" in check.model_fields_set:
                self._tell((*here, "scope"), "'scope' is for checks of targets")
            if check.sql is not None:
                for used in self._names((*here, "sql"), check.sql):
                    if not this and _is_this(used):
                        self._tell((*here, "sql"), f"{THIS!r} means nothing here; name a table, source or step")

    def _names(self, path: Path, sql: str) -> Iterator[Name]:
        try:
            yield from (one.name for one in references(sql))
        except BadQueryError as error:
            line = line_of(self.lines, path)
            if line is not None and error.line is not None and {path, path[:-1]} & self.blocks:
                line += error.line
            self.problems.append(Problem(path, str(error), line))

    def _table(self, path: Path, text: str) -> Identifier | None:
        try:
            return identifier_of(text)
        except InvalidInputError as error:
            self._tell(path, str(error))
            return None

    def _tell(self, path: Path, message: str) -> None:
        self.problems.append(Problem(path, message, line_of(self.lines, path)))


def _is_this(name: Name) -> bool:
    return [part.lower() for part in name] == [THIS]
