"""What Lance's errors mean for somebody who asked something of an open table."""

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
    TableColumnNotFoundError,
    TableSchemaValidationError,
    is_commit_conflict,
    is_not_found,
)
from pennon.identifiers import Identifier, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lance import LanceDataset

# Lance reports nearly everything as OSError or ValueError with a text.
_SCHEMA_TEXTS = ("different schema", "non-null", "partial-schema")
_INPUT_TEXTS = (
    "invalid user input",
    "invalid argument",
    "not supported",
    "query execution error",
    "lanceerror(arrow)",
    "lanceerror(schema)",
    "lanceerror(index)",
    "error during planning",
    "expected option to have value",
)
_ASKED_WRONG = (ValueError, TypeError, OverflowError, NotImplementedError)
"""What Lance's Python side raises by itself; pyarrow's ArrowInvalid is a ValueError."""


_QUOTED = re.compile(r"'(?:[^']|'')*'|`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"")
_PLACEHOLDER = re.compile(r"\?|\$\w|(?<!:):\w")


@contextmanager
def judged(what: str, identifier: Identifier) -> Iterator[None]:
    """Turn errors about the request into 13 or 20, conflicts into 14, missing files into 19, panics into 18.

    Others pass.
    """
    try:
        yield
    except LanceNamespaceError:
        raise
    except (*_ASKED_WRONG, OSError, RuntimeError) as error:
        text = str(error).lower()
        message = f"{what} of table {shown(identifier)}: {error}"
        if is_commit_conflict(error):
            raise ConcurrentModificationError(message) from error
        if any(part in text for part in _SCHEMA_TEXTS):
            raise TableSchemaValidationError(message) from error
        if any(part in text for part in _INPUT_TEXTS):
            raise InvalidInputError(message) from error
        if is_not_found(error):
            raise InvalidTableStateError(f"{message}; its files are gone") from error
        if isinstance(error, _ASKED_WRONG):
            raise InvalidInputError(message) from error
        raise
    except BaseException as error:
        # Lance's panics are no Exceptions; nothing is broken after one.
        if type(error).__name__ != "PanicException":
            raise
        raise InternalError(f"{what} of table {shown(identifier)}: Lance gave up: {error}") from error


def require_complete(identifier: Identifier, *expressions: str | None) -> None:
    """Raise 13 for an SQL expression with a placeholder, for which there is no value: Lance panics at one."""
    for expression in expressions:
        if expression and _PLACEHOLDER.search(_QUOTED.sub("", expression)):
            raise InvalidInputError(
                f"An expression for table {shown(identifier)} has a placeholder and no value for it: {expression}"
            )


def require_fields(dataset: LanceDataset, identifier: Identifier, paths: Iterable[str]) -> None:
    """Raise 12 unless each Lance field path leads to a field of the table."""
    schema = dataset.lance_schema
    for path in paths:
        if schema.field(path) is None:
            raise TableColumnNotFoundError(f"Table {shown(identifier)} has no column {path!r}")
