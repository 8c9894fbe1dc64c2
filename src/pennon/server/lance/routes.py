"""The routes of the protocol, made from the table of operations."""

from __future__ import annotations

import logging
from functools import cache, partial
from typing import IO, TYPE_CHECKING, Any

import anyio
import pyarrow as pa
from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from pennon.errors import ServiceUnavailableError
from pennon.identifiers import format_identifier
from pennon.server.iceberg.errors import ProtocolError
from pennon.server.lance import errors, idempotency, listings, streams
from pennon.server.lance.extensions import EXTENSIONS
from pennon.server.lance.idempotency import KeptAnswers
from pennon.server.lance.operations import OPERATIONS
from pennon.server.lance.own_creations import CREATIONS, create_once
from pennon.server.lance.request_parsing import RequestParser, limit_page, parse_delimiter
from pennon.server.permissions.authorization import authorize
from pennon.server.permissions.rights import principal_of
from pennon.server.requests import parse_small_object, read_object

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pydantic import BaseModel
    from starlette.requests import Request

    from pennon.catalog_namespace import CatalogNamespace
    from pennon.server.lance.operations import Operation
    from pennon.server.permissions.rights import Guard
    from pennon.server.vending.vendor import Vending

    Body = dict[str, Any] | bytes | IO[bytes]

_JSON = "application/json"
_FREQUENT = frozenset(
    {"TableExists", "DescribeTable", "QueryTable", "InsertIntoTable", "ListTables", "ListTableVersions"}
)
"""Operations whose routes come first, because the router compares a path with one route after the other."""
_log = logging.getLogger(__name__)

_BRIEF = frozenset(
    {"DescribeNamespace", "DescribeTable", "ListNamespaces", "ListTables", "NamespaceExists", "TableExists"}
)
"""Operations that a catalog on a local disk answers from memory. More threads than a few would only wait for each
other, and some of them for long (docs/adr/0029)."""
_BRIEF_THREADS = 4


def router(
    namespace: CatalogNamespace[Any], guard: Guard, vending: Vending | None = None, *, is_local: bool = False
) -> APIRouter:
    """Make the routes over a namespace, which may be on a local disk. Each operation runs in a thread."""
    made = APIRouter()
    answers = KeptAnswers()
    brief = anyio.CapacityLimiter(_BRIEF_THREADS) if is_local else None
    for operation in sorted((*OPERATIONS, *EXTENSIONS), key=lambda one: one.id not in _FREQUENT):
        handler = _Handler(operation, namespace, guard, answers, vending)
        endpoint = _make_endpoint(operation, handler, brief if operation.id in _BRIEF else None)
        made.add_route(operation.path, endpoint, methods=[operation.method])
    return made


def _make_endpoint(
    operation: Operation, handler: _Handler, limiter: anyio.CapacityLimiter | None
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            if operation.takes_rows:
                # The rights do not depend on the rows, so nobody sends rows in vain.
                parsed = handler.admit(request, {})
                async with streams.receive_rows(request) as rows:
                    return await anyio.to_thread.run_sync(handler.answer, request, parsed, rows, limiter=limiter)
            body = await read_object(request)
            return await anyio.to_thread.run_sync(handler.admit_and_answer, request, body, limiter=limiter)
        except ProtocolError as error:
            return errors.respond(errors.BAD_REQUEST, str(error), instance=request.url.path)
        except ClientDisconnect:
            raise
        except Exception as error:  # noqa: BLE001 - every other error becomes the error body
            return errors.respond_to_error(error, instance=request.url.path, known=operation.errors)

    # Metrics and logs name an operation by its function.
    answer.__name__ = operation.id
    return answer


def _find_call(operation: Operation, namespace: CatalogNamespace[Any]) -> Callable[..., Any]:
    if operation.perform is not None:
        return partial(operation.perform, namespace)
    call: Callable[..., Any] = getattr(namespace, "query_batches" if operation.id == "QueryTable" else operation.call)
    return call


def _call_with_rows(call: Callable[..., Any], rows: Body, request: BaseModel) -> Any:  # noqa: ANN401 - of any operation
    return call(request, rows)


@cache
def _serializer(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - any type
    return TypeAdapter(kind)


class _Handler:
    """Handles the requests of one operation."""

    def __init__(
        self,
        operation: Operation,
        namespace: CatalogNamespace[Any],
        guard: Guard,
        answers: KeptAnswers,
        vending: Vending | None,
    ) -> None:
        self._operation = operation
        self._parser = RequestParser(operation)
        self._namespace = namespace
        self._call = _find_call(operation, namespace)
        self._guard = guard
        self._answers = answers
        self._vending = vending

    def admit(self, http: Request, fields: dict[str, Any]) -> BaseModel:
        """Return the request of the namespace. Raises the guard's error if the principal has not all rights for it."""
        operation = self._operation
        request = self._parser.parse(http.path_params, http.query_params, http.headers, fields)
        request = limit_page(request, http.app.state.limits.page_size)
        authorize(http.scope, self._guard, operation.needs(request), operation=operation.id, changes=operation.changes)
        return request

    def admit_and_answer(self, http: Request, body: dict[str, Any] | bytes) -> Response:
        """Check the rights, and answer. Runs in a thread."""
        fields = parse_small_object(body) if isinstance(body, bytes) else body
        return self.answer(http, self.admit(http, fields), fields)

    def answer(self, http: Request, request: Any, body: Body) -> Response:  # noqa: ANN401 - of any operation
        """Do the operation unless it was done before, and return its answer. Runs in a thread."""
        operation = self._operation
        key = http.headers.get(idempotency.HEADER) if operation.changes else None
        if key is None:
            return self._answer(http, request, body)
        owner = principal_of(http.scope).name
        fingerprint = idempotency.fingerprint([operation.id, http.url.path, http.url.query], body)
        digest = idempotency.digest_request(owner, key, fingerprint)
        return self._answers.answer_once(
            owner, key, fingerprint, lambda: self._answer(http, request, body, digest=digest)
        )

    def _answer(
        self,
        http: Request,
        request: Any,  # noqa: ANN401 - of any operation
        body: Body,
        *,
        digest: str | None = None,
    ) -> Response:
        operation = self._operation
        if operation.lists is not None:
            page = listings.list_visible(
                self._call,
                request,
                guard=self._guard,
                principal=principal_of(http.scope),
                lists=operation.lists,
                delimiter=None if "id" in http.path_params else parse_delimiter(http.query_params),
            )
            return self._respond(page)
        call = partial(_call_with_rows, self._call, body) if operation.takes_rows else self._call
        if digest is not None and operation.id in CREATIONS:
            result = create_once(self._namespace, operation.id, request, digest, call)
        else:
            result = call(request)
        if isinstance(result, pa.RecordBatchReader):
            return streams.send_rows(result, http.headers.get("accept", ""))
        if hasattr(result, "storage_options"):
            # What the namespace returns are the server's own, which nobody else gets.
            options = self._vended_options(http, request, result)
            result = result.model_copy(update={"storage_options": options})
        return self._respond(result)

    def _vended_options(self, http: Request, request: Any, result: Any) -> dict[str, str] | None:  # noqa: ANN401 - of any operation
        """Return the storage options of a client for the table in an answer, or None."""
        wanted = "vend_credentials" in type(request).model_fields and request.vend_credentials is not False
        if self._vending is None or not wanted or not result.location:
            return None
        principal, identifier = principal_of(http.scope), tuple(request.id)
        try:
            return self._vending.options(self._guard, principal, identifier, result.location)
        except ServiceUnavailableError as error:
            if not self._operation.changes:
                raise
            # The table is there: its client asks for credentials when it describes the table.
            _log.warning("no credentials for table %s: %s", format_identifier(identifier), error)
            return None

    def _respond(self, result: object) -> Response:
        operation = self._operation
        if operation.is_empty:
            return Response(status_code=operation.status)
        chosen = result if operation.result_field is None else getattr(result, operation.result_field)
        kind: Any = type(chosen)
        content = _serializer(kind).dump_json(chosen, by_alias=True, exclude_none=True)
        return Response(content, operation.status, media_type=_JSON)
