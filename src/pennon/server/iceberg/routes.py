"""The routes of the Iceberg REST protocol that are served, below `/iceberg`."""

import logging
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pennon.directory.catalog import Catalog
from pennon.errors import LanceNamespaceError, UnsupportedOperationError, translate_errors
from pennon.iceberg.server_promises import KEEPS_DROPPED, KEEPS_SNAPSHOTS, ONLY_LANCE, PURGE, TTL
from pennon.identifiers import ROOT, Identifier, format_identifier
from pennon.paging import require_token
from pennon.server.iceberg import bodies, commits, creation, documents, namespaces, needs, path_names, tables
from pennon.server.iceberg.credentials import TableCredentials, listed
from pennon.server.iceberg.errors import ProtocolError
from pennon.server.permissions.authorization import authorize
from pennon.server.permissions.rights import Guard, Kind, Need, Right, principal_of
from pennon.server.vending.vendor import Vending

_log = logging.getLogger(__name__)
_NAMESPACES = "/namespaces"
_NAMESPACE = "/namespaces/{namespace}"
_TABLES = "/namespaces/{namespace}/tables"
_TABLE = "/namespaces/{namespace}/tables/{table}"
ENDPOINTS = (
    ("GET", _NAMESPACES),
    ("POST", _NAMESPACES),
    ("GET", _NAMESPACE),
    ("HEAD", _NAMESPACE),
    ("DELETE", _NAMESPACE),
    ("POST", _NAMESPACE + "/properties"),
    ("GET", _TABLES),
    ("POST", _TABLES),
    ("GET", _TABLE),
    ("HEAD", _TABLE),
    ("POST", _TABLE),
    ("DELETE", _TABLE),
    ("GET", _TABLE + "/credentials"),
    ("POST", "/tables/rename"),
    ("POST", "/transactions/commit"),
)
"""The routes that `/v1/config` lists."""

_NOTHING = 204
_UNCHANGED = 304


def _page_size(request: Request, asked: Annotated[int | None, Query(alias="pageSize", ge=1)] = None) -> int | None:
    # Without a page size, the protocol wants all entries.
    return None if asked is None else min(asked, request.app.state.limits.page_size)


PageToken = Annotated[str | None, Query(alias="pageToken")]
PageSize = Annotated[int | None, Depends(_page_size)]


class _Routes:
    """The routes, each with the rights that it needs."""

    def __init__(self, guard: Guard) -> None:
        self.guard = needs.IcebergGuard(guard)
        self.router = APIRouter(prefix="/v1", default_response_class=JSONResponse)

    def add(self, method: str, path: str, handler: Callable[..., Any], rule: needs.Rule) -> None:
        """Add a route. Its rule is asked before the handler is called."""
        operation = "".join(part.capitalize() for part in handler.__name__.strip("_").split("_"))
        changes = method not in {"GET", "HEAD"}

        async def check(request: Request, needed: Annotated[list[Need], Depends(rule)]) -> None:
            authorize(request.scope, self.guard, needed, operation=operation, changes=changes)

        self.router.add_api_route(path, handler, methods=[method], response_model=None, dependencies=[Depends(check)])


def router(catalog: Catalog, guard: Guard, vending: Vending | None = None) -> APIRouter:
    """Make the routes over a catalog. Each runs in a thread of its own."""
    made = _Routes(guard)
    made.add("GET", "/config", _config, needs.nothing)
    _add_namespaces(made, catalog)
    _add_tables(made, catalog, TableCredentials(vending, guard))
    _add_commits(made, catalog)
    return made.router


def _config() -> dict[str, Any]:
    promises = dict.fromkeys((KEEPS_SNAPSHOTS, KEEPS_DROPPED, ONLY_LANCE), "true")
    endpoints = [f"{method} /v1/{{prefix}}{path}" for method, path in ENDPOINTS]
    return {"defaults": promises, "overrides": {}, "endpoints": endpoints}


def _done() -> Response:
    return Response(status_code=_NOTHING)


def _add_namespaces(made: _Routes, catalog: Catalog) -> None:
    def list_namespaces(
        request: Request, size: PageSize, token: PageToken = None, parent: str | None = None
    ) -> Response:
        with translate_errors("ListNamespaces"):
            above = path_names.namespace_of(parent) if parent else ROOT
            require_token(token)
            choose = _visible(made.guard, request, above, "namespace")
            return _answer(namespaces.list_namespaces(catalog, above, token or None, size, choose))

    def create_namespace(body: bodies.CreateNamespace) -> dict[str, Any]:
        with translate_errors("CreateNamespace"):
            return namespaces.create(catalog, body)

    def load_namespace(namespace: str) -> Response:
        with translate_errors(f"LoadNamespace of {namespace!r}"):
            return _answer(namespaces.describe_namespace(catalog, path_names.namespace_of(namespace)))

    def namespace_exists(namespace: str) -> Response:
        with translate_errors(f"NamespaceExists of {namespace!r}"):
            catalog.resolver.require_namespace(path_names.namespace_of(namespace))
        return _done()

    def drop_namespace(namespace: str) -> Response:
        with translate_errors(f"DropNamespace of {namespace!r}"):
            namespaces.drop(catalog, path_names.namespace_of(namespace))
        return _done()

    def update_properties(namespace: str, body: bodies.UpdateProperties) -> dict[str, Any]:
        with translate_errors(f"UpdateProperties of {namespace!r}"):
            return namespaces.update(catalog, path_names.namespace_of(namespace), body)

    made.add("GET", _NAMESPACES, list_namespaces, needs.to_list_namespaces)
    made.add("POST", _NAMESPACES, create_namespace, needs.to_create_namespace)
    made.add("GET", _NAMESPACE, load_namespace, needs.on_namespace(Right.READ))
    made.add("HEAD", _NAMESPACE, namespace_exists, needs.on_namespace(Right.SEE))
    made.add("DELETE", _NAMESPACE, drop_namespace, needs.on_namespace(Right.MANAGE))
    made.add("POST", _NAMESPACE + "/properties", update_properties, needs.on_namespace(Right.MANAGE))


def _add_tables(made: _Routes, catalog: Catalog, credentials: TableCredentials) -> None:
    def list_tables(request: Request, namespace: str, size: PageSize, token: PageToken = None) -> Response:
        with translate_errors(f"ListTables of {namespace!r}"):
            above = path_names.namespace_of(namespace)
            require_token(token)
            choose = _visible(made.guard, request, above, "table")
            return _answer(tables.list_tables(catalog, above, token or None, size, choose))

    def create_table(request: Request, namespace: str, body: bodies.CreateTable) -> Response:
        with translate_errors(f"CreateTable in {namespace!r}"):
            identifier = creation.create_table(catalog, path_names.namespace_of(namespace), body)
            metadata = documents.load_table(catalog, identifier)
            return _loaded(metadata, credentials.of_answer(request, identifier, metadata["location"], is_new=True))

    def load_table(
        request: Request,
        namespace: str,
        table: str,
        snapshots: Literal["all", "refs"] = "all",
        known: Annotated[str | None, Header(alias="If-None-Match")] = None,
    ) -> Response:
        with translate_errors(f"LoadTable of {table!r}"):
            identifier = path_names.table_of(namespace, table)
            with tables.translate_not_found(identifier):
                metadata = documents.load_table(catalog, identifier, all_snapshots=snapshots == "all")
            granted = credentials.of_answer(request, identifier, metadata["location"], is_new=False)
            return _loaded(metadata, granted, known)

    def load_credentials(request: Request, namespace: str, table: str) -> Response:
        with translate_errors(f"LoadCredentials of {table!r}"):
            identifier = path_names.table_of(namespace, table)
            with tables.translate_not_found(identifier):
                location = documents.read_table(catalog, identifier).location
            config = credentials.config(request, identifier, location)
            return _answer({"storage-credentials": listed(location, config)})

    def table_exists(namespace: str, table: str) -> Response:
        with translate_errors(f"TableExists of {table!r}"):
            identifier = path_names.table_of(namespace, table)
            with tables.translate_not_found(identifier):
                catalog.resolver.table(identifier)
        return _done()

    def drop_table(
        namespace: str,
        table: str,
        *,
        purge_requested: Annotated[bool, Query(alias="purgeRequested")] = False,
        ttl: Annotated[int | None, Query(alias=TTL, ge=0)] = None,
        purge: Annotated[bool, Query(alias=PURGE)] = False,
    ) -> Response:
        with translate_errors(f"DropTable of {table!r}"):
            identifier = path_names.table_of(namespace, table)
            with tables.translate_not_found(identifier):
                tables.drop(catalog, identifier, with_data=purge_requested, ttl_ms=ttl, now=purge)
        return _done()

    def rename_table(body: bodies.RenameTable) -> Response:
        with translate_errors("RenameTable"):
            tables.rename(catalog, body)
        return _done()

    def register_table(namespace: str) -> Response:
        raise UnsupportedOperationError(
            f"RegisterTable in {namespace!r}: a Lance table has no metadata file; CreateTable with its location takes "
            "it into the catalog"
        )

    made.add("GET", _TABLES, list_tables, needs.on_namespace(Right.SEE))
    made.add("POST", _TABLES, create_table, needs.to_create_table)
    made.add("GET", _TABLE, load_table, needs.on_table(Right.READ))
    made.add("GET", _TABLE + "/credentials", load_credentials, needs.on_table(Right.READ))
    made.add("HEAD", _TABLE, table_exists, needs.on_table(Right.SEE))
    made.add("DELETE", _TABLE, drop_table, needs.to_drop_table(catalog.settings.drop_ttl_ms))
    made.add("POST", "/tables/rename", rename_table, needs.to_rename)
    made.add("POST", _NAMESPACE + "/register", register_table, needs.on_namespace(Right.SEE))


def _add_commits(made: _Routes, catalog: Catalog) -> None:
    def update_table(namespace: str, table: str, body: bodies.UpdateTable) -> Response:
        with translate_errors(f"UpdateTable of {table!r}"):
            identifier = path_names.table_of(namespace, table)
            commits.update_table(catalog, identifier, body)
        try:
            with translate_errors(f"UpdateTable of {table!r}"):
                return _answer(tables.commit_result(catalog, identifier))
        except LanceNamespaceError as error:
            _log.warning("table %s is changed, and cannot be shown: %s", format_identifier(identifier), error)
            raise ProtocolError(500, "CommitStateUnknownException", f"The table is changed, but: {error}") from error

    def commit_transaction(body: bodies.CommitTransaction) -> Response:
        with translate_errors("CommitTransaction"):
            commits.commit_transaction(catalog, body)
        return _done()

    made.add("POST", _TABLE, update_table, needs.to_update_table)
    made.add("POST", "/transactions/commit", commit_transaction, needs.to_commit_transaction)


def _visible(guard: Guard, request: Request, parent: Identifier, kind: Kind) -> Callable[[list[str]], list[str]]:
    """Return a function that keeps the names in a namespace that the principal of a request may see."""
    principal = principal_of(request.scope)
    return lambda names: [one[-1] for one in guard.visible(principal, [(*parent, name) for name in names], kind=kind)]


def _loaded(metadata: dict[str, Any], granted: dict[str, Any], known: str | None = None) -> Response:
    answer = _answer({"metadata": metadata, **granted})
    if granted["config"]:
        # Credentials expire, so that this answer is never the same as another.
        return answer
    answer.headers["ETag"] = tag = documents.etag(bytes(answer.body))
    if known is not None and tag in {part.strip().removeprefix("W/") for part in known.split(",")}:
        return Response(status_code=_UNCHANGED, headers={"ETag": tag})
    return answer


def _answer(document: dict[str, Any]) -> Response:
    # Large answers are written here, by the thread of the request; FastAPI would do it on the event loop.
    return JSONResponse(document)
