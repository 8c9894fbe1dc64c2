"""What libraries add to their messages for their own developers: positions in their sources, and debug output."""

from __future__ import annotations

import re

_DEBUG_TEXT = re.compile(r"\s*Debug source:.*|,? ?/\S+\.rs:\d+(:\d+)?|Invalid user input: ", re.DOTALL)


def remove_debug_text(message: str) -> str:
    """Return a message without it."""
    return _DEBUG_TEXT.sub("", message).strip()
