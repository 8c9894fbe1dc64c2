"""One server: requests of operations by their routes, and what it answers."""

from __future__ import annotations

import json
import re
import time
import uuid
from dataclasses import dataclass
from email.utils import mktime_tz, parsedate_tz
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

from pydantic import BaseModel, ValidationError

from pennon.client_credentials import ClientCredentials
from pennon.errors import (
    InternalError,
    InvalidInputError,
    LanceNamespaceError,
    ServiceUnavailableError,
    UnsupportedOperationError,
)
from pennon.http_transport import Answer, BadAnswerError, Transport, can_repeat
from pennon.identifiers import format_identifier
from pennon.rest import failures
from pennon.rest.rows import STREAM

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pennon.http_transport import StreamedBody
    from pennon.rest.routes import Route
    from pennon.rest.settings import RestSettings

Answered = TypeVar("Answered", bound=BaseModel)

JSON = "application/json"
_HEADER = "header."
_CONTEXT_HEADER = "x-pennon-context-"
_IDEMPOTENCY_KEY = "Idempotency-Key"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_IN_BODY = {"identity"}
_OURS = {"content-length", "content-type", "host", "transfer-encoding", "idempotency-key", "connection"}
"""Headers that a context cannot set."""
_BUSY = frozenset({429, 503})
_REFUSED = 401
_LONGEST_VERSION = 40


@dataclass(frozen=True)
class ServerDescription:
    """What a server says of itself."""

    version: str | None
    """The version of Pennon, or None if it is another server."""
    recognizes_repetitions: bool
    """Whether it recognizes requests that are sent again."""
    seconds: float
    """How long the answer took."""
    clock_ahead_seconds: float | None
    """How far its clock is ahead of this machine's, or None if it shows none."""


@dataclass(frozen=True)
class _Process:
    """A process of a server."""

    instance: str
    """Its name; empty if it does not recognize repeated requests by their key."""
    knows_creations: bool = False
    """Whether it recognizes creations that another process had."""


_NO_KEYS = _Process("")


class RestServer:
    """A connection to a server."""

    def __init__(self, settings: RestSettings) -> None:
        self.settings = settings
        self._transport = Transport(settings)
        self._client: ClientCredentials | None = None
        if settings.credential is not None:
            self._client = ClientCredentials(settings, settings.oauth2_server_uri or "", self._post_form)
        self._lock = Lock()
        self._process: _Process | None = None
        self._is_closed = False

    def close(self) -> None:
        """Close all connections. No request can be sent afterwards."""
        self._is_closed = True
        self._transport.close()

    def call(self, route: Route[Answered], request: BaseModel, rows: bytes | StreamedBody | None = None) -> Answered:
        """Do an operation and return its response. `rows` are the body of a route that takes rows."""
        what = describe_call(route.operation, getattr(request, "id", None))
        answer = self.send(route, request, rows, accepts=JSON)
        return parse_answer(route, answer, what)

    def send(
        self,
        route: Route[Any],
        request: BaseModel,
        rows: bytes | StreamedBody | None = None,
        *,
        accepts: str,
        streams: bool = False,
    ) -> Answer:
        """Request an operation and return the successful answer as it came."""
        fields = request.model_dump(by_alias=True, exclude_none=True, exclude=_NOT_IN_BODY)
        identifier = fields.get("id") or []
        context = fields.pop("context", None) or {}
        headers = {"Accept": accepts} | _headers_of_identity(request) | _headers_of_context(context)
        entries = {key: value for key, value in context.items() if not key.startswith(_HEADER)}
        body: bytes | StreamedBody | None = None
        if route.body == "request":
            content = fields if route.body_field is None else fields.get(route.body_field) or {}
            if entries and route.body_field is None:
                content, entries = {**content, "context": entries}, {}
            body = encode_json(content, describe_call(route.operation, identifier))
            headers["Content-Type"] = JSON
        elif route.body == "rows":
            body = rows
            headers["Content-Type"] = STREAM
        headers |= {f"{_CONTEXT_HEADER}{_header_name(key)}": _header_value(key, text) for key, text in entries.items()}
        path = self._path(route.path, fields, identifier)
        query = {name: _parameter(fields[name]) for name in route.query if name in fields}
        return self.exchange(
            route.method,
            path,
            query,
            headers,
            body,
            what=describe_call(route.operation, identifier),
            subject=format_identifier(tuple(identifier)),
            changes=route.changes,
            creates=route.creates,
            streams=streams,
        )

    def exchange(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | list[str]],
        headers: Mapping[str, str],
        body: bytes | StreamedBody | None,
        *,
        what: str,
        subject: str,
        changes: bool,
        creates: bool = False,
        streams: bool = False,
    ) -> Answer:
        """Send a request below `/v1` and return the answer. Raises the error that the server answers."""
        if self._is_closed:
            raise InvalidInputError(f"The client of {self.settings.uri} is closed")
        parameters = urlencode({"delimiter": self.settings.delimiter, **query}, doseq=True)
        url = f"{self.settings.uri}/v1/{path}?{parameters}"
        sent = dict(headers)
        before = _NO_KEYS
        if changes:
            sent[_IDEMPOTENCY_KEY] = uuid.uuid4().hex
            before = self._known_process()
        for attempt in range(2):
            proof = self._proof()
            answer = self._transport.send(
                method,
                url,
                {"User-Agent": "pennon", **proof, **self.settings.headers, **sent},
                body,
                repeatable=(lambda: self._recognizes(before, creates=creates)) if changes else True,
                refusals=_BUSY,
                streams=streams,
            )
            if answer.status != _REFUSED or attempt or not self._renew(proof, body):
                break
        if not answer.is_success:
            secret = None if self._client is None else self._client.secret()
            raise failures.parse_error(
                answer, what=what, subject=subject, settings=self.settings, changes=changes, secret=secret
            )
        return answer

    def describe(self) -> ServerDescription:
        """Return what the server says of itself, by one request."""
        what = f"what the server {self.settings.uri} is"
        started, before = time.monotonic(), time.time()
        try:
            answer = self.exchange("GET", "pennon", {}, {"Accept": JSON}, None, what=what, subject=what, changes=False)
        except (UnsupportedOperationError, InvalidInputError, InternalError):
            # Other servers do not have this route.
            return ServerDescription(
                None, recognizes_repetitions=False, seconds=time.monotonic() - started, clock_ahead_seconds=None
            )
        seconds, after = time.monotonic() - started, time.time()
        try:
            content = json.loads(answer.body)
        except (ValueError, RecursionError):
            content = None
        fields = content if isinstance(content, dict) else {}
        version = fields.get("version")
        headers = {name.lower(): value for name, value in answer.headers.items()}
        dated = parsedate_tz(headers.get("date") or "")
        shown = None if dated is None else float(mktime_tz(dated))
        ahead = None if shown is None else shown - after if shown > after else min(shown + 1 - before, 0.0)
        return ServerDescription(
            version[:_LONGEST_VERSION] if isinstance(version, str) else None,
            fields.get("idempotency_keys") is True,
            seconds,
            ahead,
        )

    def _proof(self) -> dict[str, str]:
        """Return the header that says who we are."""
        if self._client is not None:
            return self._client.headers()
        return {} if self.settings.token is None else {"Authorization": f"Bearer {self.settings.token}"}

    def _renew(self, refused: dict[str, str], body: bytes | StreamedBody | None) -> bool:
        """Get a new token after the server refused one; False if there is none, or the body cannot be sent again."""
        return self._client is not None and can_repeat(body) and self._client.renew(refused)

    def _post_form(self, url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        # A token more does no harm.
        answer = self._transport.send("POST", url, headers, body, repeatable=True)
        return answer.status, answer.body

    def _known_process(self) -> _Process:
        """Return the process that recognizes repeated requests by their key.

        It is asked for before the first change: after a lost answer it may be another one.
        """
        with self._lock:
            if self._process is None:
                self._process = self._ask_for_process()
            return self._process

    def _recognizes(self, before: _Process, *, creates: bool) -> bool:
        """Return True if the server recognizes a request that the process `before` had."""
        if not before.instance:
            return False
        try:
            now = self._ask_for_process()
        except LanceNamespaceError:
            return False
        with self._lock:
            self._process = now
        return now.instance == before.instance or (creates and before.knows_creations and now.knows_creations)

    def _ask_for_process(self) -> _Process:
        what = f"what the server {self.settings.uri} can do"
        try:
            answer = self.exchange("GET", "pennon", {}, {"Accept": JSON}, None, what=what, subject=what, changes=False)
            content = json.loads(answer.body)
        except ServiceUnavailableError:
            raise
        except (LanceNamespaceError, ValueError, RecursionError):
            return _NO_KEYS
        if not isinstance(content, dict) or content.get("idempotency_keys") is not True:
            return _NO_KEYS
        return _Process(str(content.get("instance") or ""), knows_creations=content.get("creation_keys") is True)

    def _path(self, template: str, fields: Mapping[str, Any], identifier: Sequence[str]) -> str:
        path = template
        if "{id}" in template:
            path = path.replace("{id}", self.join(identifier))
        if "{index_name}" in template:
            path = path.replace("{index_name}", _quote(str(fields.get("index_name") or ""), "index name"))
        return path

    def join(self, identifier: Sequence[str]) -> str:
        """Return an identifier as it is written in a path. Raises InvalidInputError if that is impossible."""
        delimiter = self.settings.delimiter
        for name in identifier:
            if not name or delimiter in name:
                raise InvalidInputError(
                    f"Bad name {name!r} in identifier {list(identifier)!r}: it is empty or holds the delimiter "
                    f"{delimiter!r}"
                )
        return _quote(delimiter.join(identifier) or delimiter, "identifier")


def encode_json(content: Mapping[str, Any], what: str) -> bytes:
    """Return the body of a request. Raises InvalidInputError if it has a text that is not valid."""
    try:
        return json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"{what}: the request has a text that is not valid: {error}") from error


def describe_call(operation: str, identifier: Sequence[str] | None) -> str:
    """Return an operation and its object, for messages."""
    return f"{operation} of {format_identifier(tuple(identifier or ()))}"


def parse_answer(route: Route[Answered], answer: Answer, what: str) -> Answered:
    """Return the response in an answer. Raises BadAnswerError if it is not what the protocol says."""
    context = {f"{_HEADER}{name.lower()}": value for name, value in answer.headers.items()}
    try:
        content = json.loads(answer.body) if answer.body.strip() else {}
    except (ValueError, RecursionError) as error:
        raise BadAnswerError(f"{what}: the server's answer is not JSON ({len(answer.body)} bytes)") from error
    if route.answer_field is not None:
        content = {route.answer_field: content}
    if not isinstance(content, dict):
        raise BadAnswerError(f"{what}: the server should answer an object, got {type(content).__name__}")
    if "context" in route.answer.model_fields:
        own = content.get("context")
        content["context"] = {**(own if isinstance(own, dict) else {}), **context}
    try:
        return route.answer.model_validate(content)
    except (ValidationError, RecursionError) as error:
        fields = (
            ", ".join(".".join(map(str, one["loc"])) for one in error.errors()[:5])
            if isinstance(error, ValidationError)
            else "too deep"
        )
        raise BadAnswerError(f"{what}: the server's answer is not a valid {route.answer.__name__}: {fields}") from error


def _headers_of_identity(request: BaseModel) -> dict[str, str]:
    identity = getattr(request, "identity", None)
    if identity is None:
        return {}
    headers = {}
    if identity.api_key:
        headers["x-api-key"] = _header_value("identity", identity.api_key)
    if identity.auth_token:
        headers["Authorization"] = _header_value("identity", f"Bearer {identity.auth_token}")
    return headers


def _headers_of_context(context: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for key, value in context.items():
        if key.startswith(_HEADER):
            name = _header_name(key[len(_HEADER) :])
            if name.lower() in _OURS:
                raise InvalidInputError(f"The context cannot set the header {name!r}")
            found[name] = _header_value(key, value)
    return found


def _header_name(name: str) -> str:
    if _TOKEN.fullmatch(name) is None:
        raise InvalidInputError(f"The context entry {name!r} cannot be sent: it is no name of a header")
    return name


def _header_value(key: str, value: str) -> str:
    if not value.isascii() or not value.isprintable():
        raise InvalidInputError(f"The value of the context entry {key!r} cannot be sent in a header")
    return value


def _quote(text: str, what: str) -> str:
    # These would be removed from the path on the way.
    if text in {"", ".", ".."}:
        raise InvalidInputError(f"Bad {what} {text!r}: it cannot be part of a path")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"Bad {what} {text!r}: it is not valid text") from error


def _parameter(value: object) -> str | list[str]:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return [str(one) for one in value]
    return json.dumps(value) if isinstance(value, dict) else str(value)
