"""How people sign in: a form takes their key or token, and a cookie stands for it in this browser.

The cookie counts for pages only. Requests of the protocols need the token itself, so no page can send one by a cookie.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.datastructures import MutableHeaders
from starlette.requests import Request

from pennon.errors import InvalidInputError
from pennon.server.access import is_own_page
from pennon.server.pages import paths
from pennon.server.pages.forms import read_form
from pennon.server.pages.rendering import STATIC_FILES, redirect, render, render_error, respond_with_file
from pennon.server.permissions.authorization import ATTEMPT_KEY, Attempt
from pennon.server.requests import identify

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

    from pennon.server.access import Access
    from pennon.server.pages.sessions import Sessions

COOKIE, SECURE_COOKIE = "pennon-session", "__Host-pennon-session"
SESSION_KEY = "pennon.session"
"""The key of an ASGI scope that has the id of the session, or an empty text."""
_READS = frozenset({"GET", "HEAD"})
_AUTHORIZATION = "authorization"
_UNAUTHENTICATED = 401
_WRONG_TOKEN = "This is not the token of this server."  # noqa: S105 - a message


class SignIn:
    """Answers the pages that need no token, and turns the cookie of every other page into the token behind it.

    It wraps the gate, so that strangers take no turns.
    """

    def __init__(self, app: ASGIApp, access: Access, sessions: Sessions) -> None:
        self._app = app
        self._access = access
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http" or not paths.is_page(scope["path"]):
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        answer = await self._answer(request)
        await (self._app if answer is None else answer)(scope, receive, send)

    async def _answer(self, request: Request) -> Response | None:
        """Return the answer to a request that needs no token, or None for all others."""
        path, reads = request.url.path, request.method in _READS
        if path.startswith(paths.STATIC) and path.removeprefix(paths.STATIC) in STATIC_FILES and reads:
            return respond_with_file(path.removeprefix(paths.STATIC))
        if not is_own_page(request.headers, request.scope["scheme"]):
            return self._answer_foreign(request)
        if path == paths.SIGN_IN and self._needs_token:
            return self._show_form(request) if reads else await self._sign_in(request)
        if path == paths.SIGN_OUT and not reads:
            return await self._sign_out(request)
        session_id = request.cookies.get(SECURE_COOKIE) or request.cookies.get(COOKIE) or ""
        session = self._sessions.find(session_id) if session_id else None
        request.scope[SESSION_KEY] = "" if session is None else session_id
        if _AUTHORIZATION in request.headers or not self._needs_token:
            return None
        if session is not None:
            MutableHeaders(scope=request.scope)[_AUTHORIZATION] = f"Bearer {session.token}"
            return None
        return redirect(paths.with_query(paths.SIGN_IN, next=_path_of(request))) if reads else None

    @property
    def _needs_token(self) -> bool:
        return self._access.token is not None or self._access.users is not None

    def _answer_foreign(self, request: Request) -> Response:
        """Return the answer to a request that a page of another site has caused."""
        # A person may follow a link from there: the browser then asks again, as from this site, and with its cookie.
        follows_link = request.method in _READS and request.headers.get("sec-fetch-mode") == "navigate"
        if follows_link and request.headers.get("sec-fetch-dest") == "document":
            return render("from_elsewhere.html", {"title": "Continue", "target": _own_path(_path_of(request))})
        return render_error(403, "Web pages of other origins are not served")

    def _show_form(self, request: Request) -> Response:
        return _render_form(_own_path(request.query_params.get("next", "")))

    async def _sign_in(self, request: Request) -> Response:
        try:
            form = await read_form(request)
        except InvalidInputError as error:
            return render_error(400, str(error))
        token, target = form.get("token", "").strip(), _own_path(form.get("next", ""))
        # As the gate would see a request with this token.
        scope = {**request.scope, "headers": [*request.scope["headers"]]}
        MutableHeaders(scope=scope)[_AUTHORIZATION] = f"Bearer {quote(token, safe=_TOKEN_CHARACTERS)}"
        refused = await identify(self._access, scope)
        if refused is not None:
            status, _, text = refused
            is_wrong = self._access.users is None and status == _UNAUTHENTICATED
            return _render_form(target, status=status, problem=_WRONG_TOKEN if is_wrong else text)
        request.scope.update({key: value for key, value in scope.items() if key != "headers"})
        attempt = request.scope.get(ATTEMPT_KEY)
        if isinstance(attempt, Attempt):
            attempt.operation, attempt.changes = "SignIn", True
        answer = redirect(target)
        _Cookie.of(request).write(answer, self._sessions.begin(token), int(self._sessions.seconds))
        return answer

    async def _sign_out(self, request: Request) -> Response:
        cookie = _Cookie.of(request)
        session_id = request.cookies.get(cookie.name, "")
        try:
            form = await read_form(request)
        except InvalidInputError as error:
            return render_error(400, str(error))
        if not self._sessions.is_form_token(session_id, form.get("form_token", "")):
            return render_error(403, "The form is out of date: load the page again")
        self._sessions.end(session_id)
        answer = redirect(paths.SIGN_IN if self._needs_token else paths.HOME)
        cookie.write(answer, "", 0)
        return answer


_TOKEN_CHARACTERS = "".join(map(chr, range(0x21, 0x7F)))
"""All that a token may contain. Everything else is encoded, so that it cannot become a second header."""


@dataclass(frozen=True)
class _Cookie:
    name: str
    is_secure: bool

    @classmethod
    def of(cls, request: Request) -> _Cookie:
        # Behind a proxy that ends TLS, only the browser's own word says that it uses TLS.
        secure = request.scope["scheme"] == "https" or request.headers.get("origin", "").startswith("https://")
        return cls(SECURE_COOKIE if secure else COOKIE, secure)

    def write(self, answer: Response, value: str, seconds: int) -> None:
        answer.set_cookie(
            self.name, value, max_age=seconds, path="/", httponly=True, samesite="strict", secure=self.is_secure
        )


def _path_of(request: Request) -> str:
    """Return the path of a request with its query, as it was sent."""
    query = request.scope["query_string"].decode("ascii", "replace")
    path = request.scope["raw_path"].decode("ascii", "replace").partition("?")[0]
    return f"{path}?{query}" if query else path


def _own_path(target: str) -> str:
    """Return the path if it is that of a page of this server, otherwise that of the start page."""
    path = target.partition("?")[0]
    is_own = paths.is_page(path) and target.isascii() and target.isprintable() and "\\" not in target
    return target if is_own and not target.startswith("//") else paths.HOME


def _render_form(target: str, *, status: int = 200, problem: str = "") -> Response:
    return render("sign_in.html", {"title": "Sign in", "next": target, "problem": problem}, status=status)
