"""Open tables for a command, and translate errors of the catalog."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pennon import addresses
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
    from pennon.identifiers import Identifier

_USERS_FAULT = "invalid user input"


@contextmanager
def translate_failures(command: str, address: str | None = None) -> Iterator[None]:
    """Translate errors to the SDK's. If a name is not found, add a hint about names with dots."""
    try:
        with translate_errors(command if address is None else f"{command} {address}"):
            yield
    except (NamespaceNotFoundError, TableNotFoundError) as error:
        no_namespace = isinstance(error, NamespaceNotFoundError) or isinstance(error.__cause__, NamespaceNotFoundError)
        hint = addresses.suggest_slashes(address or "") if no_namespace else ""
        if not hint:
            raise
        raise CommandFailure(f"{error}{hint}", ExitCode.NOT_FOUND) from error


def namespace_exists(catalog: Catalog, identifier: Identifier) -> bool:
    """Return True if the namespace exists."""
    try:
        catalog.resolver.require_namespace(identifier)
    except NamespaceNotFoundError:
        return False
    return True


def open_table(
    catalog: Catalog, address: str, *, version: int | None = None, tag: str | None = None, branch: str | None = None
) -> LanceDataset:
    """Open a table at a version, tag or branch. Raises InvalidTableStateError if it is only declared."""
    identifier = addresses.parse_table(address)
    _, dataset = describe.open_table(catalog, identifier, version=version, tag=tag, branch=branch)
    if dataset is None:
        raise InvalidTableStateError(f"Table '{addresses.format_address(identifier)}' is declared and has no data yet")
    return dataset


@contextmanager
def translate_scan_errors(where: str | None) -> Iterator[None]:
    """Translate Lance's errors about a filter or columns to InvalidInputError."""
    try:
        yield
    except (OSError, ValueError) as error:
        if _USERS_FAULT not in str(error).lower():
            raise
        what = f"the filter {where!r}" if where is not None else "the columns"
        raise InvalidInputError(f"Lance cannot parse {what}: {error}") from error
