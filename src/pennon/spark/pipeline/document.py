"""A pipeline's YAML as plain values, with variables filled in, and the line of each value."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml  # type: ignore[import-untyped]

from pennon.spark.pipeline.problems import InvalidPipelineError, Positions
from pennon.spark.pipeline.variables import FilledText, Variables, parse_variables
from pennon.yaml_documents.nodes import NodeReader, compose, line_of, parse_scalar, read_file
from pennon.yaml_documents.problems import FileProblem, InvalidFileError, Path

if TYPE_CHECKING:
    from collections.abc import Mapping

_VARIABLES = "vars"


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
    problems: tuple[FileProblem, ...] = ()


def load_document(
    file: str | os.PathLike[str], given: Mapping[str, str], environment: Mapping[str, str] | None = None
) -> Document:
    """Load a file. Raises InvalidInputError if it cannot be read, is too large, or is not YAML."""
    return parse_document(read_file(file, "the pipeline"), given, environment, file=os.fspath(file))


def parse_document(
    content: bytes | str,
    given: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
    *,
    file: str = "pipeline",
) -> Document:
    """Parse a text. Raises InvalidPipelineError if it is not YAML; other problems are part of the document."""
    try:
        return _parse(content, given, os.environ if environment is None else environment, file)
    except InvalidFileError as error:
        raise InvalidPipelineError(error.file, error.problems) from error


def _parse(content: bytes | str, given: Mapping[str, str], environment: Mapping[str, str], file: str) -> Document:
    root = compose(content, file)
    section = _find_entry(root, _VARIABLES)
    declared = None if section is None else NodeReader(file).value(section, (_VARIABLES,))
    variables, faults = parse_variables(declared, given, environment)
    reader = _FilledReader(file, variables=variables)
    content_ = reader.mapping(root)
    positions = Positions(file, reader.lines, frozenset(reader.blocks))
    problems = [*reader.problems, *(positions.problem((_VARIABLES, name), fault) for name, fault in faults)]
    return Document(
        _select(content_, "value"),
        _select(content_, "masked"),
        positions,
        frozenset(reader.unfilled),
        variables.secrets,
        tuple(problems),
    )


@dataclass(frozen=True)
class _Leaf:
    """A scalar, and what is shown of it."""

    value: Any = field(repr=False)
    masked: Any


@dataclass
class _FilledReader(NodeReader):
    """Fills variables into scalars, which become leaves."""

    variables: Variables = field(kw_only=True)
    unfilled: set[Path] = field(default_factory=set)

    def scalar(self, node: yaml.ScalarNode, path: Path) -> _Leaf:
        """Return the leaf of a scalar."""
        # The section `vars` has its own rules and was parsed before.
        is_plain = path[:1] == (_VARIABLES,)
        filled = FilledText(node.value, node.value) if is_plain else self.variables.fill(node.value)
        if filled.faults:
            self.unfilled.add(path)
            self.problems += [FileProblem(path, fault, line_of(node)) for fault in filled.faults]
        if node.style is not None:
            return _Leaf(filled.value, filled.masked)
        value = parse_scalar(filled.value)
        return _Leaf(value, filled.masked if filled.is_secret else value)


def _select(tree: Any, attribute: str) -> Any:
    """Return the values of a tree of leaves, or what is shown of them."""
    if isinstance(tree, dict):
        return {key: _select(value, attribute) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_select(value, attribute) for value in tree]
    return getattr(tree, attribute)


def _find_entry(root: yaml.MappingNode, key: str) -> Any:
    return next((value for name, value in root.value if isinstance(name, yaml.ScalarNode) and name.value == key), None)
