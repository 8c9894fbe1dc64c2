"""The error body of the protocol: a message, the code of the SDK, and the HTTP status for it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lance_namespace.errors import ErrorCode
from starlette.responses import JSONResponse

from pennon.debug_text import remove_debug_text
from pennon.errors import LanceNamespaceError
from pennon.server.error_texts import format_error_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_log = logging.getLogger(__name__)
BAD_REQUEST, INTERNAL = 400, 500
_STATUS_BY_CODE = {
    ErrorCode.UNSUPPORTED: 406,
    ErrorCode.NAMESPACE_NOT_FOUND: 404,
    ErrorCode.NAMESPACE_ALREADY_EXISTS: 409,
    ErrorCode.NAMESPACE_NOT_EMPTY: 409,
    ErrorCode.TABLE_NOT_FOUND: 404,
    ErrorCode.TABLE_ALREADY_EXISTS: 409,
    ErrorCode.TABLE_INDEX_NOT_FOUND: 404,
    ErrorCode.TABLE_INDEX_ALREADY_EXISTS: 409,
    ErrorCode.TABLE_TAG_NOT_FOUND: 404,
    ErrorCode.TABLE_TAG_ALREADY_EXISTS: 409,
    ErrorCode.TRANSACTION_NOT_FOUND: 404,
    ErrorCode.TABLE_VERSION_NOT_FOUND: 404,
    ErrorCode.TABLE_COLUMN_NOT_FOUND: 404,
    ErrorCode.INVALID_INPUT: BAD_REQUEST,
    ErrorCode.CONCURRENT_MODIFICATION: 409,
    ErrorCode.PERMISSION_DENIED: 403,
    ErrorCode.UNAUTHENTICATED: 401,
    ErrorCode.SERVICE_UNAVAILABLE: 503,
    ErrorCode.INTERNAL: INTERNAL,
    ErrorCode.INVALID_TABLE_STATE: 409,
    ErrorCode.TABLE_SCHEMA_VALIDATION_ERROR: BAD_REQUEST,
    ErrorCode.THROTTLING: 429,
    ErrorCode.TABLE_BRANCH_NOT_FOUND: 404,
    ErrorCode.TABLE_BRANCH_ALREADY_EXISTS: 409,
}
_CODE_BY_STATUS = {
    400: ErrorCode.INVALID_INPUT,
    401: ErrorCode.UNAUTHENTICATED,
    403: ErrorCode.PERMISSION_DENIED,
    404: ErrorCode.UNSUPPORTED,  # no route
    405: ErrorCode.UNSUPPORTED,
    408: ErrorCode.INVALID_INPUT,
    413: ErrorCode.INVALID_INPUT,
    415: ErrorCode.INVALID_INPUT,
    429: ErrorCode.THROTTLING,
    503: ErrorCode.SERVICE_UNAVAILABLE,
}
_STORAGE_REFUSED = "The storage of the server does not allow this; its log has the reason"
_RETRY_SECONDS = "1"
_BROKEN = "The server could not do this; its log has the reason"


def respond_to_error(error: Exception, *, instance: str, known: Collection[int]) -> JSONResponse:
    """Return the answer for an error of an operation. Its status is among those that are known for the operation.

    Clients decide by the code. If the specification does not know the natural status for an operation, it is 400.
    """
    code, text = describe_error(error)
    status = status_of(code)
    if status >= INTERNAL:
        _log.error("%s: %s", instance, error, exc_info=error)
    if status not in known and status < INTERNAL:
        status = BAD_REQUEST
    headers = {"Retry-After": _RETRY_SECONDS} if code is ErrorCode.SERVICE_UNAVAILABLE else None
    return respond(status, text, instance=instance, code=code, headers=headers)


def respond(
    status: int,
    message: str,
    *,
    instance: str,
    code: ErrorCode | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """Return an answer with the error body."""
    chosen = code_of_status(status) if code is None else code
    return JSONResponse(
        {"error": format_error_text(message), "code": int(chosen), "instance": instance}, status, headers
    )


def status_of(code: ErrorCode) -> int:
    """Return the natural HTTP status of an error code."""
    return _STATUS_BY_CODE[code]


def code_of_status(status: int) -> ErrorCode:
    """Return the error code of a refusal with an HTTP status."""
    return _CODE_BY_STATUS.get(status, ErrorCode.INTERNAL)


def describe_error(error: Exception) -> tuple[ErrorCode, str]:
    """Return the code and the message for a client. What only the operator may know is left out."""
    if isinstance(error, OverflowError):
        # Only requests have numbers of any size.
        return ErrorCode.INVALID_INPUT, "A number in the request is too large"
    if not isinstance(error, LanceNamespaceError):
        return ErrorCode.INTERNAL, _BROKEN
    code = ErrorCode(int(error.code))
    if code is ErrorCode.INTERNAL:
        return code, _BROKEN
    is_of_storage = error.__cause__ is not None and not isinstance(error.__cause__, LanceNamespaceError)
    if is_of_storage and code is ErrorCode.UNAUTHENTICATED:
        # The server's own credentials were refused, not the client's.
        return ErrorCode.INTERNAL, _BROKEN
    if is_of_storage and code is ErrorCode.PERMISSION_DENIED:
        _log.warning("the storage refused: %s", error)
        return code, _STORAGE_REFUSED
    return code, remove_debug_text(str(error))
