"""Validating values against the model. All problems are reported at once, with line and key."""

from __future__ import annotations

import types
import typing
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from pennon.spark.pipeline.document import Document
from pennon.spark.pipeline.model import Definition
from pennon.spark.pipeline.problems import InvalidPipelineError, Path, PipelineProblem, suggest
from pennon.spark.pipeline.reference_checks import find_reference_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic_core import ErrorDetails


_LONGEST_VALUE = 60


def validate_document(document: Document) -> Definition:
    """Return the definition in a document. Raises InvalidPipelineError with all problems."""
    positions = document.positions
    try:
        definition = Definition.model_validate(document.content)
    except ValidationError as error:
        found = [one for one in _problems(error, document) if one.path not in document.unfilled]
        raise InvalidPipelineError(positions.file, [*document.problems, *found]) from None
    positions.refuse([*document.problems, *find_reference_problems(definition, positions)])
    return definition


def validate_definition(values: Mapping[str, Any] | Definition) -> Definition:
    """Return the definition from a dict or model. Raises InvalidPipelineError with all problems."""
    return validate_document(Document(values, values))


def _problems(error: ValidationError, document: Document) -> Iterator[PipelineProblem]:
    errors = error.errors(include_url=False, include_context=True)
    places = [tuple(one["loc"]) for one in errors]
    for one, place in zip(errors, places, strict=True):
        # Pydantic also reports a list as empty if all of its entries are invalid.
        if one["type"] != "too_short" or not any(other[: len(place)] == place != other for other in places):
            yield document.positions.problem(place, _message(one, place, document.masked))


def _message(error: ErrorDetails, path: Path, masked: Any) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return "unknown key" + suggest(str(path[-1]), _known_keys(path[:-1]))
    if kind == "missing":
        return "required key is missing"
    if kind == "value_error":
        return str(context["error"])
    # The input may be a secret, so the message has the masked value.
    value = _masked_value(masked, path)
    if kind == "literal_error":
        choices = context["expected"].replace(" or ", ", ")
        return f"must be one of {choices}, not {value}" + _choice_hint(error["input"], choices)
    if kind == "too_short":
        return "must have at least one entry"
    if kind in {"model_type", "dict_type"}:
        return f"must be a mapping, not {value}"
    if kind in {"tuple_type", "list_type"}:
        return f"must be a list, not {value}"
    if kind == "string_pattern_mismatch":
        return f"must be up to 100 letters, digits, '_', '-' and '.', beginning with a letter or digit, not {value}"
    message = error["msg"].removeprefix("Input should be ").removeprefix("Value should have ")
    return f"must be {message}, not {value}"


def _choice_hint(value: object, choices: str) -> str:
    if not isinstance(value, str):
        return ""
    hint = suggest(value, [one.strip("' ") for one in choices.split(",")])
    return hint if "did you mean" in hint else ""


def _masked_value(masked: Any, path: Path) -> str:
    for part in path:
        try:
            masked = masked[part]
        except (KeyError, IndexError, TypeError):
            break
    text = repr(masked)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."


def _known_keys(path: Path) -> list[str]:
    """Return the keys that are valid at a path."""
    model: Any = Definition
    for part in path:
        fields = _fields(model)
        # The name or position of an entry of a mapping or list has the model of the entries.
        model = fields.get(str(part), model)
    return sorted(_fields(model))


def _fields(model: Any) -> dict[str, Any]:
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return {}
    return {field.alias or name: _model_in(field.annotation) for name, field in model.model_fields.items()}


def _model_in(annotation: Any) -> Any:
    """Return the model in an annotation such as `dict[str, Step]`, or None."""
    if (
        isinstance(annotation, type)
        and not isinstance(annotation, types.GenericAlias)
        and issubclass(annotation, BaseModel)
    ):
        return annotation
    return next((found for one in typing.get_args(annotation) if (found := _model_in(one)) is not None), None)
