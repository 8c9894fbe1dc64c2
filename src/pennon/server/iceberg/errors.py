"""Translate errors to a status and the error model of the Iceberg protocol."""

from __future__ import annotations

import re
from typing import Any

from starlette.responses import JSONResponse

from pennon.identifiers import split_object_id
from pennon.server.error_texts import format_error_text

UNPROCESSABLE = 422
_UNKNOWN_CODE = (500, "InternalServerErrorException")
_BY_CODE: dict[int, tuple[int, str]] = {
    0: (406, "UnsupportedOperationException"),
    1: (404, "NoSuchNamespaceException"),
    2: (409, "AlreadyExistsException"),
    3: (409, "NamespaceNotEmptyException"),
    4: (404, "NoSuchTableException"),
    5: (409, "AlreadyExistsException"),
    11: (404, "NoSuchTableVersionException"),
    13: (400, "BadRequestException"),
    14: (409, "CommitFailedException"),
    15: (403, "ForbiddenException"),
    16: (401, "NotAuthorizedException"),
    17: (503, "ServiceUnavailableException"),
    18: _UNKNOWN_CODE,
    19: (409, "InvalidTableStateException"),
    20: (400, "BadRequestException"),
    21: (429, "TooManyRequestsException"),
}
"""Status and type by the codes of the SDK."""
_SAID = re.compile(r"(Namespace|Table) (not found|already exists): '([^']*)'")
_WORDS = {"not found": "does not exist", "already exists": "already exists"}
"""The words of Iceberg servers, which some clients match."""


class ProtocolError(Exception):
    """An error of the protocol that is not an error of the namespace."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind


def of(error: BaseException) -> tuple[int, str]:
    """Return the status and the type for an error."""
    if isinstance(error, ProtocolError):
        return error.status, error.kind
    return _BY_CODE.get(int(getattr(error, "code", -1)), _UNKNOWN_CODE)


def message(error: BaseException) -> str:
    """Return the message of an error in the words of the protocol."""
    text = str(error)
    found = _SAID.match(text)
    if found is None:
        return text
    name = ".".join(split_object_id(found[3]))
    return f"{found[1]} {_WORDS[found[2]]}: {name}{text[found.end() :]}"


def document(status: int, kind: str, text: str) -> dict[str, Any]:
    """Return the body of an error."""
    return {"error": {"message": text, "type": kind, "code": status}}


def answer(status: int, kind: str, text: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return the answer for an error."""
    return JSONResponse(document(status, kind, format_error_text(text)), status, headers)
