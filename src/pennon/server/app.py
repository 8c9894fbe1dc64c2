"""The application: who may ask, the routes, and what errors become."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from pennon.errors import LanceNamespaceError
from pennon.server.iceberg import errors, routes
from pennon.server.iceberg.errors import ProtocolError
from pennon.server.requests import Gate, describe_faults

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from pennon.directory.catalog import Catalog
    from pennon.server.access import Access

ICEBERG = "/iceberg"
_log = logging.getLogger(__name__)
_INTERNAL = 500


def build(catalog: Catalog, access: Access) -> FastAPI:
    """Make the application over a catalog, which the caller closes when nobody serves it any more."""
    app = FastAPI(title="Pennon", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.include_router(routes.router(catalog), prefix=ICEBERG)
    for kind in (LanceNamespaceError, ProtocolError):
        app.add_exception_handler(kind, _failed)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _no_route)
    app.add_exception_handler(ClientDisconnect, _hung_up)
    app.add_exception_handler(Exception, _broken)
    app.add_middleware(Gate, access=access)
    return app


def _failed(request: Request, error: Exception) -> Response:
    status, kind = errors.of(error)
    if status >= _INTERNAL:
        _log.error("%s %s: %s", request.method, request.url.path, error, exc_info=error)
    return errors.answer(status, kind, errors.message(error))


def _invalid(_: Request, error: Exception) -> Response:
    found = error.errors() if isinstance(error, RequestValidationError) else []
    return errors.answer(400, "BadRequestException", describe_faults(found) or "The request is not valid")


def _no_route(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else _INTERNAL
    message = f"There is nothing that answers {request.method} {request.url.path}"
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    return errors.answer(status, "NoSuchEndpointException", message, headers)


def _hung_up(_: Request, __: Exception) -> Response:
    return errors.answer(400, "BadRequestException", "The client hung up before its request was complete")


def _broken(_: Request, error: Exception) -> Response:
    # The server logs the error itself; what it says is not for everybody.
    return errors.answer(500, "InternalServerErrorException", f"Something is broken: {type(error).__name__}")
