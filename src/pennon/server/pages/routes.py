"""The routes of the pages: one row each, with the rights that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import anyio
from fastapi import APIRouter
from starlette.requests import ClientDisconnect

from pennon.errors import PermissionDeniedError
from pennon.server.pages import browsing, health_pages, media, name_search, paths, run_pages, table_pages, trash_pages
from pennon.server.pages.forms import read_form
from pennon.server.pages.page_request import PageRequest
from pennon.server.pages.rendering import respond_to_error
from pennon.server.pages.root_search import RootSearch
from pennon.server.pages.sign_in import SESSION_KEY
from pennon.server.permissions.authorization import authorize
from pennon.server.permissions.rights import Need, Right, principal_of
from pennon.table.lance_errors import translate_panics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from starlette.requests import Request
    from starlette.responses import Response

    from pennon.catalog_namespace import CatalogNamespace
    from pennon.directory.catalog import Catalog
    from pennon.server.pages.sessions import Sessions
    from pennon.server.permissions.rights import Guard

FORM_TOKEN = "form_token"  # noqa: S105 - the name of a field


@dataclass(frozen=True)
class Page:
    """A page, or a form that a page sends."""

    id: str
    """The operation, in the audit, in metrics and in logs."""
    path: str
    needs: Callable[[PageRequest], Iterable[Need]]
    answer: Callable[[PageRequest], Response]
    method: Literal["GET", "POST"] = "GET"

    @property
    def changes(self) -> bool:
        """Whether it changes something."""
        return self.method == "POST"


def _on_namespace(right: Right) -> Callable[[PageRequest], Iterable[Need]]:
    return lambda request: [Need(right, "namespace", request.container)]


def _on_table(right: Right) -> Callable[[PageRequest], Iterable[Need]]:
    return lambda request: [Need(right, "table", request.table)]


def _to_see_trash(request: PageRequest) -> Iterable[Need]:
    # The trash of the whole catalog has only those tables that the reader may manage.
    is_everywhere = request.catalog is not None and not request.text("namespace")
    return [Need(Right.SEE if is_everywhere else Right.MANAGE, "namespace", request.container)]


_TABLE = f"{paths.PREFIX}table/{{id}}"
_READ, _ADMINISTER = _on_table(Right.READ), _on_table(Right.ADMINISTER)
_SEE = _on_namespace(Right.SEE)

PAGES: tuple[Page, ...] = (
    Page("ShowNamespace", paths.HOME, _SEE, browsing.show_namespace),
    Page("ShowNamespace", f"{paths.PREFIX}namespace/{{id}}", _SEE, browsing.show_namespace),
    Page("ShowBranch", f"{paths.PREFIX}tree/{{id}}", _SEE, browsing.show_branch),
    Page("Search", paths.SEARCH, _SEE, name_search.show_search),
    Page("ShowTable", _TABLE, _READ, table_pages.show_table),
    Page("ShowRows", f"{_TABLE}/rows", _READ, table_pages.show_rows),
    Page("ShowVersions", f"{_TABLE}/versions", _READ, table_pages.show_versions),
    Page("CompareVersions", f"{_TABLE}/compare", _READ, table_pages.show_comparison),
    Page("ShowCode", f"{_TABLE}/code", _READ, table_pages.show_code),
    Page("ShowMedia", f"{_TABLE}/media", _READ, media.show_media),
    Page("ListPipelines", paths.RUNS, run_pages.to_see_runs, run_pages.show_pipelines),
    Page("ListRuns", f"{paths.RUNS}/{{pipeline}}", run_pages.to_see_runs, run_pages.show_runs),
    Page("ShowRun", f"{paths.RUNS}/{{pipeline}}/{{run}}", run_pages.to_see_runs, run_pages.show_run),
    Page("ShowHealth", paths.HEALTH, _SEE, health_pages.show_health),
    Page("ShowProblems", paths.HEALTH_ENTRIES, health_pages.to_search_root, health_pages.show_entries),
    Page("SearchRoot", paths.HEALTH_ENTRIES, health_pages.to_search_root, health_pages.start_search, method="POST"),
    Page("ShowTrash", paths.TRASH, _to_see_trash, trash_pages.show_trash),
    Page("ConfirmPurge", f"{paths.TRASH}/purge", _ADMINISTER, trash_pages.confirm_purge),
    Page("PurgeTable", f"{paths.TRASH}/purge", _ADMINISTER, trash_pages.purge, method="POST"),
    Page("UndropTable", f"{paths.TRASH}/restore", trash_pages.to_restore, trash_pages.restore, method="POST"),
)
"""All pages that need to know who asks. Signing in and files of the pages are answered before (sign_in.py)."""


@dataclass(frozen=True)
class _Served:
    """What all pages are made of."""

    namespace: CatalogNamespace[Any]
    catalog: Catalog | None
    root_search: RootSearch | None
    guard: Guard
    sessions: Sessions


def router(namespace: CatalogNamespace[Any], guard: Guard, sessions: Sessions, catalog: Catalog | None) -> APIRouter:
    """Make the routes over a namespace. Each page is made in a thread."""
    made = APIRouter()
    served = _Served(namespace, catalog, None if catalog is None else RootSearch(catalog), guard, sessions)
    for page in PAGES:
        made.add_route(page.path, _make_endpoint(page, served), methods=[page.method])
    return made


def _make_endpoint(page: Page, served: _Served) -> Callable[[Request], Awaitable[Response]]:
    def make(http: Request, fields: dict[str, str]) -> Response:
        """Check the rights, and make the page. Runs in a thread."""
        session_id = http.scope.get(SESSION_KEY, "")
        request = PageRequest(
            served.namespace,
            served.catalog,
            served.guard,
            served.root_search,
            principal_of(http.scope),
            str(http.base_url).rstrip("/"),
            http.url.path,
            bool(session_id),
            served.sessions.form_token(session_id),
            http.path_params,
            fields,
        )
        authorize(http.scope, served.guard, page.needs(request), operation=page.id, changes=page.changes)
        if page.changes and not served.sessions.is_form_token(session_id, fields.get(FORM_TOKEN, "")):
            raise PermissionDeniedError("The form is not from a page of this session: load the page again")
        with translate_panics(page.id):
            return page.answer(request)

    async def answer(http: Request) -> Response:
        try:
            fields = await read_form(http) if page.changes else dict(http.query_params)
            return await anyio.to_thread.run_sync(make, http, fields)
        except ClientDisconnect:
            raise
        except Exception as error:  # noqa: BLE001 - every other error becomes a page
            return respond_to_error(error, http.url.path)

    # Metrics and logs name an operation by its function.
    answer.__name__ = page.id
    return answer
