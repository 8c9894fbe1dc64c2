"""Validating values against the model. All problems are reported at once, with line and key."""

from __future__ import annotations

from copy import deepcopy
from functools import reduce
from operator import getitem
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from pennon.spark.pipeline.document import Document
from pennon.spark.pipeline.model import NAME_PATTERN, Definition
from pennon.spark.pipeline.reference_checks import find_missing_inputs, find_reference_problems
from pennon.yaml_documents.models import find_problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pennon.yaml_documents.problems import FileProblem

_PATTERNS = {NAME_PATTERN: "up to 100 letters, digits, '_', '-' and '.', beginning with a letter or digit"}


def validate_document(document: Document) -> Definition:
    """Return the definition in a document. Raises InvalidPipelineError with all problems."""
    document.positions.refuse([*document.problems, *_find_problems(document, document.content)])
    return Definition.model_validate(document.content)


def _find_problems(document: Document, content: Any) -> list[FileProblem]:
    """Return the problems of the content of a document; unknown keys do not hide others."""
    try:
        definition = Definition.model_validate(content)
    except ValidationError as error:
        problems = find_problems(error, Definition, document.positions, document.masked, _PATTERNS)
        found = [one for one in problems if one.path not in document.unfilled]
        found += [
            document.positions.problem(*one) for one in find_missing_inputs(content) if one[0] not in document.unfilled
        ]
        unknown = [one["loc"] for one in error.errors(include_input=False) if one["type"] == "extra_forbidden"]
        rest = _find_problems(document, _without(content, unknown)) if unknown else []
        return list(dict.fromkeys([*found, *rest]))
    return find_reference_problems(definition, document.positions)


def _without(content: Any, paths: Iterable[tuple[str | int, ...]]) -> Any:
    """Return a copy of the content without some of its keys."""
    rest = deepcopy(content)
    for *above, key in paths:
        del reduce(getitem, above, rest)[key]
    return rest


def validate_definition(values: Mapping[str, Any] | Definition) -> Definition:
    """Return the definition from a dict or model. Raises InvalidPipelineError with all problems."""
    return validate_document(Document(values, values))
