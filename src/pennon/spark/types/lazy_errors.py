"""The error for a column that cannot be converted, created without importing the SDK before.

Spark's planning workers import `types`, and importing the SDK would take each of them seconds.
"""

from __future__ import annotations


def invalid_input(message: str) -> Exception:
    """Return an InvalidInputError with `message`."""
    from pennon.errors import InvalidInputError

    return InvalidInputError(message)
