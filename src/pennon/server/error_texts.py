"""The texts of errors as they are sent."""

from __future__ import annotations

_LONGEST = 4000
_PART = _LONGEST // 2


def format_error_text(text: str) -> str:
    """Return the text of an error as valid Unicode. A text may quote a request of any size: its middle is left out."""
    if len(text) > _LONGEST:
        text = f"{text[:_PART]} … {text[-_PART:]}"
    return text.encode("utf-8", "backslashreplace").decode()
