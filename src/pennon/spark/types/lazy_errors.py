"""The error for a column that cannot be mapped, made without importing the SDK until it is needed.

Spark's planning workers import the types; the SDK would cost each of them seconds.
"""

from __future__ import annotations


def invalid_input(message: str) -> Exception:
    """Give the InvalidInputError (13) with `message`, to be raised by the caller."""
    from pennon.errors import InvalidInputError

    return InvalidInputError(message)
