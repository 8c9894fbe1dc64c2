"""Fields of forms, within limits of size and time."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import anyio

from pennon.errors import InvalidInputError
from pennon.server.requests import BODY_SECONDS

if TYPE_CHECKING:
    from starlette.requests import Request

_FORM = "application/x-www-form-urlencoded"
_MOST_BYTES = 64 << 10
_MOST_FIELDS = 100


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raises InvalidInputError if it is too large, too slow, or no form."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise InvalidInputError(f"The body of the request must be a form ({_FORM})")
    content = bytearray()
    try:
        with anyio.fail_after(BODY_SECONDS):
            async for chunk in request.stream():
                content += chunk
                if len(content) > _MOST_BYTES:
                    raise InvalidInputError(f"The form is larger than {_MOST_BYTES:,} bytes")
    except TimeoutError as error:
        raise InvalidInputError("The form did not come in time") from error
    try:
        found = parse_qsl(
            content.decode(), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict", strict_parsing=False
        )
    except ValueError as error:
        raise InvalidInputError("The form cannot be read") from error
    return dict(found)
