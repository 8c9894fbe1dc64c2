"""Refusals before a request reaches a route, in the error body of the protocol that its path belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pennon.server.iceberg import errors as iceberg
from pennon.server.lance import errors as lance

if TYPE_CHECKING:
    from starlette.responses import JSONResponse

_LANCE = "/v1/"


def refuse(path: str, status: int, kind: str, text: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return the answer. `kind` is the type of the error in the Iceberg protocol."""
    if path.startswith(_LANCE):
        return lance.respond(status, text, instance=path, headers=headers)
    return iceberg.answer(status, kind, text, headers)
