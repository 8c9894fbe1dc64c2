"""Servers in this process: as real as others, and started in no time."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pennon import DirectoryNamespace
from pennon.server import app as application
from pennon.server import running
from pennon.server.access import Access

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.catalog_namespace import CatalogNamespace


@contextmanager
def served(namespace: CatalogNamespace[Any], access: Access | None = None, **parts: Any) -> Iterator[str]:
    """Serve a namespace, and return the URL. The caller closes the namespace."""
    catalog = namespace.catalog if isinstance(namespace, DirectoryNamespace) else None
    server = running.server(application.build(namespace, access or Access(), catalog=catalog, **parts))
    with running.listening("127.0.0.1", 0) as taken:
        serving = threading.Thread(target=server.run, kwargs={"sockets": [taken]})
        serving.start()
        try:
            yield running.address(taken)
        finally:
            server.should_exit = True
            serving.join()
