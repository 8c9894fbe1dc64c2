"""The errors that a server answers, as the SDK's classes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lance_namespace.errors import ErrorCode

from pennon.errors import LanceNamespaceError, from_error_code
from pennon.http_transport import UnknownOutcomeError

if TYPE_CHECKING:
    from pennon.http_transport import Answer
    from pennon.rest.settings import RestSettings

_LONGEST_MESSAGE = 2000
_CODES = {int(code) for code in ErrorCode}
_LOST = {500, 502, 503, 504}
_NO_ROUTE = {404, 405, 501}
_CODE_BY_STATUS = {
    400: ErrorCode.INVALID_INPUT,
    401: ErrorCode.UNAUTHENTICATED,
    403: ErrorCode.PERMISSION_DENIED,
    406: ErrorCode.UNSUPPORTED,
    408: ErrorCode.SERVICE_UNAVAILABLE,
    409: ErrorCode.CONCURRENT_MODIFICATION,
    413: ErrorCode.INVALID_INPUT,
    415: ErrorCode.INVALID_INPUT,
    422: ErrorCode.INVALID_INPUT,
    429: ErrorCode.THROTTLING,
    502: ErrorCode.SERVICE_UNAVAILABLE,
    503: ErrorCode.SERVICE_UNAVAILABLE,
    504: ErrorCode.SERVICE_UNAVAILABLE,
}


def parse_error(
    answer: Answer, *, what: str, subject: str, settings: RestSettings, changes: bool, secret: str | None = None
) -> LanceNamespaceError:
    """Return the error of an answer. Its message names the `subject`, and has no secrets, also not `secret`.

    An answer without the protocol's error body that does not say whether the server changed something becomes
    UnknownOutcomeError; one that says that there is no such route becomes UnsupportedOperationError.
    """
    code, message = _parse_body(answer.body)
    message = settings.redacted(message)
    message = message.replace(secret, "***") if secret else message
    has_no_route = answer.status in _NO_ROUTE and code in {None, int(ErrorCode.UNSUPPORTED)}
    if code is not None and not has_no_route:
        return from_error_code(code, message if subject in message else f"{what}: {message or answer.status}")
    text = f"{what}: the server {settings.uri} answers {answer.status}" + (f": {message}" if message else "")
    if changes and answer.status in _LOST:
        return UnknownOutcomeError(text)
    if has_no_route:
        return from_error_code(int(ErrorCode.UNSUPPORTED), f"{text}; it does not have this operation")
    return from_error_code(int(_CODE_BY_STATUS.get(answer.status, ErrorCode.INTERNAL)), text)


def _parse_body(body: bytes) -> tuple[int | None, str]:
    """Return the code and the message of an error body; None if it has no code that is known."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return None, ""
    if not isinstance(content, dict):
        return None, ""
    code, message = content.get("code"), content.get("error")
    shown = message if isinstance(message, str) else ""
    text = "".join(letter if letter.isprintable() else " " for letter in shown[:_LONGEST_MESSAGE])
    is_known = isinstance(code, int) and not isinstance(code, bool) and code in _CODES
    return (code if is_known else None), text
