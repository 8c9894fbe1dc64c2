"""Decorate operations: accept a request as the SDK's model or as a dict, count calls, translate errors."""

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
    """Counts the calls of each operation. Thread-safe."""

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
        """Set all counts to zero."""
        with self._lock:
            self._counts.clear()


def operation(
    request_type: type[BaseModel], *, upgrade: Callable[[dict[str, Any]], dict[str, Any]] = lambda fields: fields
) -> Callable[[F], F]:
    """Return a decorator for methods that take `request_type`: they also accept a dict, and raise only SDK errors.

    `upgrade` converts the fields of a dict in the format of an older SDK to the current format.
    """

    def decorate(method: F) -> F:
        @wraps(method)
        def called(self: object, request: Any, *rest: Any, **named: Any) -> Any:  # noqa: ANN401 - the arguments of any method
            counter: OperationCounter | None = getattr(self, "_ops_metrics", None)
            if counter is not None:
                counter.count(method.__name__)
            checked = _parse_request(request_type, request, upgrade)
            subject = f"{method.__name__} of {getattr(checked, 'id', None) or 'the root namespace'}"
            with background.awaited_at_exit(), translate_errors(subject):
                return method(self, checked, *rest, **named)

        return called  # type: ignore[return-value]  # same signature, wider request

    return decorate


def accept_single_column(fields: dict[str, Any]) -> dict[str, Any]:
    """Accept `on` of a merge as a single path, as in the OpenAPI file. The SDK has a list."""
    on = fields.get("on")
    return {**fields, "on": [on]} if isinstance(on, str) else fields


def _parse_request(
    kind: type[Request], request: object, upgrade: Callable[[dict[str, Any]], dict[str, Any]]
) -> Request:
    if isinstance(request, kind):
        return request
    if isinstance(request, BaseModel):
        request = request.model_dump()
    try:
        return kind.model_validate(upgrade(request) if isinstance(request, dict) else request)
    except ValidationError as error:
        raise InvalidInputError(f"Bad {kind.__name__}: {error}") from error
