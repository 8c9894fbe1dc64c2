"""One run of a command: what it was told, where its result goes, and the catalog that it works on."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pennon.cli import secrets
from pennon.cli.failures import CommandFailure, ExitCode
from pennon.cli.output import Output
from pennon.cli.settings import DEFAULT_IMPL, Connection, Options, resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.directory.catalog import Catalog


@dataclass
class Session:
    """What a command gets to work with."""

    options: Options = field(default_factory=Options)
    output: Output = field(default_factory=Output)
    debug: bool = False
    hidden: set[str] = field(default_factory=set, repr=False)
    """Values that must not appear in any message."""

    def connection(self) -> Connection:
        """Find out which catalog is meant, from options, environment and files; its secrets are hidden from then on."""
        connection = resolve(self.options, os.environ)
        self.hidden |= secrets.values(connection.properties)
        return connection

    @contextmanager
    def catalog(self, *, creates: bool = False) -> Iterator[Catalog]:
        """Open the catalog, and close it at the end. Unless the command `creates` something, its root has to exist."""
        connection = self.connection()
        from pennon.config import DirectorySettings
        from pennon.directory.catalog import open_catalog
        from pennon.errors import InvalidInputError, UnsupportedOperationError
        from pennon.store import open_store
        from pennon.store.root import make_root_absolute

        if connection.impl == "iceberg":
            raise UnsupportedOperationError(
                "This command works on directory namespaces ('dir'); on an Iceberg REST catalog, 'pennon run' does"
            )
        if connection.impl != DEFAULT_IMPL:
            raise InvalidInputError(f"Unknown namespace implementation {connection.impl!r}; known: {DEFAULT_IMPL}")
        settings = DirectorySettings.from_properties(connection.properties)
        store = open_store(make_root_absolute(settings.root), settings.storage_options)
        if store.is_local:
            _require_directory(Path(store.identity()), creates=creates)
        catalog = open_catalog(settings, store)
        try:
            yield catalog
        finally:
            catalog.close()


def _require_directory(root: Path, *, creates: bool) -> None:
    """Tell a root that is not there from an empty one, which is a mistyped name for most."""
    if root.is_dir():
        return
    if root.exists():
        raise CommandFailure(f"The root {str(root)!r} is a file, not a directory")
    if not creates:
        raise CommandFailure(f"There is no catalog at {str(root)!r}: no such directory", ExitCode.NOT_FOUND)
