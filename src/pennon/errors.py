"""The SDK's errors, Pennon's subclasses of them, and the translation of errors of stores and Lance."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import obstore.exceptions as store_errors
from lance_namespace.errors import (
    ConcurrentModificationError,
    InternalError,
    InvalidInputError,
    InvalidTableStateError,
    LanceNamespaceError,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    PermissionDeniedError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TableBranchAlreadyExistsError,
    TableBranchNotFoundError,
    TableColumnNotFoundError,
    TableIndexAlreadyExistsError,
    TableIndexNotFoundError,
    TableNotFoundError,
    TableSchemaValidationError,
    TableTagAlreadyExistsError,
    TableTagNotFoundError,
    TableVersionNotFoundError,
    TransactionNotFoundError,
    UnauthenticatedError,
    UnsupportedOperationError,
    from_error_code,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "BucketNotFoundError",
    "ConcurrentModificationError",
    "InternalError",
    "InvalidInputError",
    "InvalidTableStateError",
    "LanceNamespaceError",
    "NamespaceAlreadyExistsError",
    "NamespaceNotEmptyError",
    "NamespaceNotFoundError",
    "PermissionDeniedError",
    "ServiceUnavailableError",
    "TableAlreadyExistsError",
    "TableBranchAlreadyExistsError",
    "TableBranchNotFoundError",
    "TableColumnNotFoundError",
    "TableIndexAlreadyExistsError",
    "TableIndexNotFoundError",
    "TableIsOnlyDeclaredError",
    "TableNotFoundError",
    "TableSchemaValidationError",
    "TableTagAlreadyExistsError",
    "TableTagNotFoundError",
    "TableVersionAlreadyExistsError",
    "TableVersionNotFoundError",
    "TransactionNotFoundError",
    "UnauthenticatedError",
    "UnsupportedOperationError",
    "UnusableEntryError",
    "from_error_code",
    "is_commit_conflict",
    "is_damaged",
    "is_not_found",
    "translate_errors",
]


class TableVersionAlreadyExistsError(ConcurrentModificationError):
    """The table version already exists. Clients see a conflict, and try the next version.

    The specification's own code for it, 12, is another error in the SDK (docs/adr/0008).
    """

    spec_code = 12


class TableIsOnlyDeclaredError(InvalidTableStateError):
    """The table is declared and has no data yet."""


class BucketNotFoundError(NamespaceNotFoundError):
    """The bucket of the root does not exist."""


class UnusableEntryError(InvalidTableStateError):
    """An entry of the root cannot be used and is left unchanged, for example a link, or a row with a bad location."""


# Lance reports most failures as OSError or ValueError with a text. These texts mean that another client was first.
_CONFLICT_TEXTS = (
    "commit conflict",
    "incompatible transaction",
    "too many concurrent writers",
    "concurrent transaction",
)
_DAMAGED_TEXTS = (
    "sufficient data",
    "corrupt",
    "magic",
    "failed to decode",
    "decode error",
    "file size is too small",
    "invalid range",
)
# Lance and the stores report missing permissions with these texts, in errors of any class.
_DENIED_TEXTS = (
    "permission denied",
    "accessdenied",
    "403 forbidden",
    "lacked the necessary privileges",
    "read-only file system",
)
# The codes of S3 and Google Cloud, and of Azure. Both also occur in messages of Lance.
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound")
_BUCKET_NAME = re.compile(r"<BucketName>([^<]+)</BucketName>")
_MISSING_TEXTS = ("was not found", "not found:", "no such file")


def is_commit_conflict(error: BaseException) -> bool:
    """Return True if a Lance error means that a concurrent commit came first."""
    text = str(error).lower()
    return type(error).__name__ == "CommitConflictError" or any(part in text for part in _CONFLICT_TEXTS)


def is_damaged(error: BaseException) -> bool:
    """Return True if a Lance error means that a file exists but is damaged."""
    text = str(error).lower()
    return isinstance(error, (OSError, ValueError)) and any(part in text for part in _DAMAGED_TEXTS)


def is_not_found(error: BaseException) -> bool:
    """Return True if an error of a store or of Lance means that the object does not exist."""
    if isinstance(error, FileNotFoundError):
        return True
    text = str(error).lower()
    return isinstance(error, (OSError, ValueError)) and any(part in text for part in _MISSING_TEXTS)


@contextmanager
def translate_errors(subject: str) -> Iterator[None]:
    """Translate errors of stores, Lance and the system into the SDK's errors, with `subject` in the message."""
    try:
        yield
    except LanceNamespaceError:
        raise
    except (PermissionError, store_errors.PermissionDeniedError) as error:
        raise PermissionDeniedError(f"{subject}: permission denied: {error}") from error
    except store_errors.UnauthenticatedError as error:
        raise UnauthenticatedError(f"{subject}: not authenticated: {error}") from error
    except (OSError, ValueError, RuntimeError, store_errors.BaseError) as error:
        text = str(error)
        if any(part in text.lower() for part in _DENIED_TEXTS):
            raise PermissionDeniedError(f"{subject}: {text}") from error
        if _NO_BUCKET.search(text):
            named = _BUCKET_NAME.search(text)
            bucket = "the bucket" if named is None else f"the bucket {named[1]!r}"
            raise BucketNotFoundError(f"{subject}: {bucket} does not exist") from error
        if is_commit_conflict(error):
            raise ConcurrentModificationError(f"{subject}: {text}") from error
        raise InternalError(f"{subject}: {type(error).__name__}: {text}") from error
