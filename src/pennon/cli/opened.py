"""Calling the catalog from a command, and opening its tables."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from pennon.cli import addresses
from pennon.cli.failures import CommandFailure, ExitCode
from pennon.directory.lookup import describe
from pennon.errors import (
    InvalidInputError,
    InvalidTableStateError,
    NamespaceNotFoundError,
    TableNotFoundError,
    translate_errors,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance import LanceDataset

    from pennon.directory.catalog import Catalog

_USERS_FAULT = "invalid user input"


@dataclass(frozen=True)
class Summary:
    """What the manifest of an opened version tells without reading anything more."""

    version: int
    rows: int
    fragments: int
    deleted_rows: int
    data_bytes: int
    changed: datetime


@contextmanager
def asking(command: str, address: str | None = None) -> Iterator[None]:
    """Let only the SDK's errors out; one about a name that is not there says how names with dots are written."""
    try:
        with translate_errors(command if address is None else f"{command} {address}"):
            yield
    except (NamespaceNotFoundError, TableNotFoundError) as error:
        no_namespace = isinstance(error, NamespaceNotFoundError) or isinstance(error.__cause__, NamespaceNotFoundError)
        hint = addresses.dotted_hint(address or "") if no_namespace else ""
        if not hint:
            raise
        raise CommandFailure(f"{error}{hint}", ExitCode.NOT_FOUND) from error


def open_table(
    catalog: Catalog, address: str, *, version: int | None = None, tag: str | None = None, branch: str | None = None
) -> LanceDataset:
    """Open a table with data at a version, tag or branch; one that is only declared is refused (19)."""
    identifier = addresses.table(address)
    _, dataset = describe.opened(catalog, identifier, version=version, tag=tag, branch=branch)
    if dataset is None:
        raise InvalidTableStateError(f"Table '{addresses.shown(identifier)}' is declared and has no data yet")
    return dataset


def summary(dataset: LanceDataset) -> Summary:
    """Sum up the version that is open."""
    state = dataset.get_version()
    numbers = state["metadata"]
    when = state["timestamp"]
    # Lance gives the time in the machine's zone, and does not say so.
    changed = when.astimezone(timezone.utc) if isinstance(when, datetime) else datetime.fromtimestamp(0, timezone.utc)
    return Summary(
        int(dataset.version),
        int(numbers["total_rows"]),
        int(numbers["total_fragments"]),
        int(numbers["total_deletion_file_rows"]),
        int(numbers["total_files_size"]),
        changed,
    )


@contextmanager
def scanning(where: str | None) -> Iterator[None]:
    """Turn what Lance says of a bad filter or column into InvalidInputError (13)."""
    try:
        yield
    except (OSError, ValueError) as error:
        if _USERS_FAULT not in str(error).lower():
            raise
        what = f"the filter {where!r}" if where is not None else "the columns"
        raise InvalidInputError(f"Lance does not understand {what}: {error}") from error
