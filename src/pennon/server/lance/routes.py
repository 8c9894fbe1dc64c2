"""The routes of the protocol, made from the table of operations."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import IO, TYPE_CHECKING, Any

import anyio
import pyarrow as pa
from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import Response

from pennon.server.iceberg.errors import ProtocolError
from pennon.server.lance import errors, listings, streams
from pennon.server.lance.operations import OPERATIONS
from pennon.server.lance.request_parsing import RequestParser, parse_delimiter
from pennon.server.permissions.rights import principal_of
from pennon.server.requests import read_object

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.requests import Request

    from pennon.catalog_namespace import CatalogNamespace
    from pennon.server.lance.operations import Operation
    from pennon.server.permissions.rights import Guard

    Body = dict[str, Any] | bytes | IO[bytes]

_JSON = "application/json"


def router(namespace: CatalogNamespace[Any], guard: Guard) -> APIRouter:
    """Make the routes over a namespace. Each operation runs in a thread."""
    made = APIRouter()
    for operation in OPERATIONS:
        made.add_route(operation.path, _make_endpoint(operation, namespace, guard), methods=[operation.method])
    return made


def _make_endpoint(
    operation: Operation, namespace: CatalogNamespace[Any], guard: Guard
) -> Callable[[Request], Awaitable[Response]]:
    handler = _Handler(operation, namespace, guard)

    async def answer(request: Request) -> Response:
        try:
            async with _receive_body(request, operation) as body:
                return await anyio.to_thread.run_sync(handler.handle, request, body)
        except ProtocolError as error:
            return errors.respond(errors.BAD_REQUEST, str(error), instance=request.url.path)
        except Exception as error:  # noqa: BLE001 - every error becomes the error body
            return errors.respond_to_error(error, instance=request.url.path, known=operation.errors)

    return answer


@asynccontextmanager
async def _receive_body(request: Request, operation: Operation) -> AsyncIterator[Body]:
    if operation.takes_rows:
        async with streams.receive_rows(request) as rows:
            yield rows
    else:
        yield await read_object(request)


class _Handler:
    """Handles the requests of one operation."""

    def __init__(self, operation: Operation, namespace: CatalogNamespace[Any], guard: Guard) -> None:
        self._operation = operation
        self._parser = RequestParser(operation)
        self._call = getattr(namespace, "query_batches" if operation.id == "QueryTable" else operation.call)
        self._guard = guard

    def handle(self, http: Request, body: Body) -> Response:
        """Check the rights, do the operation and return its answer. Runs in a thread."""
        operation, principal = self._operation, principal_of(http.scope)
        fields = body if isinstance(body, dict) else {}
        request = self._parser.parse(http.path_params, http.query_params, http.headers, fields)
        for need in operation.needs(request):
            self._guard.require(principal, need.right, need.identifier, kind=need.kind)
        if operation.lists is not None:
            delimiter = None if "id" in http.path_params else parse_delimiter(http.query_params)
            return self._respond(
                listings.list_visible(
                    self._call,
                    request,
                    guard=self._guard,
                    principal=principal,
                    lists=operation.lists,
                    delimiter=delimiter,
                )
            )
        result = self._call(request, body) if operation.takes_rows else self._call(request)
        if isinstance(result, pa.RecordBatchReader):
            return streams.send_rows(result, http.headers.get("accept", ""))
        return self._respond(result)

    def _respond(self, result: BaseModel | str) -> Response:
        operation = self._operation
        if operation.is_empty:
            return Response(status_code=operation.status)
        if isinstance(result, BaseModel) and operation.result_field is None:
            content = result.model_dump_json(by_alias=True, exclude_none=True)
        else:
            content = json.dumps(result if isinstance(result, str) else getattr(result, operation.result_field or ""))
        return Response(content, operation.status, media_type=_JSON)
