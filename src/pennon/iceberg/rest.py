"""One Iceberg REST catalog: its configuration, its routes, and what its errors become."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from pennon import json_answers as answers
from pennon.errors import (
    ConcurrentModificationError,
    InternalError,
    InvalidInputError,
    InvalidTableStateError,
    LanceNamespaceError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    PermissionDeniedError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TableNotFoundError,
    UnauthenticatedError,
    UnsupportedOperationError,
    from_error_code,
)
from pennon.http_transport import Answer, BadAnswerError, Transport, UnknownOutcomeError
from pennon.iceberg.auth import create_authenticator
from pennon.identifiers import Identifier, format_identifier
from pennon.property_values import parse_uri, require_no_downgrade

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pennon.iceberg.auth import Authenticator
    from pennon.iceberg.settings import IcebergSettings

_SEPARATOR = "\x1f"
_MOST_PAGES = 100_000
_REFUSED = {401, 419}
_LOST = {500, 502, 503, 504}
_THROTTLED_CODE = 21
_ERRORS: dict[int, type[LanceNamespaceError]] = {
    400: InvalidInputError,
    401: UnauthenticatedError,
    403: PermissionDeniedError,
    405: UnsupportedOperationError,
    406: UnsupportedOperationError,
    409: ConcurrentModificationError,
    419: UnauthenticatedError,
    422: InvalidInputError,
    500: InternalError,
    501: UnsupportedOperationError,
    502: ServiceUnavailableError,
    503: ServiceUnavailableError,
    504: ServiceUnavailableError,
}
_BY_TYPE: dict[str, type[LanceNamespaceError]] = {
    "NoSuchNamespaceException": NamespaceNotFoundError,
    "NoSuchTableException": TableNotFoundError,
    "NamespaceNotEmptyException": NamespaceNotEmptyError,
    "CommitFailedException": ConcurrentModificationError,
    "InvalidTableStateException": InvalidTableStateError,
    "UnsupportedOperationException": UnsupportedOperationError,
}


@dataclass(frozen=True)
class Route:
    """One operation of the protocol."""

    method: str
    template: str
    missing: type[LanceNamespaceError] = NamespaceNotFoundError
    """What 404 means if the server does not say."""
    taken: type[LanceNamespaceError] = ConcurrentModificationError
    """What 409 means if the server does not say."""

    @property
    def repeatable(self) -> bool:
        """Return True if a repeated request changes nothing else."""
        return self.method in {"GET", "HEAD"}

    @property
    def endpoint(self) -> str:
        """Return the route as servers name it in `endpoints`."""
        return f"{self.method} /v1/{{prefix}}/{self.template}"


_NAMESPACE = "namespaces/{namespace}"
_TABLES = "namespaces/{namespace}/tables"
_TABLE = "namespaces/{namespace}/tables/{table}"
LIST_NAMESPACES = Route("GET", "namespaces")
CREATE_NAMESPACE = Route("POST", "namespaces", taken=NamespaceAlreadyExistsError)
LOAD_NAMESPACE = Route("GET", _NAMESPACE)
DROP_NAMESPACE = Route("DELETE", _NAMESPACE, taken=NamespaceNotEmptyError)
UPDATE_NAMESPACE = Route("POST", _NAMESPACE + "/properties")
LIST_TABLES = Route("GET", _TABLES)
CREATE_TABLE = Route("POST", _TABLES, taken=TableAlreadyExistsError)
LOAD_TABLE = Route("GET", _TABLE, missing=TableNotFoundError)
UPDATE_TABLE = Route("POST", _TABLE, missing=TableNotFoundError)
DROP_TABLE = Route("DELETE", _TABLE, missing=TableNotFoundError)
RENAME_TABLE = Route("POST", "tables/rename", missing=TableNotFoundError, taken=TableAlreadyExistsError)
COMMIT_TRANSACTION = Route("POST", "transactions/commit", missing=TableNotFoundError)


class RestCatalog:
    """A connection to a server; the first request asks for its configuration."""

    def __init__(self, settings: IcebergSettings) -> None:
        self.settings = settings
        self._transport = Transport(settings)
        self._lock = Lock()
        self._config: _Config | None = None

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()

    @property
    def defaults(self) -> dict[str, str]:
        """Return the server's configuration: its defaults, with its overrides on top."""
        return self._configured().properties

    @property
    def lists_endpoints(self) -> bool:
        """Return True if the server says which endpoints it has."""
        return self._configured().endpoints is not None

    def offers(self, route: Route) -> bool:
        """Return True if the server lists a route, or lists no routes at all."""
        endpoints = self._configured().endpoints
        return endpoints is None or route.endpoint in endpoints

    def call(
        self,
        route: Route,
        subject: Identifier,
        body: Mapping[str, Any] | None = None,
        *,
        table: str | None = None,
        query: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Make one request; an empty answer is an empty object. `subject` is named in errors.

        With `table`, the subject's parent is the namespace of the path, else the subject itself.
        """
        config = self._configured()
        what = f"{route.method} {route.template} of {format_identifier(subject)}"
        if not self.offers(route):
            raise UnsupportedOperationError(f"{what}: the server says that it has no such endpoint")
        namespace = subject[:-1] if table is not None else subject
        path = route.template.replace("{namespace}", quote(_SEPARATOR.join(namespace), safe=""))
        path = path.replace("{table}", quote(table or "", safe=""))
        url = f"{config.base}/{path}" + (f"?{urlencode(query)}" if query else "")
        data = None if body is None else json.dumps(body).encode()
        answer = self._authenticated(config.auth, route, url, data)
        if not 200 <= answer.status < 300:
            raise self._error(config.auth, route, what, answer)
        return answers.decode(answer.body, what) if answer.body.strip() else {}

    def pages(
        self, route: Route, subject: Identifier, key: str, query: Mapping[str, str] | None = None
    ) -> Iterator[Any]:
        """Return the entries of all pages of a listing. Raises BadAnswerError if the pages repeat."""
        token, seen = "", set[str]()
        # An empty token asks for pages; without a size of ours the server may answer all at once.
        while True:
            asked = {**(query or {}), "pageToken": token}
            if self.settings.page_size is not None:
                asked["pageSize"] = str(self.settings.page_size)
            elif not token:
                del asked["pageToken"]
            answer = self.call(route, subject, query=asked)
            what = f"{route.method} {route.template} of {format_identifier(subject)}"
            yield from answers.items(answer, key, what)
            token = answers.optional_text(answer, "next-page-token", what) or ""
            if not token:
                return
            if token in seen or len(seen) >= _MOST_PAGES:
                raise BadAnswerError(f"{what}: the server's pages do not end")
            seen.add(token)

    def _authenticated(self, auth: Authenticator, route: Route, url: str, body: bytes | None) -> Answer:
        """Send a request with proof of who we are; once more with new proof if that is refused."""
        for attempt in range(2):
            headers = self._headers(with_body=body is not None)
            proof = auth.headers(route.method, url, headers, body)
            # What the user sets goes first, but for a proof of ours.
            answer = self._transport.send(route.method, url, headers | proof, body, repeatable=route.repeatable)
            if answer.status not in _REFUSED or attempt or not auth.renew(proof):
                break
        return answer

    def _headers(self, *, with_body: bool) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": "pennon"}
        if self.settings.vends_credentials:
            headers["X-Iceberg-Access-Delegation"] = "vended-credentials"
        if with_body:
            headers["Content-Type"] = "application/json"
        return {**headers, **self.settings.headers}

    def _error(self, auth: Authenticator, route: Route, what: str, answer: Answer) -> LanceNamespaceError:
        kind, message = answers.parse_error(answer.body)
        text = self.settings.redacted(f"{what}: the server answers {answer.status} {kind}: {message}".rstrip(": "))
        fetched = auth.secret()
        text = text.replace(fetched, "***") if fetched else text
        if answer.status == 429:
            return from_error_code(_THROTTLED_CODE, text)
        if answer.status in _LOST and not route.repeatable:
            return UnknownOutcomeError(text)
        if kind in _BY_TYPE and answer.status in {400, 404, 406, 409}:
            return _BY_TYPE[kind](text)
        if answer.status == 404:
            return route.missing(text)
        if answer.status == 409:
            return route.taken(text)
        return _ERRORS.get(answer.status, InternalError)(text)

    def _post_form(self, url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        # A token more does no harm.
        answer = self._transport.send("POST", url, headers, body, repeatable=True)
        return answer.status, answer.body

    def _configured(self) -> _Config:
        with self._lock:
            if self._config is None:
                self._config = self._load_config()
            return self._config

    def _load_config(self) -> _Config:
        settings = self.settings
        auth = create_authenticator(settings, settings.uri, self._post_form)
        query = f"?{urlencode({'warehouse': settings.warehouse})}" if settings.warehouse else ""
        route = Route("GET", "config")
        answer = self._authenticated(auth, route, f"{settings.uri}/v1/config{query}", None)
        what = f"The configuration of {settings.uri}"
        if answer.status != 200:
            raise self._error(auth, route, what, answer)
        config = answers.decode(answer.body, what)
        defaults, overrides = answers.texts(config, "defaults", what), answers.texts(config, "overrides", what)
        prefix = overrides.get("prefix") or settings.prefix or defaults.get("prefix")
        server = settings.uri
        if "uri" in overrides:
            server = parse_uri(overrides["uri"], "The address that the server's configuration names")
            require_no_downgrade(settings.uri, server, "The address that the server's configuration names")
        endpoints = None
        if config.get("endpoints") is not None:
            endpoints = frozenset(str(one) for one in answers.items(config, "endpoints", what))
        base = f"{server}/v1" + (f"/{quote(prefix, safe='/:%')}" if prefix else "")
        return _Config(base, auth, {**defaults, **overrides}, endpoints)


@dataclass(frozen=True)
class _Config:
    base: str
    auth: Authenticator
    properties: dict[str, str] = field(repr=False)
    endpoints: frozenset[str] | None
