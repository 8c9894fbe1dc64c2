"""Checking the names in a pipeline: whatever a step or target refers to must exist, and must come before it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError
from pennon.identifiers import parse_table_name
from pennon.spark.pipeline.statements import THIS, BadQueryError, Name, is_this, list_references
from pennon.yaml_documents.problems import FileProblem, Path, suggest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pennon.identifiers import Identifier
    from pennon.spark.pipeline.model import Definition
    from pennon.spark.pipeline.problems import Positions

Fault = tuple[Path, str]
"""A problem without its line."""
_LOCAL_NAME = re.compile(r"[A-Za-z_][0-9A-Za-z_]{0,99}")


def find_reference_problems(definition: Definition, positions: Positions) -> list[FileProblem]:
    """Return problems with names that are missing, too late or duplicate, and with texts that are not queries."""
    found = [*_check_names(definition, positions), *_check_tables(definition), *_check_checks(definition)]
    problems = [positions.problem(path, message) for path, message in found]
    for path, sql in definition.queries():
        try:
            names = [one.name for one in list_references(sql)]
        except BadQueryError as error:
            line = positions.find_line(path)
            if line is not None and error.line is not None and {path, path[:-1]} & positions.blocks:
                line += error.line
            problems.append(FileProblem(path, str(error), line))
        else:
            problems += [positions.problem(path, message) for message in _check_query(definition, path, names)]
    return problems


def find_missing_inputs(content: Any) -> Iterator[Fault]:
    """Yield the targets in the content of a file that name no source or step, although other values are not valid."""
    if not isinstance(content, dict):
        return
    targets = content.get("targets")
    sections: list[Any] = [content.get(key) or {} for key in ("sources", "steps")]
    if not isinstance(targets, list) or not all(isinstance(one, dict) for one in sections):
        return
    for number, target in enumerate(targets):
        if isinstance(target, dict) and isinstance(target.get("from"), str):
            yield from _check_input(number, target["from"], [name for section in sections for name in section])


def _check_input(number: int, name: str, known: Sequence[str]) -> Iterator[Fault]:
    if name not in known:
        yield ("targets", number, "from"), f"there is no source or step {name!r}{suggest(name, known)}"


def _check_names(definition: Definition, positions: Positions) -> Iterator[Fault]:
    """Local names are plain, and differ in more than case, because Spark ignores case."""
    seen: dict[str, Path] = {}
    for path in [*(("sources", name) for name in definition.sources), *(("steps", name) for name in definition.steps)]:
        name = path[1]
        if not _LOCAL_NAME.fullmatch(name):
            yield path, "a name must consist of letters, digits and '_', and must not begin with a digit"
        elif name.lower() == THIS:
            yield path, f"{name!r} is reserved for the data that a check reads; choose another name"
        first = seen.setdefault(name.lower(), path)
        if first != path:
            line = positions.find_line(first)
            yield path, f"the name is taken: {first[0]}.{first[1]}{'' if line is None else f' (line {line})'}"


def _check_tables(definition: Definition) -> Iterator[Fault]:
    """Names of tables are valid, a target has a source or step, and each table is written once."""
    names: list[tuple[Path, str]] = [
        (("sources", name, "table"), source.table)
        for name, source in definition.sources.items()
        if source.table is not None
    ]
    known = [*definition.sources, *definition.steps]
    for number, target in enumerate(definition.targets):
        names.append((("targets", number, "table"), target.table))
        yield from _check_input(number, target.from_, known)
    written: set[Identifier] = set()
    for path, text in names:
        try:
            identifier = parse_table_name(text)
        except InvalidInputError as error:
            yield path, str(error)
            continue
        if path[0] == "targets" and identifier in written:
            yield path, f"{text!r} is also the table of another target"
        written |= {identifier} if path[0] == "targets" else set()


def _check_checks(definition: Definition) -> Iterator[Fault]:
    """Checks of the whole pipeline are SQL checks, and only checks of targets have ratios and a scope."""
    for group in definition.check_groups():
        for number, check in enumerate(group.checks):
            path: Path = (*group.path, number)
            if group.path == ("checks",) and check.sql is None:
                yield path, "a check of the whole pipeline must be an 'sql' check; move others below a target or step"
            if group.step is not None and check.row_count is not None and check.row_count.has_ratio:
                message = "ratios are relative to a published table, so only checks of targets have them"
                yield (*path, "row_count"), message
            if group.target is None and "scope" in check.model_fields_set:
                yield (*path, "scope"), "only checks of targets have a 'scope'"


def _check_query(definition: Definition, path: Path, names: list[Name]) -> Iterator[str]:
    """A step reads sources, earlier steps and tables of the catalog; only a check of something reads `this`."""
    is_step = path[0] == "steps" and path[-2] == path[1]
    if any(map(is_this, names)) and is_step:
        yield f"{THIS!r} is available in checks only"
    elif any(map(is_this, names)) and path[0] == "checks":
        yield f"{THIS!r} is not available here; name a table, source or step"
    if not is_step:
        return
    order = list(definition.steps)
    later = {one.lower(): one for one in order[order.index(str(path[1])) :]}
    for other in [later[one[0].lower()] for one in names if len(one) == 1 and one[0].lower() in later]:
        if other == path[1]:
            yield f"the step {other!r} reads itself"
        else:
            yield f"the step {other!r} comes later; steps run in the order of the file"
