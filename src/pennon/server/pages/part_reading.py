"""Parts of a page that may be unreadable, because files of a table are missing or damaged. The rest is still shown."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from pennon.errors import InternalError, InvalidTableStateError, LanceNamespaceError, is_damaged, is_not_found
from pennon.table.lance_errors import translate_panics

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
_OF_FILES = (InternalError, InvalidTableStateError)
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Part(Generic[T]):
    """A part of a page, or why it cannot be shown."""

    value: T | None
    fault: str = ""


def read_part(subject: str, read: Callable[[], T]) -> Part[T]:
    """Return what `read` returns, or the sentence that the subject cannot be read.

    Errors of the request are raised, for example TableNotFoundError for a table that was dropped before.
    """
    try:
        with translate_panics(subject):
            return Part(read())
    except Exception as error:
        if isinstance(error, LanceNamespaceError) and not isinstance(error, _OF_FILES):
            raise
        # The message of the error may have paths.
        _log.warning("%s cannot be read: %s", subject, error)
        return Part(None, f"{subject} cannot be read: {_explain(error)}")


def _explain(error: Exception) -> str:
    if is_not_found(error) or is_not_found(error.__cause__ or error):
        return "files of the table are missing."
    if is_damaged(error) or is_damaged(error.__cause__ or error):
        return "files of the table are damaged."
    return "the log of the server has the reason."
