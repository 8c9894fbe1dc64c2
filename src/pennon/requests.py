"""Requests as callers pass them: the SDK's model or a plain dict."""

from __future__ import annotations

from collections import Counter
from functools import wraps
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from pennon import background
from pennon.errors import InvalidInputError, translate_errors

if TYPE_CHECKING:
    from collections.abc import Callable

Request = TypeVar("Request", bound=BaseModel)
F = TypeVar("F", bound="Callable[..., Any]")


class OperationCounter:
    """Counts the calls of each operation; may be used by several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[str] = Counter()

    def count(self, name: str) -> None:
        """Count a call."""
        with self._lock:
            self._counts[name] += 1

    def counts(self) -> dict[str, int]:
        """Return the number of calls by operation."""
        with self._lock:
            return dict(self._counts)

    def reset(self) -> None:
        """Begin from zero."""
        with self._lock:
            self._counts.clear()


def operation(
    request_type: type[BaseModel], *, older: Callable[[dict[str, Any]], dict[str, Any]] = lambda fields: fields
) -> Callable[[F], F]:
    """Make a method accept its request as the SDK's model or as a dict, and let only the SDK's errors out.

    `older` gives the fields of a dict that is written as an older SDK has it as this one has them.
    """

    def decorate(method: F) -> F:
        @wraps(method)
        def called(self: object, request: Any, *rest: Any, **named: Any) -> Any:  # noqa: ANN401 - as the method
            counter: OperationCounter | None = getattr(self, "_ops_metrics", None)
            if counter is not None:
                counter.count(method.__name__)
            checked = _request(request_type, request, older)
            subject = f"{method.__name__} of {getattr(checked, 'id', None) or 'the root namespace'}"
            with background.awaited_at_exit(), translate_errors(subject):
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
