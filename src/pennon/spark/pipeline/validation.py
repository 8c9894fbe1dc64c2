"""Validating values against the model. All problems are reported at once, with line and key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from pennon.spark.pipeline.document import Document
from pennon.spark.pipeline.model import NAME_PATTERN, Definition
from pennon.spark.pipeline.problems import InvalidPipelineError
from pennon.spark.pipeline.reference_checks import find_reference_problems
from pennon.yaml_documents.models import find_problems

if TYPE_CHECKING:
    from collections.abc import Mapping

_PATTERNS = {NAME_PATTERN: "up to 100 letters, digits, '_', '-' and '.', beginning with a letter or digit"}


def validate_document(document: Document) -> Definition:
    """Return the definition in a document. Raises InvalidPipelineError with all problems."""
    positions = document.positions
    try:
        definition = Definition.model_validate(document.content)
    except ValidationError as error:
        problems = find_problems(error, Definition, positions, document.masked, _PATTERNS)
        found = [one for one in problems if one.path not in document.unfilled]
        raise InvalidPipelineError(positions.file, [*document.problems, *found]) from None
    positions.refuse([*document.problems, *find_reference_problems(definition, positions)])
    return definition


def validate_definition(values: Mapping[str, Any] | Definition) -> Definition:
    """Return the definition from a dict or model. Raises InvalidPipelineError with all problems."""
    return validate_document(Document(values, values))
