"""Selecting a part of a pipeline: some targets, and everything that they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidInputError
from pennon.identifiers import parse_table_name
from pennon.spark.pipeline.graph import Graph
from pennon.spark.pipeline.problems import Positions
from pennon.yaml_documents.problems import suggest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pennon.spark.pipeline.model import Definition
    from pennon.yaml_documents.problems import Path


def select_targets(definition: Definition, only: Sequence[str], starting_from: Sequence[str]) -> list[int]:
    """Return the numbers of the selected targets, in the order of the file.

    A name in `only` is that of a target, or of the source or step from which targets are written. A name in
    `starting_from` is that of a source or step on which targets depend. Raises InvalidInputError for a name that
    selects no target.
    """
    graph = Graph(definition)
    chosen: set[int] = set()
    for name in only:
        chosen.update(
            _match(definition, name, _find_written(graph, name), "no target has this name or is written from it")
        )
    for name in starting_from:
        chosen.update(_match(definition, name, _find_dependent(graph, name), "no target depends on it"))
    return sorted(chosen)


def narrow_definition(definition: Definition, numbers: Sequence[int]) -> Definition:
    """Return a definition with only some targets, the steps that they need, and the checks of the whole pipeline."""
    kept = definition.model_copy(update={"targets": tuple(definition.targets[number] for number in numbers)})
    # Checks of steps alone do not make a step necessary.
    bare = {name: step.model_copy(update={"checks": ()}) for name, step in definition.steps.items()}
    used = Graph(kept.model_copy(update={"steps": bare})).used_names()
    return kept.model_copy(update={"steps": {name: step for name, step in definition.steps.items() if name in used}})


def narrow_content(content: Mapping[str, Any], definition: Definition, numbers: Sequence[int]) -> dict[str, Any]:
    """Return the values of a file, as far as they belong to the narrowed definition."""
    steps = {name: step for name, step in (content.get("steps") or {}).items() if name in definition.steps}
    return {**content, "steps": steps, "targets": [content["targets"][number] for number in numbers]}


def narrow_positions(positions: Positions, numbers: Sequence[int]) -> Positions:
    """Return the positions of what is left: targets have new numbers."""
    places = {old: new for new, old in enumerate(numbers)}

    def move(path: Path) -> Path | None:
        if path[:1] != ("targets",) or len(path) == 1:
            return path
        new = places.get(int(path[1]))
        return None if new is None else ("targets", new, *path[2:])

    lines = {new: line for path, line in positions.lines.items() if (new := move(path)) is not None}
    blocks = frozenset(new for path in positions.blocks if (new := move(path)) is not None)
    return Positions(positions.file, lines, blocks)


def _find_written(graph: Graph, name: str) -> list[int]:
    local = graph.find_local((name,))
    return [
        number
        for number, target in enumerate(graph.definition.targets)
        if target.table == name or target.from_ == local or parse_table_name(target.table) == _parse(name)
    ]


def _find_dependent(graph: Graph, name: str) -> list[int]:
    local = graph.find_local((name,))
    return [
        number
        for number, target in enumerate(graph.definition.targets)
        if local is not None and local in graph.dependencies(f"SELECT * FROM `{target.from_}`")  # noqa: S608 - a name of the pipeline
    ]


def _match(definition: Definition, name: str, numbers: list[int], reason: str) -> list[int]:
    if numbers:
        return numbers
    known = [*definition.sources, *definition.steps, *(target.table for target in definition.targets)]
    hint = "" if name in known else suggest(name, known)
    raise InvalidInputError(f"{name!r} selects nothing of pipeline {definition.name!r}: {reason}{hint}")


def _parse(name: str) -> tuple[str, ...] | None:
    try:
        return parse_table_name(name)
    except InvalidInputError:
        return None
