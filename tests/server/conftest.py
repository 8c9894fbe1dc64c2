"""Fixtures of the server: processes of `pennon serve`, and clients that only know HTTP."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING

import pytest

from pennon import DirectoryNamespace, IcebergNamespace
from tests.iceberg.irc_servers import facade
from tests.server.http_client import Client
from tests.support import create_namespace, create_table, ipc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.iceberg.irc_servers import Irc


@pytest.fixture(scope="session")
def managed(tmp_path_factory) -> Iterator[Irc]:
    """Serve a catalog that manages versions."""
    with facade(tmp_path_factory.mktemp("managed"), managed=True) as server:
        yield server


@pytest.fixture(scope="session")
def plain(tmp_path_factory) -> Iterator[Irc]:
    """Serve a catalog whose tables' files decide about versions."""
    with facade(tmp_path_factory.mktemp("plain"), managed=False) as server:
        yield server


@pytest.fixture(params=["managed", "plain"])
def server(request) -> Irc:
    """Return each kind of server."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def catalog(server) -> Iterator[DirectoryNamespace]:
    """Open the catalog that is served."""
    with DirectoryNamespace(root=str(server.root)) as namespace:
        yield namespace


@pytest.fixture
def client(server) -> Client:
    """Speak plain HTTP to the server."""
    return Client(server.uri)


@pytest.fixture
def space(catalog) -> str:
    """Create a namespace of the test's own."""
    name = f"s{uuid.uuid4().hex[:12]}"
    create_namespace(catalog, name, properties={"owner": "tests"})
    return name


@pytest.fixture
def events(catalog, space) -> str:
    """Create a table of three versions, the second of which has another column."""
    create_table(catalog, space, "events", data=ipc({"id": [1, 2, 3], "name": ["a", "b", "c"]}), properties={"k": "v"})
    dataset = catalog._open_table((space, "events"))
    dataset.add_columns({"double": "id * 2"})
    dataset.delete("id = 1")
    return "events"


@pytest.fixture
def lance_client(server) -> Iterator[IcebergNamespace]:
    """Open the server by our own namespace; the server chooses where tables are."""
    with contextlib.closing(
        IcebergNamespace(uri=server.uri, managed_by="impl" if "managed" in str(server.root) else "storage")
    ) as namespace:
        yield namespace
