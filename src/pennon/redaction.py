"""Remove secrets from texts."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

MASK = "***"
SHORTEST_SECRET = 4
"""A shorter value is no secret, and would match too many texts."""


def hide_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return a text with each secret replaced, also if it is percent-encoded. Secrets that are too short stay."""
    known = {one for one in secrets if len(one) >= SHORTEST_SECRET}
    for secret in sorted(known | {quote(one, safe="") for one in known}, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text
