"""Make text safe for a terminal.

Names, cells, properties and messages of other programs may contain control characters, which a terminal executes, and
characters that change the reading order. Both are escaped.
"""

from __future__ import annotations

import re

# C0, DEL and C1; marks and overrides of the writing direction; separators that break lines; lone surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ONE_BYTE = 0xFF


def escape_controls(text: str) -> str:
    """Return the text with control and direction characters escaped."""
    return _UNSAFE.sub(_escape, text)


def escape_json(text: str) -> str:
    r"""Return a JSON text with such characters as `\uXXXX`, which is equivalent. They occur only in strings."""
    return _UNSAFE.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def format_line(text: str) -> str:
    """Return a message as one line, with control characters escaped."""
    return escape_controls(" ".join(text.split()))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return _SHORT.get(found[0]) or (f"\\x{code:02x}" if code <= _ONE_BYTE else f"\\u{code:04x}")
