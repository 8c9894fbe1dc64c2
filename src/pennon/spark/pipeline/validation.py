"""From plain values to a validated definition; everything that is wrong is told at once, with line and key."""

from __future__ import annotations

import types
import typing
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from pennon.spark.pipeline.model import Definition
from pennon.spark.pipeline.problems import InvalidPipelineError, Path, Problem, line_of, suggestion
from pennon.spark.pipeline.references import reference_problems

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails

    from pennon.spark.pipeline.document import Document

_LONGEST_VALUE = 60


def validated(document: Document) -> Definition:
    """Give the definition that a file holds, or raise InvalidPipelineError with all that is wrong."""
    problems = list(document.problems)
    try:
        definition = Definition.model_validate(document.used)
    except ValidationError as error:
        found = _problems(error, document.shown, document.lines)
        problems += [one for one in found if one.path not in document.unfilled]
        raise InvalidPipelineError(document.file, problems) from None
    problems += reference_problems(definition, document.lines, document.blocks)
    if problems:
        raise InvalidPipelineError(document.file, problems)
    return definition


def defined(values: Mapping[str, Any] | Definition) -> Definition:
    """Give the definition that Python code made, or raise InvalidPipelineError with all that is wrong."""
    try:
        definition = values if isinstance(values, Definition) else Definition.model_validate(values)
    except ValidationError as error:
        raise InvalidPipelineError("pipeline", _problems(error, values, {})) from None
    problems = reference_problems(definition, {}, frozenset())
    if problems:
        raise InvalidPipelineError("pipeline", problems)
    return definition


def _problems(error: ValidationError, shown: Any, lines: Mapping[Path, int]) -> list[Problem]:
    errors = error.errors(include_url=False, include_context=True)
    places = [tuple(one["loc"]) for one in errors]
    return [
        _problem(one, shown, lines)
        for one, place in zip(errors, places, strict=True)
        # A list whose entries are all bad counts as empty.
        if one["type"] != "too_short" or not any(other[: len(place)] == place != other for other in places)
    ]


def _problem(error: ErrorDetails, shown: Any, lines: Mapping[Path, int]) -> Problem:
    path: Path = tuple(error["loc"])
    return Problem(path, _message(error, path, shown), line_of(lines, path))


def _message(error: ErrorDetails, path: Path, shown: Any) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return "unknown key" + suggestion(str(path[-1]), _known_keys(path[:-1]))
    if kind == "missing":
        return "it is missing"
    if kind == "value_error":
        return str(context["error"])
    # The input itself may hold a secret: what is shown is what the file says.
    value = _shown_value(shown, path)
    if kind == "literal_error":
        choices = context["expected"].replace(" or ", ", ")
        return f"it is one of {choices}, not {value}" + _choice_hint(error["input"], choices)
    if kind == "too_short":
        return "it needs at least one entry"
    if kind in {"model_type", "dict_type"}:
        return f"it has to be a mapping of keys, not {value}"
    if kind in {"tuple_type", "list_type"}:
        return f"it has to be a list, not {value}"
    if kind == "string_pattern_mismatch":
        return f"it is letters, digits, '_', '-' and '.', at most 100, beginning with a letter or digit, not {value}"
    message = error["msg"].removeprefix("Input should be ").removeprefix("Value should have ")
    return f"it has to be {message}, not {value}"


def _choice_hint(value: object, choices: str) -> str:
    if not isinstance(value, str):
        return ""
    hint = suggestion(value, [one.strip("' ") for one in choices.split(",")])
    return hint if "did you mean" in hint else ""


def _shown_value(shown: Any, path: Path) -> str:
    for part in path:
        try:
            shown = shown[part]
        except (KeyError, IndexError, TypeError):
            break
    text = repr(shown)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."


def _known_keys(path: Path) -> list[str]:
    """Name the keys that may stand at a place."""
    model: Any = Definition
    for part in path:
        fields = _fields(model)
        # A name or position inside of a mapping or list has the model of its entries.
        model = fields.get(str(part), model)
    return sorted(_fields(model))


def _fields(model: Any) -> dict[str, Any]:
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return {}
    return {field.alias or name: _model_in(field.annotation) for name, field in model.model_fields.items()}


def _model_in(annotation: Any) -> Any:
    """Give the model inside of an annotation such as `dict[str, Step]`."""
    if (
        isinstance(annotation, type)
        and not isinstance(annotation, types.GenericAlias)
        and issubclass(annotation, BaseModel)
    ):
        return annotation
    return next((found for one in typing.get_args(annotation) if (found := _model_in(one)) is not None), None)
