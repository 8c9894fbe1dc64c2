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
from pennon.cli.settings import DEFAULT_IMPL, Connection, Options, resolve_connection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.api.catalog import LakeCatalog
    from pennon.catalog_namespace import CatalogNamespace
    from pennon.directory import DirectoryNamespace
    from pennon.directory.catalog import Catalog
    from pennon.rest import RestNamespace

REST = "rest"


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
    def catalog(self, *, creates: bool = False) -> Iterator[Catalog]:
        """Open the catalog, and close it at the end. The root must exist unless the command `creates` objects."""
        connection = self.connection()
        from pennon.config import DirectorySettings
        from pennon.connection import KNOWN
        from pennon.directory.catalog import open_catalog
        from pennon.errors import InvalidInputError, UnsupportedOperationError
        from pennon.store import open_store
        from pennon.store.root import make_root_absolute

        if connection.impl == REST:
            raise UnsupportedOperationError(
                "This command needs the catalog itself ('dir'), not a server; on a server, use ls, info, head, count, "
                "drop, undrop, trash, purge, and the commands of Spark"
            )
        if connection.impl == "iceberg":
            raise UnsupportedOperationError(
                "This command supports only directory namespaces ('dir'); on an Iceberg REST catalog, use 'pennon run' "
                "and 'pennon jobs'"
            )
        if connection.impl != DEFAULT_IMPL:
            raise InvalidInputError(f"Unknown namespace implementation {connection.impl!r}; known: {KNOWN}")
        settings = DirectorySettings.from_properties(connection.properties)
        store = open_store(make_root_absolute(settings.root), settings.storage_options)
        if store.is_local:
            _require_directory(Path(store.identity()), creates=creates)
        catalog = open_catalog(settings, store)
        try:
            yield catalog
        finally:
            catalog.close()

    @contextmanager
    def catalog_or_server(self) -> Iterator[Catalog | RestNamespace]:
        """Open the catalog, or the client of the server that has it, and close it at the end."""
        connection = self.connection()
        if connection.impl != REST:
            with self.catalog() as catalog:
                yield catalog
            return
        from pennon.connection import connect

        with connect("rest", connection.properties) as client:
            yield client

    @contextmanager
    def lake(self) -> Iterator[LakeCatalog]:
        """Open the catalog by the Python API, whatever its implementation, and close it at the end.

        The root of a directory namespace must exist.
        """
        connection = self.connection()
        from pennon.api.catalog import LakeCatalog
        from pennon.connection import connect
        from pennon.directory import DirectoryNamespace

        with LakeCatalog(connect(connection.impl, connection.properties)) as opened:
            if isinstance(opened.namespace, DirectoryNamespace):
                _require_root(opened.namespace)
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
                _require_root(namespace)
            yield namespace


def _require_root(namespace: DirectoryNamespace) -> None:
    store = namespace.catalog.store
    if store.is_local:
        _require_directory(Path(store.identity()), creates=False)


def _require_directory(root: Path, *, creates: bool) -> None:
    """Raise CommandFailure if the root is not a directory: a missing root is usually a mistyped one."""
    if root.is_dir():
        return
    if root.exists():
        raise CommandFailure(f"The root {str(root)!r} is a file, not a directory")
    if not creates:
        raise CommandFailure(f"There is no catalog at {str(root)!r}: no such directory", ExitCode.NOT_FOUND)
