"""Requests before they reach a route: who asks, which path is meant, what the body is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote_to_bytes

import anyio
from anyio.lowlevel import RunVar
from pydantic import BaseModel, ValidationError
from starlette.datastructures import Headers
from starlette.requests import Request  # noqa: TC002 - FastAPI reads the annotation

from pennon.errors import InvalidInputError, ServiceUnavailableError, UnauthenticatedError
from pennon.server.access import bearer_token, unauthenticated
from pennon.server.iceberg.errors import ProtocolError
from pennon.server.permissions.rights import SCOPE_KEY
from pennon.server.permissions.users import TOKEN_USER
from pennon.server.refusals import refuse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

    from pennon.server.access import Access

SLASH = "\0"
"""Replaces a slash inside a name in the paths that routes get. No name can contain it."""
LANCE_PATHS = b"/v1/"
SMALL_BODY = 64 << 10
"""Parsing a body of this size takes little longer than the way to another thread and back."""
MOST_VALUES = 250_000
"""Python's parser takes up to a microsecond per value, in which no other thread runs."""
BODY_SECONDS = 30.0
Model = TypeVar("Model", bound=BaseModel)
_MOST_FAULTS = 20
_LONGEST_TEXT = 1000
_bodies: RunVar[anyio.CapacityLimiter] = RunVar("pennon_bodies")
_authenticating: RunVar[anyio.CapacityLimiter] = RunVar("pennon_authenticating")
_MOST_AUTHENTICATING = 16


class Gate:
    """Lets in who may ask, and splits the path before it is decoded, so that `%2F` is part of a name."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "http":
            refused = await identify(self._access, scope)
            if refused is not None:
                challenge = {"WWW-Authenticate": "Bearer"} if refused[0] == 401 else None  # noqa: PLR2004 - needs proof
                await refuse(scope["path"], *refused, headers=challenge)(scope, receive, send)
                return
            try:
                # In place, so that those who observe the request see what it is found to be.
                scope["path"] = decoded(scope["raw_path"])
            except InvalidInputError as error:
                await refuse(scope["path"], 400, "BadRequestException", str(error))(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def identify(access: Access, scope: Scope) -> tuple[int, str, str] | None:
    """Find out who asks, and note it in the scope. Return the refusal if nobody does who may."""
    headers, users = Headers(scope=scope), access.users
    refused = access.refusal(headers, scope["scheme"])
    if refused is not None or users is None:
        if access.token is not None:
            scope[SCOPE_KEY] = TOKEN_USER
        return refused
    try:
        # A provider's keys may have to be fetched. Requests of other users do not wait for that.
        scope[SCOPE_KEY] = await anyio.to_thread.run_sync(
            users.authenticate, bearer_token(headers), limiter=_limiter_of(_authenticating, _MOST_AUTHENTICATING)
        )
    except UnauthenticatedError as error:
        return unauthenticated(str(error))
    except ServiceUnavailableError as error:
        return 503, "ServiceUnavailableException", str(error)
    return None


def decoded(raw: bytes) -> str:
    """Decode a path, part by part; 13 if it is no text.

    In the Lance protocol, a plus is a space: its Rust and Java clients encode paths like forms. All encode a plus.
    """
    if raw.startswith(LANCE_PATHS):
        raw = raw.replace(b"+", b"%20")
    parts = raw.partition(b"?")[0].split(b"/")
    try:
        return "/".join(unquote_to_bytes(part).decode().replace("/", SLASH) for part in parts)
    except UnicodeDecodeError as error:
        raise InvalidInputError("The path of the request is not UTF-8") from error


def body_of(model: type[Model]) -> Callable[[Request], Awaitable[Model]]:
    """Return a dependency that reads a JSON body as a model, within limits of size and time.

    It raises an HTTP error with the status 400, 408, 413 or 415 otherwise.
    """

    async def read(request: Request) -> Model:
        content = await read_body(request)
        # Not on the event loop, and one at a time: between two bodies, other requests have their turn.
        return await anyio.to_thread.run_sync(parsed, content, model, limiter=_limiter_of(_bodies, 1))

    return read


async def read_object(request: Request) -> dict[str, Any] | bytes:
    """Return the JSON object in a body; a small body is returned as it is, for `parse_small_object`.

    Raises the errors of `read_body`.
    """
    content = await read_body(request, may_be_empty=True)
    if len(content) <= SMALL_BODY:
        return content
    return await anyio.to_thread.run_sync(parse_object, content, limiter=_limiter_of(_bodies, 1))


def parse_small_object(content: bytes) -> dict[str, Any]:
    """Return the JSON object in a body, or an empty one if there is no body. Raises the errors of `parse_object`."""
    # Lance's own client sends null where a listing has only query parameters.
    return {} if content in {b"", b"null"} else parse_object(content)


async def read_body(request: Request, *, may_be_empty: bool = False) -> bytes:
    """Return a JSON body, within limits of size and time. Raises ProtocolError with the status 408, 413 or 415."""
    content = bytearray()
    most: int = request.app.state.limits.json_bytes
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > most:
        raise _too_large(most)
    try:
        with anyio.fail_after(BODY_SECONDS):
            async for chunk in request.stream():
                content += chunk
                if len(content) > most:
                    raise _too_large(most)
    except TimeoutError as error:
        raise ProtocolError(408, "BadRequestException", "The body did not come in time") from error
    if content or not may_be_empty:
        _require_json(request)
    return bytes(content)


def _require_json(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        # Browsers send other types, and none, to foreign servers without asking.
        raise ProtocolError(415, "BadRequestException", f"The body must be application/json, not {kind!r}")


def parsed(content: bytes, model: type[Model]) -> Model:
    """Return a model of a JSON object. Raises the errors of `parse_object`, also if it does not fit the model."""
    return validate(parse_object(content), model, "The body")


def parse_object(content: bytes) -> dict[str, Any]:
    """Return a JSON object. Raises InvalidInputError if a text is not Unicode or a number is not finite."""
    if sum(map(content.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise InvalidInputError(f"The body holds more than {MOST_VALUES:,} values")
    try:
        body = json.loads(content, parse_constant=_no_number)
        json.dumps(body, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"The body is no valid JSON: {type(error).__name__}") from error
    if not isinstance(body, dict):
        raise InvalidInputError(f"The body must be a JSON object, got {type(body).__name__}")
    return body


def validate(body: Mapping[str, Any], model: type[Model], subject: str) -> Model:
    """Return a model of an object. Raises InvalidInputError if it does not fit."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        if error.error_count() > _MOST_FAULTS:
            raise InvalidInputError(f"{subject} has {error.error_count():,} fields that are not valid") from error
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise InvalidInputError(f"{subject} is not valid: {describe_faults(found)}") from error


def describe_faults(found: Iterable[Mapping[str, Any]]) -> str:
    """Return the errors of pydantic as one text, without the values that a client sent."""
    text = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


def _limiter_of(place: RunVar[anyio.CapacityLimiter], most: int) -> anyio.CapacityLimiter:
    """Return the limiter of this event loop for one kind of work."""
    try:
        return place.get()
    except LookupError:
        place.set(made := anyio.CapacityLimiter(most))
        return made


def _too_large(most: int) -> ProtocolError:
    return ProtocolError(413, "BadRequestException", f"The body is larger than {most:,} bytes")


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is no JSON")
