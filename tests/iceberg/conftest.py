"""Fixtures of the Iceberg namespace: servers, and namespaces on them."""

from __future__ import annotations

import contextlib
import uuid
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from pennon import IcebergNamespace
from tests.iceberg.borrowed import Inside, reach
from tests.iceberg.irc_servers import Irc, LossyProxy, apache_fixture, facade, ministack, nessie, seaweed
from tests.iceberg.server_differences import DIFFERS
from tests.servers import SeaweedS3
from tests.spark_session import mark, spark
from tests.support import create_namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


__all__ = ["spark"]
OURS_DIFFERS = {
    "test_a_hidden_table_is_not_found_until_it_is_restored": "the server keeps and restores dropped tables itself",
}
"""Tests of borrowed suites that do not hold on our own server, each with the reason."""


@pytest.hookimpl(tryfirst=True)  # before the marks are looked at
def pytest_collection_modifyitems(items) -> None:
    """Mark what uses Spark, and what a borrowed suite cannot do here."""
    mark(items, "tests/iceberg/")
    for item in items:
        values = getattr(getattr(item, "callspec", None), "params", {})
        borrowed = item.path.name.startswith("test_suite_")
        if borrowed and values.get("moment") == "after the look":
            item.add_marker(pytest.mark.skip(reason="it reaches into the directory namespace's own code"))


@pytest.fixture(scope="session")
def apache(tmp_path_factory) -> Iterator[Irc]:
    """Start Apache's fixture once."""
    with apache_fixture(tmp_path_factory.mktemp("apache")) as server:
        yield server


@pytest.fixture(scope="session")
def mini(tmp_path_factory) -> Iterator[Irc]:
    """Start MiniStack once."""
    with ministack(tmp_path_factory.mktemp("ministack")) as server:
        yield server


@pytest.fixture(scope="session")
def served(tmp_path_factory) -> Iterator[Callable[[str], Irc]]:
    """Start our own server once for each way of managing versions."""
    with contextlib.ExitStack() as stack:
        started: dict[str, Irc] = {}

        def start(managed_by: str) -> Irc:
            if managed_by not in started:
                server = facade(tmp_path_factory.mktemp("facade"), managed=managed_by == "impl")
                started[managed_by] = stack.enter_context(server)
            return started[managed_by]

        yield start


@pytest.fixture(scope="session")
def weed() -> Iterator[SeaweedS3]:
    """Start SeaweedFS once, with its Iceberg catalog."""
    with SeaweedS3(iceberg=True) as server:
        yield server


@pytest.fixture(scope="session")
def weed_catalog(weed) -> Iterator[Irc]:
    """Return the Iceberg catalog of SeaweedFS."""
    with seaweed(weed) as server:
        yield server


@pytest.fixture(scope="session")
def nessie_catalog(weed, tmp_path_factory) -> Iterator[Irc]:
    """Start Nessie once, on a bucket of SeaweedFS."""
    with nessie(tmp_path_factory.mktemp("nessie"), weed.endpoint) as server:
        yield server


def pytest_generate_tests(metafunc) -> None:
    """Run what asks for a server on each that the module is for."""
    chosen = [name for mark in metafunc.definition.iter_markers("parametrize") for name in mark.args[:1]]
    if "irc" in metafunc.fixturenames and "irc" not in chosen:
        metafunc.parametrize("irc", getattr(metafunc.module, "SERVERS", ["apache", "facade"]), indirect=True)


@pytest.fixture
def irc(request, managed_by, monkeypatch) -> Irc:
    """Return a server that the namespace works with."""
    name = request.node.name.partition("[")[0]
    differs = DIFFERS.get(request.param, {})
    reason = differs.get(name) or differs.get(f"{name} {managed_by}")
    if reason is not None:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    if request.param == "facade":
        return request.getfixturevalue("served")(managed_by)
    if request.param == "apache":
        return request.getfixturevalue("apache")
    server = request.getfixturevalue({"seaweed": "weed_catalog", "nessie": "nessie_catalog"}[request.param])
    reach(server.bucket, monkeypatch)
    return server


@pytest.fixture
def client_root(request, tmp_path) -> str | None:
    """Name a new root for clients, where the server wants it; None if it wants none."""
    server = request.getfixturevalue("irc") if "irc" in request.fixturenames else Irc("")
    if server.bucket is not None:
        return server.clients and f"{server.clients}/c{uuid.uuid4().hex}"
    return str(tmp_path / "root" if server.root is None else server.root / "clients" / uuid.uuid4().hex)


@pytest.fixture
def connect(request, client_root) -> Iterator[Callable[..., IcebergNamespace]]:
    """Open namespaces that are closed at the end of the test."""
    opened: list[IcebergNamespace] = []
    common = request.getfixturevalue("irc").properties if "irc" in request.fixturenames else {}

    def open_one(uri: str, **properties: str) -> IcebergNamespace:
        given = {"root": client_root, **common, **properties}
        namespace = IcebergNamespace(uri=uri, **{key: value for key, value in given.items() if value is not None})
        opened.append(namespace)
        return namespace

    yield open_one
    for namespace in opened:
        namespace.close()


@pytest.fixture(params=["storage", "impl"])
def managed_by(request) -> str:
    """Name who manages versions."""
    return request.param


@pytest.fixture
def catalog(irc, connect, managed_by) -> IcebergNamespace:
    """Open a server, for tables of each kind."""
    return connect(irc.uri, managed_by=managed_by)


@pytest.fixture
def space(catalog) -> str:
    """Create a namespace of the test's own."""
    name = f"s{uuid.uuid4().hex[:12]}"
    create_namespace(catalog, name)
    return name


@pytest.fixture
def lossy(irc) -> Iterator[LossyProxy]:
    """Put a proxy that loses requests and answers before a server."""
    with LossyProxy(irc.uri) as proxy:
        # Some servers say in their configuration where they are, as they were addressed.
        named = f"{proxy.uri}{urlsplit(irc.uri).path}"
        proxy.rewrite = lambda content: content.replace(named.encode(), proxy.uri.encode())
        yield proxy


@pytest.fixture
def namespace(request, irc, catalog, space) -> Inside:
    """Return a catalog for suites whose tables are at the root: here they are in a namespace of their own."""
    reason = OURS_DIFFERS.get(request.node.name.partition("[")[0])
    if irc.root is not None and reason is not None:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    return Inside(catalog, space)


@pytest.fixture
def ours(namespace) -> Inside:
    """Return the same catalog to suites that tell clients of ours from others."""
    return namespace


@pytest.fixture
def other(ours, connect) -> Inside:
    """Open a second client of the same server, for the same namespace."""
    properties = dict(ours._properties)
    return Inside(connect(properties.pop("uri"), **properties), ours._space)
