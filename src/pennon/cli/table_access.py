"""Errors of the catalog, as commands report them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from pennon import addresses
from pennon.cli.failures import CommandFailure, ExitCode
from pennon.errors import NamespaceNotFoundError, TableNotFoundError, translate_errors

if TYPE_CHECKING:
    from collections.abc import Iterator


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
