"""The application: who may ask, the routes, and what errors become."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from pennon.errors import LanceNamespaceError
from pennon.server.iceberg import errors, routes
from pennon.server.iceberg.errors import ProtocolError
from pennon.server.lance import routes as lance_routes
from pennon.server.operation.limits import Limits
from pennon.server.operation.metrics import Metrics, MetricsEndpoint
from pennon.server.operation.request_ids import current_request_id
from pennon.server.operation.turns import Turns
from pennon.server.pages import routes as page_routes
from pennon.server.pages.sessions import Sessions
from pennon.server.pages.sign_in import SignIn
from pennon.server.permissions.audit import Audit, AuditLog
from pennon.server.permissions.rights import OpenGuard
from pennon.server.refusals import refuse
from pennon.server.requests import Gate, describe_faults

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from pennon.catalog_namespace import CatalogNamespace
    from pennon.directory.catalog import Catalog
    from pennon.server.access import Access
    from pennon.server.permissions.rights import Guard
    from pennon.server.vending.vendor import Vending

ICEBERG = "/iceberg"
_log = logging.getLogger(__name__)
_INTERNAL = 500


LANCE = "/v1"


def build(
    namespace: CatalogNamespace[Any],
    access: Access,
    *,
    catalog: Catalog | None = None,
    guard: Guard | None = None,
    limits: Limits | None = None,
    metrics: Metrics | None = None,
    audit: AuditLog | None = None,
    vending: Vending | None = None,
) -> FastAPI:
    """Make the application over a namespace, which the caller closes when nobody serves it any more.

    The Iceberg protocol needs the catalog of a directory namespace.
    """
    limits, metrics = limits or Limits(), metrics or Metrics()
    app = FastAPI(title="Pennon", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    guard = guard or OpenGuard()
    is_local = catalog is not None and catalog.store.is_local
    app.include_router(lance_routes.router(namespace, guard, vending, is_local=is_local), prefix=LANCE)
    if catalog is not None:
        app.include_router(routes.router(catalog, guard, vending), prefix=ICEBERG)
    sessions = Sessions()
    app.include_router(page_routes.router(namespace, guard, sessions, catalog))
    for kind in (LanceNamespaceError, ProtocolError):
        app.add_exception_handler(kind, _failed)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _no_route)
    app.add_exception_handler(ClientDisconnect, _hung_up)
    app.add_exception_handler(Exception, _broken)
    app.state.limits = limits
    app.add_middleware(Turns, limits=limits, metrics=metrics)
    app.add_middleware(MetricsEndpoint, metrics=metrics)
    # The last one is asked first.
    app.add_middleware(Gate, access=access)
    app.add_middleware(SignIn, access=access, sessions=sessions)
    if audit is not None:
        # Around the gate, so that its refusals are recorded.
        app.add_middleware(Audit, log=audit, request_id=current_request_id)
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
    return refuse(request.url.path, status, "NoSuchEndpointException", message, headers)


def _hung_up(request: Request, __: Exception) -> Response:
    message = "The client hung up before its request was complete"
    return refuse(request.url.path, 400, "BadRequestException", message)


def _broken(request: Request, error: Exception) -> Response:
    # The server logs the error itself; what it says is not for everybody.
    message = f"Something is broken: {type(error).__name__}"
    return refuse(request.url.path, 500, "InternalServerErrorException", message)
