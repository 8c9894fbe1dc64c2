"""Make the request of an operation from the path, the query, the headers and the body."""

from __future__ import annotations

import json
import types
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from pennon.errors import InvalidInputError
from pennon.server.requests import SLASH, validate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import BaseModel
    from starlette.datastructures import Headers, QueryParams

    from pennon.server.lance.operations import Operation

DELIMITER = "$"
CONTEXT_HEADER = "x-pennon-context-"
"""Headers with this prefix are entries of the context, for operations without a body."""
_FLAGS = {"true": True, "false": False}


class RequestParser:
    """Makes the requests of an operation."""

    def __init__(self, operation: Operation) -> None:
        self._model = operation.request
        self._body_field = operation.body_field
        self._parameters = {
            name: parse
            for name, field in operation.request.model_fields.items()
            if name not in {"id", "identity", "context"} and (parse := _find_parser(field.annotation)) is not None
        }

    def parse(
        self, path: Mapping[str, str], query: QueryParams, headers: Headers, body: Mapping[str, Any]
    ) -> BaseModel:
        """Return the request. The body takes precedence over the query.

        Raises InvalidInputError if a value is not valid, or if the body contradicts the path.
        """
        fields: dict[str, Any] = {}
        for name in query.keys() & self._parameters.keys():
            fields[name] = self._parameters[name](name, query.getlist(name))
        fields |= body if self._body_field is None else {self._body_field: body} if body else {}
        context = {
            name[len(CONTEXT_HEADER) :]: value for name, value in headers.items() if name.startswith(CONTEXT_HEADER)
        }
        given = fields.get("context")
        if context and (given is None or isinstance(given, dict)):
            fields["context"] = context | (given or {})
        for name, text in path.items():
            fields[name] = _merge_path(name, text.replace(SLASH, "/"), fields.get(name), query)
        return validate(fields, self._model, "The request")


def limit_page(request: BaseModel, most: int) -> BaseModel:
    """Return the request with a page of at most so many entries, if it asks for a page."""
    asked = getattr(request, "limit", None)
    return request if asked is None or asked <= most else request.model_copy(update={"limit": most})


def parse_delimiter(query: QueryParams) -> str:
    """Return the delimiter of identifiers. Raises InvalidInputError if it is empty."""
    delimiter = query.get("delimiter", DELIMITER)
    if not delimiter:
        raise InvalidInputError("The delimiter is empty")
    return delimiter


def split_identifier(text: str, delimiter: str) -> list[str]:
    """Return the names in a string identifier; the delimiter alone is the root namespace."""
    return [] if text == delimiter else text.split(delimiter)


def _merge_path(name: str, text: str, given: object, query: QueryParams) -> str | list[str]:
    """Return the value in the path. Raises InvalidInputError if the body has another one."""
    delimiter = parse_delimiter(query)
    named = split_identifier(text, delimiter) if name == "id" else text
    # DuckDB sends an identifier in one piece, as in the path.
    same = delimiter.join(map(str, given)) == text if name == "id" and isinstance(given, list) and given else False
    if given is not None and given != named and not same:
        raise InvalidInputError(f"The body has the {name} {given!r}, but the path has {named!r}")
    return named


def _find_parser(annotation: Any) -> Callable[[str, list[str]], Any] | None:  # noqa: ANN401 - an annotation
    """Return what parses a query parameter of this type, or None if it cannot be one."""
    kind = _strip_annotation(annotation)
    if get_origin(kind) is list and _strip_annotation(get_args(kind)[0]) is str:
        return lambda _, texts: texts
    return {bool: _parse_flag, int: _parse_number, str: _parse_text, datetime: _parse_text}.get(
        kind, _parse_map if get_origin(kind) is dict else None
    )


def _strip_annotation(annotation: Any) -> Any:  # noqa: ANN401 - an annotation
    """Return the type inside Optional and Annotated."""
    while True:
        origin = get_origin(annotation)
        if origin is Annotated:
            annotation = get_args(annotation)[0]
        elif origin in {Union, types.UnionType} and len(inner := set(get_args(annotation)) - {type(None)}) == 1:
            (annotation,) = inner
        else:
            return annotation


def _parse_text(_: str, texts: list[str]) -> str:
    return texts[-1]


def _parse_flag(name: str, texts: list[str]) -> bool:
    flag = _FLAGS.get(texts[-1].lower())
    if flag is None:
        raise InvalidInputError(f"The parameter {name!r} must be true or false, got {texts[-1]!r}")
    return flag


def _parse_number(name: str, texts: list[str]) -> int:
    try:
        return int(texts[-1])
    except ValueError as error:
        raise InvalidInputError(f"The parameter {name!r} must be a whole number, got {texts[-1]!r}") from error


def _parse_map(name: str, texts: list[str]) -> dict[str, Any]:
    try:
        content = json.loads(texts[-1])
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"The parameter {name!r} must be a JSON object") from error
    if not isinstance(content, dict):
        raise InvalidInputError(f"The parameter {name!r} must be a JSON object")
    return content
