"""Text from anywhere, made safe for a terminal.

Names, cells, properties and messages of other programs may hold control characters, which a terminal obeys, and
characters that reorder what a person reads. Both are shown as escapes.
"""

from __future__ import annotations

import re

# C0, DEL and C1; marks and overrides of the writing direction; separators that break lines; lone surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ONE_BYTE = 0xFF


def visible(text: str) -> str:
    """Give the text with an escape for every character that a terminal would act upon."""
    return _UNSAFE.sub(_escape, text)


def safe_json(text: str) -> str:
    r"""Write such characters of a JSON text as `\uXXXX`, which means the same; they stand only inside of strings."""
    return _UNSAFE.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def one_line(text: str) -> str:
    """Give a message as one visible line."""
    return visible(" ".join(text.split()))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return _SHORT.get(found[0]) or (f"\\x{code:02x}" if code <= _ONE_BYTE else f"\\u{code:04x}")
