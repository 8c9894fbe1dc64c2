"""Reading a server's answers: whatever it sends, it is what the protocol says or a clear error (18)."""

from __future__ import annotations

import json
from typing import Any

from pennon.http_transport import BadAnswerError
from pennon.json_fields import FieldReader

_SHOWN = 300


def _wrong(what: str, wanted: str, got: str) -> BadAnswerError:
    return BadAnswerError(f"{what}: the server should answer {wanted}, got {got}")


_fields = FieldReader(_wrong)
mapping, items = _fields.mapping, _fields.items
text, optional_text, texts, number = _fields.text, _fields.optional_text, _fields.texts, _fields.number


def decode(body: bytes, what: str) -> dict[str, Any]:
    """Return the JSON object in an answer. Raises BadAnswerError if it is something else."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadAnswerError(f"{what}: the server's answer is not JSON ({len(body)} bytes)") from error
    return mapping(answer, what)


def names(value: object, what: str) -> tuple[str, ...]:
    """Require a namespace: a list of texts, which is not empty."""
    found = _fields.names(value, what)
    if not found:
        raise _wrong(what, "a list of names", "an empty one")
    return found


def parse_error(body: bytes) -> tuple[str, str]:
    """Return the type and message of an error, or empty texts if the answer has none."""
    try:
        error = json.loads(body)["error"]
        kind, message = str(error.get("type") or ""), str(error.get("message") or "")
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return "", ""
    return kind[:_SHOWN], message.partition("\n")[0][:_SHOWN]
