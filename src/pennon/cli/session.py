"""One run of a command: its options, its output and its catalog."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pennon.cli import secrets
from pennon.cli.failures import CommandFailure, ExitCode
from pennon.cli.output import Output
from pennon.cli.settings import Connection, Options, resolve_connection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.api.catalog import LakeCatalog
    from pennon.catalog_namespace import CatalogNamespace
    from pennon.directory import DirectoryNamespace
    from pennon.directory.catalog import Catalog


@dataclass
class Session:
    """The options, the output and the catalog of one run."""

    options: Options = field(default_factory=Options)
    output: Output = field(default_factory=Output)
    debug: bool = False
    hidden: set[str] = field(default_factory=set, repr=False)
    """Values that must not appear in any message."""

    def connection(self) -> Connection:
        """Return the catalog's connection, from options, environment and files. Its secrets are masked from then on."""
        connection = resolve_connection(self.options, os.environ)
        self.hidden |= secrets.collect_secrets(connection.properties)
        return connection

    @contextmanager
    def lake(self, *, creates: bool = False) -> Iterator[LakeCatalog]:
        """Open the catalog by the Python API, whatever its implementation, and close it at the end.

        The root of a directory namespace must exist unless the command `creates` objects.
        """
        connection = self.connection()
        from pennon.api.catalog import LakeCatalog
        from pennon.connection import connect
        from pennon.directory import DirectoryNamespace

        with LakeCatalog(connect(connection.impl, connection.properties)) as opened:
            if isinstance(opened.namespace, DirectoryNamespace):
                _require_root(opened.namespace, creates=creates)
            yield opened

    @contextmanager
    def namespace(self) -> Iterator[CatalogNamespace[Any]]:
        """Open the namespace, and close it at the end. The root of a directory namespace must exist."""
        connection = self.connection()
        from pennon.connection import connect
        from pennon.directory import DirectoryNamespace
        from pennon.errors import UnsupportedOperationError
        from pennon.rest import RestNamespace

        with connect(connection.impl, connection.properties) as namespace:
            if isinstance(namespace, RestNamespace):
                raise UnsupportedOperationError(f"{namespace!r} is served already: name the catalog that it serves")
            if isinstance(namespace, DirectoryNamespace):
                _require_root(namespace, creates=False)
            yield namespace


def find_directory(lake: LakeCatalog) -> Catalog | None:
    """Return the catalog of a directory namespace, for what the interface of the SDK does not show; None for others."""
    from pennon.directory import DirectoryNamespace

    return lake.namespace.catalog if isinstance(lake.namespace, DirectoryNamespace) else None


def _require_root(namespace: DirectoryNamespace, *, creates: bool) -> None:
    """Raise CommandFailure if the root on a disk is not a directory: a missing root is usually a mistyped one."""
    store = namespace.catalog.store
    root = Path(store.identity())
    if not store.is_local or root.is_dir():
        return
    if root.exists():
        raise CommandFailure(f"The root {str(root)!r} is a file, not a directory")
    if not creates:
        raise CommandFailure(f"There is no catalog at {str(root)!r}: no such directory", ExitCode.NOT_FOUND)
