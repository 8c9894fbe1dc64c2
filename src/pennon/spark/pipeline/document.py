"""Parsing a pipeline's YAML into plain values, with the line of each.

The rules are those of YAML 1.2's core schema, applied strictly: `on`, `yes` and dates are texts, and keys are unique
texts. Tags and merge keys are rejected. Aliases are allowed within limits on size and depth.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]

from pennon.errors import InvalidInputError
from pennon.spark.pipeline.problems import InvalidPipelineError, Path, PipelineProblem, Positions
from pennon.spark.pipeline.variables import FilledText, Variables, parse_variables

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
    """The content of a file, the position of each value, and the problems found so far."""

    content: Any = field(repr=False)
    masked: Any
    """The content with the names of secrets in place of their values."""
    positions: Positions = field(default_factory=Positions)
    unfilled: frozenset[Path] = frozenset()
    """Paths of texts with variables that could not be filled in. Their values are not validated."""
    secrets: set[str] = field(default_factory=set, repr=False)
    problems: tuple[PipelineProblem, ...] = ()


def load_document(
    file: str | os.PathLike[str], given: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> Document:
    """Load a file. Raises InvalidInputError if it cannot be read, is too large, or is not YAML."""
    name = os.fspath(file)
    try:
        with File(file).open("rb") as opened:
            content = opened.read(LARGEST_FILE + 1)
    except OSError as error:
        raise InvalidInputError(f"Cannot read the pipeline {name!r}: {error.strerror or error}") from error
    return parse_document(content, given, environment, file=name)


def parse_document(
    content: bytes | str,
    given: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
    *,
    file: str = "pipeline",
) -> Document:
    """Parse a text. Raises InvalidPipelineError if it is not YAML; other problems are part of the document."""
    if len(content) > LARGEST_FILE:
        raise _invalid(file, f"it is larger than {LARGEST_FILE} bytes")
    try:
        text = content.decode() if isinstance(content, bytes) else content
        _check_events(text, file)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise _invalid(file, f"it is not UTF-8: {error.reason}") from error
    except yaml.YAMLError as error:
        raise _invalid(file, *_describe_syntax_error(error, text)) from error
    if not isinstance(root, yaml.MappingNode):
        raise _invalid(file, "it must be a mapping with keys such as 'targets'", 1)
    section = _NodeReader(file, Variables({})).value(_find_entry(root, "vars"), ("vars",))
    variables, faults = parse_variables(section, given, os.environ if environment is None else environment)
    reader = _NodeReader(file, variables)
    value, masked = reader.mapping(root, ())
    positions = Positions(file, reader.lines, frozenset(reader.blocks))
    problems = [*reader.problems, *(positions.problem(("vars", name), fault) for name, fault in faults)]
    return Document(value, masked, positions, frozenset(reader.unfilled), variables.secrets, tuple(problems))


@dataclass
class _NodeReader:
    """Converts the nodes of a file to values."""

    file: str
    variables: Variables
    lines: dict[Path, int] = field(default_factory=dict)
    blocks: set[Path] = field(default_factory=set)
    unfilled: set[Path] = field(default_factory=set)
    problems: list[PipelineProblem] = field(default_factory=list)
    seen: int = 0

    def value(self, node: Any, path: Path) -> Any:
        """Return the value of a node, with its variables not filled in."""
        return None if node is None else self._read_node(node, path, plain=True)[0]

    def mapping(
        self, node: yaml.MappingNode, path: Path, *, plain: bool = False
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return a mapping whose keys are unique texts, as its value and its masked value."""
        value: dict[str, Any] = {}
        masked: dict[str, Any] = {}
        self.lines.setdefault(path, _line(node))
        for key_node, value_node in node.value:
            line = _line(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append(PipelineProblem(path, "a key must be a text", line))
                continue
            key = key_node.value
            here = (*path, key)
            if key == "<<" and key_node.style is None:
                self.problems.append(PipelineProblem(path, "merge keys ('<<') are not supported", line))
                continue
            if key in value:
                first = self.lines[here]
                self.problems.append(PipelineProblem(here, f"duplicate key (first in line {first})", line))
                continue
            self.lines[here] = line
            # The section `vars` has its own rules and was parsed before.
            value[key], masked[key] = self._read_node(value_node, here, plain=plain or here == ("vars",))
        return value, masked

    def _read_node(self, node: Any, path: Path, *, plain: bool) -> tuple[Any, Any]:
        self.seen += 1
        if self.seen > _MOST_VALUES or len(path) > _DEEPEST:
            raise _invalid(self.file, "aliases make it too large", _line(node), path[:3])
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path, plain=plain)
        if isinstance(node, yaml.SequenceNode):
            self.lines.setdefault(path, _line(node))
            pairs = []
            for number, item in enumerate(node.value):
                here = (*path, number)
                self.lines[here] = _line(item)
                pairs.append(self._read_node(item, here, plain=plain))
            return [value for value, _ in pairs], [masked for _, masked in pairs]
        return self._scalar(node, path, plain=plain)

    def _scalar(self, node: yaml.ScalarNode, path: Path, *, plain: bool) -> tuple[Any, Any]:
        if node.style == "|":
            self.blocks.add(path)
        filled = FilledText(node.value, node.value) if plain else self.variables.fill(node.value)
        line = _line(node)
        if filled.faults:
            self.unfilled.add(path)
            self.problems += [PipelineProblem(path, fault, line) for fault in filled.faults]
        if node.style is not None:
            return filled.value, filled.masked
        value = _parse_scalar(filled.value)
        return value, (filled.masked if filled.is_secret else value)


def _parse_scalar(text: str) -> Any:
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _check_events(text: str, file: str) -> None:
    """Raise InvalidPipelineError for tags, and for nesting that would exceed the recursion limit of the parser."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if getattr(event, "tag", None) not in {None, "!"}:
            raise _invalid(file, f"the tag {event.tag!r} is not supported", _line(event))
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise _invalid(file, "it is nested too deep", _line(event))


def _describe_syntax_error(error: yaml.YAMLError, text: str) -> tuple[str, int | None]:
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"it is not YAML: {error}", None
    mark = error.problem_mark or error.context_mark
    message = ", ".join(part for part in (error.context, error.problem) if part)
    if mark is not None and "${" in "".join(text.splitlines()[mark.line : mark.line + 1]):
        message += "; quote a text with '${' between '{' and '}' or '[' and ']'"
    return f"it is not YAML: {message}", None if mark is None else mark.line + 1


def _invalid(file: str, message: str, line: int | None = None, path: Path = ()) -> InvalidPipelineError:
    return InvalidPipelineError(file, [PipelineProblem(path, message, line)])


def _find_entry(root: yaml.MappingNode, key: str) -> Any:
    return next((value for name, value in root.value if isinstance(name, yaml.ScalarNode) and name.value == key), None)


def _line(node: Any) -> int:
    return int(node.start_mark.line) + 1
