"""Translates errors of Lance.

Lance raises OSError, ValueError, RuntimeError, TypeError and others. Most of them can only be identified by their text.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pennon.errors import (
    ConcurrentModificationError,
    InternalError,
    InvalidInputError,
    InvalidTableStateError,
    LanceNamespaceError,
    TableSchemaValidationError,
    is_commit_conflict,
    is_not_found,
)
from pennon.identifiers import Identifier, format_identifier

if TYPE_CHECKING:
    from collections.abc import Iterator

_BAD_INPUT = (
    "invalid user input",
    "invalid argument",
    "lanceerror(arrow)",
    "lanceerror(schema)",
    "lanceerror(index)",
    "not supported",
    "ref is invalid",
    "does not exist in the dataset",
    "must be",
    "can't set tokenizer",
    "query execution error",
    "error during planning",
    "expected option to have value",
)
_BAD_INPUT_TYPES = (TypeError, NotImplementedError, KeyError, OverflowError)
_BAD_ROWS = ("different schema", "non-null", "partial-schema")
_LOST_FILE = re.compile(r"lanceerror\(io\).*not found: \S+\.lance\b")
_RACES = ("retryable commit conflict", "preempted by concurrent")


@contextmanager
def translate_errors(subject: str) -> Iterator[None]:
    """Translate errors of Lance.

    Bad input becomes InvalidInputError, a commit conflict ConcurrentModificationError, a panic InternalError. Other
    errors are not changed.
    """
    with translate_panics(subject):
        try:
            yield
        except LanceNamespaceError:
            raise
        except (*_BAD_INPUT_TYPES, OSError, ValueError, RuntimeError) as error:
            if is_race(error):
                raise ConcurrentModificationError(f"{subject}: {error}") from error
            if is_bad_input(error):
                raise InvalidInputError(f"{subject}: {error}") from error
            raise


@contextmanager
def translate_panics(subject: str) -> Iterator[None]:
    """Translate a panic of Lance into an InternalError. It is not an Exception, and the process can go on after it."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise InternalError(f"{subject}: Lance panicked: {error}") from error


@contextmanager
def translate_row_errors(action: str, identifier: Identifier) -> Iterator[None]:
    """Translate errors of Lance while rows are read or written.

    Rows that do not fit become TableSchemaValidationError, missing files InvalidTableStateError. A ValueError without a
    known text is about the request, since the Python part of Lance raises it: it becomes InvalidInputError.
    """
    subject = f"{action} of table {format_identifier(identifier)}"
    with translate_errors(subject):
        try:
            yield
        except LanceNamespaceError:
            raise
        except (OSError, ValueError, RuntimeError) as error:
            if is_race(error):
                raise
            if any(part in str(error).lower() for part in _BAD_ROWS):
                raise TableSchemaValidationError(f"{subject}: {error}") from error
            if is_bad_input(error):
                raise
            if is_not_found(error):
                raise InvalidTableStateError(f"{subject}: {error}; files of the table are missing") from error
            if isinstance(error, ValueError):
                raise InvalidInputError(f"{subject}: {error}") from error
            raise


def is_bad_input(error: BaseException) -> bool:
    """Return True if Lance rejected its arguments."""
    text = str(error).lower()
    if _LOST_FILE.search(text):
        # A file can go missing while Arrow reads rows. Arrow then reports it as an error of its own.
        return False
    return isinstance(error, _BAD_INPUT_TYPES) or any(part in text for part in _BAD_INPUT)


def is_race(error: BaseException) -> bool:
    """Return True if another client committed first."""
    return is_commit_conflict(error) or any(part in str(error).lower() for part in _RACES)
