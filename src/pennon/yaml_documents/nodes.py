"""Parsing YAML into plain values, with the line of each.

The rules are those of YAML 1.2's core schema, applied strictly: `on`, `yes` and dates are texts, and keys are unique
texts. Tags and merge keys are rejected. Aliases are allowed within limits on size and depth.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

import yaml  # type: ignore[import-untyped]

from pennon.errors import InvalidInputError
from pennon.yaml_documents.problems import FileProblem, InvalidFileError, Path

LARGEST_FILE = 1 << 20
_DEEPEST = 32
_MOST_VALUES = 50_000
_NULLS = {"", "~", "null", "Null", "NULL"}
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,30})")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]{1,3})?")


def read_file(file: str | os.PathLike[str], what: str) -> bytes:
    """Return the content of a file, or more than `LARGEST_FILE` bytes. Raises InvalidInputError if that fails."""
    try:
        with File(file).open("rb") as opened:
            return opened.read(LARGEST_FILE + 1)
    except OSError as error:
        raise InvalidInputError(f"Cannot read {what} {os.fspath(file)!r}: {error.strerror or error}") from error


def compose(content: bytes | str, file: str) -> yaml.MappingNode:
    """Return the mapping in a text. Raises InvalidFileError if it is too large or not the YAML of a mapping."""
    if len(content) > LARGEST_FILE:
        raise invalid(file, f"it is larger than {LARGEST_FILE} bytes")
    try:
        text = content.decode() if isinstance(content, bytes) else content
        _check_events(text, file)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise invalid(file, f"it is not UTF-8: {error.reason}") from error
    except yaml.YAMLError as error:
        raise invalid(file, *_describe_syntax_error(error, text)) from error
    if not isinstance(root, yaml.MappingNode):
        raise invalid(file, "it must be a mapping of keys to values", 1)
    return root


@dataclass
class NodeReader:
    """Converts the nodes of a file to values, and collects the line of each."""

    file: str
    lines: dict[Path, int] = field(default_factory=dict)
    blocks: set[Path] = field(default_factory=set)
    """Paths of block texts."""
    problems: list[FileProblem] = field(default_factory=list)
    seen: int = 0

    def mapping(self, node: yaml.MappingNode, path: Path = ()) -> dict[str, Any]:
        """Return a mapping whose keys are unique texts."""
        value: dict[str, Any] = {}
        self.lines.setdefault(path, line_of(node))
        for key_node, value_node in node.value:
            line = line_of(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self.problems.append(FileProblem(path, "a key must be a text", line))
                continue
            key = key_node.value
            here = (*path, key)
            if key == "<<" and key_node.style is None:
                self.problems.append(FileProblem(path, "merge keys ('<<') are not supported", line))
                continue
            if key in value:
                first = self.lines[here]
                self.problems.append(FileProblem(here, f"duplicate key (first in line {first})", line))
                continue
            self.lines[here] = line
            value[key] = self.value(value_node, here)
        return value

    def value(self, node: Any, path: Path) -> Any:  # noqa: ANN401 - YAML has values of any type
        """Return the value of a node. Raises InvalidFileError if there are too many, or if they are nested too deep."""
        self.seen += 1
        if self.seen > _MOST_VALUES or len(path) > _DEEPEST:
            raise invalid(self.file, "aliases make it too large", line_of(node), path[:3])
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            self.lines.setdefault(path, line_of(node))
            return [self._item(item, (*path, number)) for number, item in enumerate(node.value)]
        if node.style == "|":
            self.blocks.add(path)
        return self.scalar(node, path)

    def scalar(self, node: yaml.ScalarNode, path: Path) -> Any:  # noqa: ANN401 - the same
        """Return the value of a scalar. Subclasses change it."""
        del path
        return node.value if node.style is not None else parse_scalar(node.value)

    def _item(self, node: Any, path: Path) -> Any:  # noqa: ANN401 - the same
        self.lines[path] = line_of(node)
        return self.value(node, path)


def parse_scalar(text: str) -> Any:  # noqa: ANN401 - the same
    """Return the value of a scalar that is not quoted."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def line_of(node: Any) -> int:  # noqa: ANN401 - a node or an event
    """Return the line in which a node begins, from 1."""
    return int(node.start_mark.line) + 1


def invalid(file: str, message: str, line: int | None = None, path: Path = ()) -> InvalidFileError:
    """Return an error with one problem."""
    return InvalidFileError(file, [FileProblem(path, message, line)])


def _check_events(text: str, file: str) -> None:
    """Raise InvalidFileError for tags, and for nesting that would exceed the recursion limit of the parser."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if getattr(event, "tag", None) not in {None, "!"}:
            raise invalid(file, f"the tag {event.tag!r} is not supported", line_of(event))
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise invalid(file, "it is nested too deep", line_of(event))


def _describe_syntax_error(error: yaml.YAMLError, text: str) -> tuple[str, int | None]:
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"it is not YAML: {error}", None
    mark = error.problem_mark or error.context_mark
    message = ", ".join(part for part in (error.context, error.problem) if part)
    if mark is not None and "${" in "".join(text.splitlines()[mark.line : mark.line + 1]):
        message += "; quote a text with '${' between '{' and '}' or '[' and ']'"
    return f"it is not YAML: {message}", None if mark is None else mark.line + 1
