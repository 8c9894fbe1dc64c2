"""What errors of Lance mean for whoever asked for something inside of a table.

Lance raises OSError, ValueError, RuntimeError, TypeError and others, with a text, by which alone most of it is told.
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
def bad_input_told(subject: str) -> Iterator[None]:
    """Turn what Lance raises for bad input into 13, for a lost race into 14, a panic into 18; all else passes."""
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
    except BaseException as error:
        # Lance's panics are no Exceptions; nothing is broken after one.
        if type(error).__name__ != "PanicException":
            raise
        raise InternalError(f"{subject}: Lance gave up: {error}") from error


@contextmanager
def judged(what: str, identifier: Identifier) -> Iterator[None]:
    """Do the same where rows are read or written: rows that do not fit are 20, files that are gone 19.

    A ValueError that says nothing else is about the request: Lance's Python side raises it by itself.
    """
    subject = f"{what} of table {format_identifier(identifier)}"
    with bad_input_told(subject):
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
                raise InvalidTableStateError(f"{subject}: {error}; its files are gone") from error
            if isinstance(error, ValueError):
                raise InvalidInputError(f"{subject}: {error}") from error
            raise


def is_bad_input(error: BaseException) -> bool:
    """Tell whether Lance refused what it was given."""
    text = str(error).lower()
    if _LOST_FILE.search(text):
        # It may come about while rows are read for Arrow, which tells it as an error of its own.
        return False
    return isinstance(error, _BAD_INPUT_TYPES) or any(part in text for part in _BAD_INPUT)


def is_race(error: BaseException) -> bool:
    """Tell whether another commit came first."""
    return is_commit_conflict(error) or any(part in str(error).lower() for part in _RACES)
