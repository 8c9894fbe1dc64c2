"""Fixtures of the REST client: servers in this process, over directories in each mode."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from pennon import DirectoryNamespace, RestNamespace
from pennon.server import access, app, running
from tests.iceberg.hostile import HostileServer
from tests.spark_session import mark, spark
from tests.support import MODES, Root, create_namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


__all__ = ["spark"]
PLACES = {"served": ("compatibility", ("a", "b")), "v1": ("v1", ()), "v2": ("v2", ())}


@pytest.hookimpl(tryfirst=True)  # before the marks are looked at
def pytest_collection_modifyitems(items) -> None:
    """Mark what uses Spark."""
    mark(items, "tests/rest/")


class Hub:
    """One server for many applications: the first part of a path names the application."""

    def __init__(self) -> None:
        self._applications: dict[str, Any] = {}
        self.url = ""

    async def __call__(self, scope, receive, send) -> None:
        """Answer a request by the application that its path names."""
        name = scope["path"].split("/")[1]
        prefix = f"/{name}"
        inner = {
            **scope,
            "path": scope["path"].removeprefix(prefix),
            "raw_path": scope["raw_path"].removeprefix(prefix.encode()),
        }
        await self._applications[name](inner, receive, send)

    def add(self, application: Any) -> str:
        """Serve an application, and return its address."""
        name = f"n{len(self._applications)}"
        self._applications[name] = application
        return f"{self.url}/{name}"


class ServedNamespace(RestNamespace):
    """A client of a server in this process, which knows what is served."""

    served: ClassVar[dict[str, DirectoryNamespace]] = {}

    def __repr__(self) -> str:
        """Return the mode, too, for tests that depend on it."""
        return f"{super().__repr__()} of {self.served[self._settings.uri]!r}"


@pytest.fixture(scope="session")
def hub() -> Iterator[Hub]:
    """Run a server in a thread of this process."""
    made = Hub()
    with running.listening("127.0.0.1", 0) as taken:
        made.url = running.address(taken)
        served = running.server(made)
        thread = threading.Thread(target=served.run, kwargs={"sockets": [taken]})
        thread.start()
        yield made
        served.should_exit = True
        thread.join()


@pytest.fixture
def root(tmp_path) -> Root:
    """Return an empty root on a disk."""
    return Root(str(tmp_path / "root"))


@pytest.fixture
def open_namespace(hub) -> Iterator[Callable[..., RestNamespace]]:
    """Open clients of servers over a root. What looks at files finds the store that is served."""
    with contextlib.ExitStack() as stack:

        def open_one(root: Root | str, mode: str = "compatibility", **properties: Any) -> RestNamespace:
            where = root if isinstance(root, Root) else Root(str(root))
            served = stack.enter_context(DirectoryNamespace(**where.properties, **MODES[mode], **properties))
            client = stack.enter_context(ServedNamespace(uri=hub.add(app.build(served, access.Access()))))
            client._store = served._store
            client._directory = client.served[client._settings.uri] = served
            return client

        yield open_one


@pytest.fixture(params=list(MODES))
def mode(request) -> str:
    """Return one of the three modes."""
    return request.param


@pytest.fixture
def namespace(root, mode, open_namespace) -> RestNamespace:
    """Open an empty root in each mode."""
    return open_namespace(root, mode)


@pytest.fixture(params=list(PLACES))
def place(request, root, open_namespace) -> tuple[RestNamespace, tuple[str, ...]]:
    """Return a catalog in each mode and a namespace for tables: a nested one in compatibility mode."""
    mode, parent = PLACES[request.param]
    ns = open_namespace(root, mode)
    for depth in range(1, len(parent) + 1):
        create_namespace(ns, *parent[:depth])
    return ns, parent


@pytest.fixture(params=["v2", "compatibility"])
def nested(request, root, open_namespace) -> RestNamespace:
    """Open an empty root in the modes that have child namespaces."""
    return open_namespace(root, request.param)


@pytest.fixture
def hostile() -> Iterator[HostileServer]:
    """Run a server that answers what the test says."""
    with HostileServer() as server:
        yield server
