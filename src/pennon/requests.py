"""Requests as callers pass them: the SDK's model or a plain dict."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from pennon.errors import InvalidInputError, translated

if TYPE_CHECKING:
    from collections.abc import Callable

Request = TypeVar("Request", bound=BaseModel)
F = TypeVar("F", bound="Callable[..., Any]")


def operation(
    request_type: type[BaseModel], *, older: Callable[[dict[str, Any]], dict[str, Any]] = lambda fields: fields
) -> Callable[[F], F]:
    """Make a method accept its request as the SDK's model or as a dict, and let only the SDK's errors out.

    `older` gives the fields of a dict that is written as an older SDK has it as this one has them.
    """

    def decorate(method: F) -> F:
        @wraps(method)
        def called(self: object, request: Any, *rest: Any, **named: Any) -> Any:  # noqa: ANN401 - as the method
            checked = _request(request_type, request, older)
            subject = f"{method.__name__} of {getattr(checked, 'id', None) or 'the root namespace'}"
            with translated(subject):
                return method(self, checked, *rest, **named)

        return called  # type: ignore[return-value]  # same signature, wider request

    return decorate


def _request(kind: type[Request], request: object, older: Callable[[dict[str, Any]], dict[str, Any]]) -> Request:
    if isinstance(request, kind):
        return request
    if isinstance(request, BaseModel):
        request = request.model_dump()
    try:
        return kind.model_validate(older(request) if isinstance(request, dict) else request)
    except ValidationError as error:
        raise InvalidInputError(f"Bad {kind.__name__}: {error}") from error
