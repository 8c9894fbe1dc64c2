"""Validating values by pydantic models. All problems are reported at once, with line and key."""

from __future__ import annotations

import types
import typing
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from pennon.yaml_documents.problems import FilePositions, FileProblem, Path, suggest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_LONGEST_VALUE = 60


def find_problems(
    error: ValidationError,
    model: type[BaseModel],
    positions: FilePositions,
    shown: Any,  # noqa: ANN401 - the content of a file
    patterns: Mapping[str, str] | None = None,
) -> Iterator[FileProblem]:
    """Yield the problems in an error of a model. Messages quote values of `shown`, which has no secrets.

    `patterns` has the words for regular expressions that values must match.
    """
    errors = error.errors(include_url=False, include_context=True)
    places = [tuple(one["loc"]) for one in errors]
    for one, place in zip(errors, places, strict=True):
        # Pydantic also reports a list as empty if all of its entries are invalid.
        if one["type"] != "too_short" or not any(other[: len(place)] == place != other for other in places):
            yield positions.problem(place, _message(one, place, model, shown, patterns or {}))


def _message(
    error: ErrorDetails,
    path: Path,
    model: type[BaseModel],
    shown: Any,  # noqa: ANN401 - the same
    patterns: Mapping[str, str],
) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        return "unknown key" + suggest(str(path[-1]), _known_keys(model, path[:-1]))
    if kind == "missing":
        return "required key is missing"
    if kind == "value_error":
        return str(context["error"])
    # The input may be a secret, so the message has the value that may be shown.
    value = _shown_value(shown, path)
    if kind in {"literal_error", "enum"}:
        choices = context["expected"].replace(" or ", ", ")
        return f"must be one of {choices}, not {value}" + _choice_hint(error["input"], choices)
    if kind == "too_short":
        return "must have at least one entry"
    if kind in {"model_type", "dict_type"}:
        return f"must be a mapping, not {value}"
    if kind in {"tuple_type", "list_type"}:
        return f"must be a list, not {value}"
    if kind == "string_pattern_mismatch":
        wanted = patterns.get(context["pattern"], f"a text that matches {context['pattern']}")
        return f"must be {wanted}, not {value}"
    message = error["msg"].removeprefix("Input should be ").removeprefix("Value should have ")
    return f"must be {message}, not {value}"


def _choice_hint(value: object, choices: str) -> str:
    if not isinstance(value, str):
        return ""
    hint = suggest(value, [one.strip("' ") for one in choices.split(",")])
    return hint if "did you mean" in hint else ""


def _shown_value(shown: Any, path: Path) -> str:  # noqa: ANN401 - the same
    for part in path:
        try:
            shown = shown[part]
        except (KeyError, IndexError, TypeError):
            break
    text = repr(shown)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."


def _known_keys(root: type[BaseModel], path: Path) -> list[str]:
    """Return the keys that are valid at a path."""
    model: Any = root
    for part in path:
        fields = _fields(model)
        # The name or position of an entry of a mapping or list has the model of the entries.
        model = fields.get(str(part), model)
    return sorted(_fields(model))


def _fields(model: Any) -> dict[str, Any]:  # noqa: ANN401 - an annotation
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return {}
    return {field.alias or name: _model_in(field.annotation) for name, field in model.model_fields.items()}


def _model_in(annotation: Any) -> Any:  # noqa: ANN401 - an annotation
    """Return the model in an annotation such as `dict[str, Step]`, or None."""
    if (
        isinstance(annotation, type)
        and not isinstance(annotation, types.GenericAlias)
        and issubclass(annotation, BaseModel)
    ):
        return annotation
    return next((found for one in typing.get_args(annotation) if (found := _model_in(one)) is not None), None)
