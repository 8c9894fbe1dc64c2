"""Reading a pipeline's YAML: plain values, and the line of each.

The rules are those of YAML 1.2's core schema, read strictly: `on`, `yes` and dates are texts; keys are texts and stand
once; tags and merge keys are refused. Aliases work, within bounds on size and depth.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]

from pennon.errors import InvalidInputError
from pennon.spark.pipeline.problems import InvalidPipelineError, Path, Problem
from pennon.spark.pipeline.variables import Filled, Variables, declared

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST_FILE = 1 << 20
_DEEPEST = 32
_MOST_VALUES = 50_000
_NULLS = {"", "~", "null", "Null", "NULL"}
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,30})")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]{1,3})?")


@dataclass(frozen=True)
class Document:
    """A file's content for use and for show, the line of each value, and what is wrong so far."""

    file: str
    used: Any = field(repr=False)
    shown: Any
    lines: Mapping[Path, int]
    blocks: frozenset[Path]
    """Texts that stand as they are from the line after their key on, so that lines inside of them are known."""
    unfilled: frozenset[Path]
    """Texts whose references could not be filled in: their values say nothing."""
    secrets: set[str] = field(repr=False)
    problems: tuple[Problem, ...] = ()


def read(
    file: str | os.PathLike[str], given: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> Document:
    """Read a file; error 13 if it is not there, too large, or not YAML."""
    name = os.fspath(file)
    try:
        with File(file).open("rb") as opened:
            content = opened.read(LARGEST_FILE + 1)
    except OSError as error:
        raise InvalidInputError(f"Cannot read the pipeline {name!r}: {error.strerror or error}") from error
    return parse(content, given, environment, file=name)


def parse(
    content: bytes | str,
    given: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
    *,
    file: str = "pipeline",
) -> Document:
    """Read a text; raises InvalidPipelineError if it is not YAML, else the document says what is wrong."""
    if len(content) > LARGEST_FILE:
        raise InvalidPipelineError(file, [Problem((), f"it is larger than {LARGEST_FILE} bytes")])
    try:
        text = content.decode() if isinstance(content, bytes) else content
        _check_events(text, file)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise InvalidPipelineError(file, [Problem((), f"it is not UTF-8: {error.reason}")]) from error
    except yaml.YAMLError as error:
        raise InvalidPipelineError(file, [_syntax(error, text)]) from error
    if not isinstance(root, yaml.MappingNode):
        raise InvalidPipelineError(file, [Problem((), "it has to be a mapping with keys such as 'targets'", 1)])
    section = _Reading(file, Variables({})).value(_entry(root, "vars"), ("vars",))
    variables, faults = declared(section, given, os.environ if environment is None else environment)
    reading = _Reading(file, variables)
    used, shown = reading.mapping(root, ())
    reading.problems += [
        Problem(("vars", name), fault, reading.lines.get(("vars", name), reading.lines.get(("vars",))))
        for name, fault in faults
    ]
    return Document(
        file,
        used,
        shown,
        reading.lines,
        frozenset(reading.blocks),
        frozenset(reading.unfilled),
        variables.secrets,
        tuple(reading.problems),
    )


@dataclass
class _Reading:
    """Walks the nodes of a file."""

    file: str
    variables: Variables
    lines: dict[Path, int] = field(default_factory=dict)
    blocks: set[Path] = field(default_factory=set)
    unfilled: set[Path] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)
    seen: int = 0

    def value(self, node: Any, path: Path) -> Any:
        """Give what stands at a node, with its references as they are."""
        return None if node is None else self._both(node, path, plain=True)[0]

    def mapping(
        self, node: yaml.MappingNode, path: Path, *, plain: bool = False
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Read a mapping whose keys are texts, each once."""
        used: dict[str, Any] = {}
        shown: dict[str, Any] = {}
        self.lines.setdefault(path, _line(node))
        for key_node, value_node in node.value:
            line = _line(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append(Problem(path, "a key has to be a text", line))
                continue
            key = key_node.value
            here = (*path, key)
            if key == "<<" and key_node.style is None:
                self.problems.append(Problem(path, "merge keys ('<<') are not supported", line))
                continue
            if key in used:
                first = self.lines[here]
                self.problems.append(
                    Problem(here, f"the key stands here for the second time (first in line {first})", line)
                )
                continue
            self.lines[here] = line
            # The variables' own section was read before, with rules of its own.
            used[key], shown[key] = self._both(value_node, here, plain=plain or here == ("vars",))
        return used, shown

    def _both(self, node: Any, path: Path, *, plain: bool) -> tuple[Any, Any]:
        self.seen += 1
        if self.seen > _MOST_VALUES or len(path) > _DEEPEST:
            raise InvalidPipelineError(self.file, [Problem(path[:3], "aliases make it too large", _line(node))])
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path, plain=plain)
        if isinstance(node, yaml.SequenceNode):
            self.lines.setdefault(path, _line(node))
            pairs = []
            for number, item in enumerate(node.value):
                here = (*path, number)
                self.lines[here] = _line(item)
                pairs.append(self._both(item, here, plain=plain))
            return [used for used, _ in pairs], [shown for _, shown in pairs]
        return self._scalar(node, path, plain=plain)

    def _scalar(self, node: yaml.ScalarNode, path: Path, *, plain: bool) -> tuple[Any, Any]:
        if node.style == "|":
            self.blocks.add(path)
        filled = Filled(node.value, node.value) if plain else self.variables.fill(node.value)
        line = _line(node)
        if filled.faults:
            self.unfilled.add(path)
            self.problems += [Problem(path, fault, line) for fault in filled.faults]
        if node.style is not None:
            return filled.used, filled.shown
        used = _typed(filled.used)
        return used, (filled.shown if filled.is_secret else used)


def _typed(text: str) -> Any:
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _check_events(text: str, file: str) -> None:
    """Look at the file without building anything: what is nested too deep would end the composer's recursion."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if getattr(event, "tag", None) not in {None, "!"}:
            raise InvalidPipelineError(file, [Problem((), f"the tag {event.tag!r} is not supported", _line(event))])
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise InvalidPipelineError(file, [Problem((), "it is nested too deep", _line(event))])


def _syntax(error: yaml.YAMLError, text: str) -> Problem:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        message = ", ".join(part for part in (error.context, error.problem) if part)
        if mark is not None and "${" in "".join(text.splitlines()[mark.line : mark.line + 1]):
            message += "; between '{' and '}' or '[' and ']', put a text with '${' into quotes"
        return Problem((), f"it is not YAML: {message}", None if mark is None else mark.line + 1)
    return Problem((), f"it is not YAML: {error}")


def _entry(root: yaml.MappingNode, key: str) -> Any:
    return next((value for name, value in root.value if isinstance(name, yaml.ScalarNode) and name.value == key), None)


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1
