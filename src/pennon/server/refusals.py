"""Refusals before a request reaches a route: pages for people, and the error body of a protocol for its clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.server.iceberg import errors as iceberg
from pennon.server.lance import errors as lance
from pennon.server.pages import paths
from pennon.server.pages.rendering import render_error

if TYPE_CHECKING:
    from starlette.responses import Response

_LANCE = "/v1/"


def refuse(path: str, status: int, kind: str, text: str, headers: dict[str, str] | None = None) -> Response:
    """Return the answer. `kind` is the type of the error in the Iceberg protocol."""
    if paths.is_page(path):
        return render_error(status, text, headers=headers)
    if path.startswith(_LANCE):
        return lance.respond(status, text, instance=path, headers=headers)
    return iceberg.answer(status, kind, text, headers)
