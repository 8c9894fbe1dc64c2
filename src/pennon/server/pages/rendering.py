"""HTML from templates, with the headers that every page has."""

from __future__ import annotations

import hashlib
import logging
import math
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from lance_namespace.errors import ErrorCode
from starlette.responses import HTMLResponse, RedirectResponse, Response

from pennon.identifiers import quote_identifier
from pennon.server.lance.errors import INTERNAL, code_of_status, describe_error, status_of
from pennon.server.pages import paths

if TYPE_CHECKING:
    from collections.abc import Mapping

STATIC_FILES = {"pages.css": "text/css; charset=utf-8", "pages.js": "text/javascript", "icon.svg": "image/svg+xml"}
_FOLDER = Path(__file__).parent
_SEE_OTHER = 303
_log = logging.getLogger(__name__)

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""What pages may load: only what this server sends, and no scripts or styles inside a page."""
SECURITY_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # `no-referrer` would make browsers send forms with the origin `null`.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_HEADERS = {**SECURITY_HEADERS, "Cache-Control": "no-store"}
_STATIC_HEADERS = {**SECURITY_HEADERS, "Cache-Control": "public, max-age=86400, immutable"}

_ADVICE = {
    ErrorCode.NAMESPACE_NOT_FOUND: "Check the name, or browse from the start page. It may have been dropped.",
    ErrorCode.TABLE_NOT_FOUND: "Check the name. A table that was dropped may still be in the trash.",
    ErrorCode.TABLE_ALREADY_EXISTS: "Restore it under another name.",
    ErrorCode.TABLE_VERSION_NOT_FOUND: "It may have been cleaned up. Choose another version.",
    ErrorCode.INVALID_INPUT: "Go back and correct the input.",
    ErrorCode.CONCURRENT_MODIFICATION: "Somebody else has changed it at the same time. Look again and retry.",
    ErrorCode.PERMISSION_DENIED: "Ask an administrator of this catalog for the right, or sign in as somebody else.",
    ErrorCode.UNAUTHENTICATED: "Sign in.",
    ErrorCode.SERVICE_UNAVAILABLE: "Try again in a moment.",
    ErrorCode.THROTTLING: "Try again in a moment.",
    ErrorCode.INVALID_TABLE_STATE: "The message says what state the table is in.",
    ErrorCode.INTERNAL: "The log of the server has the reason, under the request's id.",
}


def format_bytes(number: float) -> str:
    """Return a number of bytes as people write it."""
    units = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    level = 0 if number < 1 else min(int(math.log(number, 1024)), len(units) - 1)
    return f"{number:,.0f} B" if level == 0 else f"{number / 1024**level:,.1f} {units[level]}"


def format_moment(moment: datetime) -> str:
    """Return a time in UTC, to the second."""
    return f"{moment.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def format_duration(span: timedelta | float) -> str:
    """Return a span of time in its two largest units."""
    seconds = span.total_seconds() if isinstance(span, timedelta) else float(span)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:  # noqa: PLR2004 - a minute
        return f"{seconds:.1f} s"
    parts = []
    for name, size in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count:.0f} {name}")
    return " ".join(parts[:2])


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(bytes=format_bytes, moment=format_moment, duration=format_duration, identifier=quote_identifier)
    made.globals.update(
        paths=paths,
        asset=asset_path,
        namespace_path=paths.namespace_path,
        table_path=paths.table_path,
        run_path=paths.run_path,
    )
    return made


def render(template: str, values: Mapping[str, Any], *, status: int = 200) -> Response:
    """Return a page, or a part of one."""
    text = _environment().get_template(template).render(**values)
    return HTMLResponse(text.encode("utf-8", "replace"), status, dict(_HEADERS))


def redirect(path: str) -> Response:
    """Return the answer that sends a browser to a path of this server."""
    return RedirectResponse(path, _SEE_OTHER, dict(_HEADERS))


def render_error(
    status: int, message: str, *, code: ErrorCode | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """Return the page of an error, with its code and what to do."""
    chosen = code_of_status(status) if code is None else code
    values = {
        "title": "This did not work",
        "status": status,
        "message": message,
        "code": int(chosen),
        "code_name": chosen.name.replace("_", " ").lower(),
        "advice": _ADVICE.get(chosen, "Go back, or browse from the start page."),
        "is_unauthenticated": chosen is ErrorCode.UNAUTHENTICATED,
    }
    page = render("error.html", values, status=status)
    page.headers.update(headers or {})
    return page


def respond_to_error(error: Exception, path: str) -> Response:
    """Return the page for an error of the catalog."""
    code, text = describe_error(error)
    status = status_of(code)
    if status >= INTERNAL:
        _log.error("%s: %s", path, error, exc_info=error)
    return render_error(status, text, code=code)


@cache
def _static_file(name: str) -> bytes:
    return (_FOLDER / "static" / name).read_bytes()


@cache
def asset_path(name: str) -> str:
    """Return the path of a file that pages load. It changes with the content, so browsers may keep the file."""
    return f"{paths.STATIC}{name}?{hashlib.sha256(_static_file(name)).hexdigest()[:12]}"


def respond_with_file(name: str) -> Response:
    """Return a file that pages load."""
    kind = STATIC_FILES.get(name)
    if kind is None:
        return render_error(404, f"There is no file {name!r}")
    return Response(_static_file(name), media_type=kind, headers=dict(_STATIC_HEADERS))
