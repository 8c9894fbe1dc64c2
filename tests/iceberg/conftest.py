"""Fixtures of the Iceberg namespace: servers, and namespaces on them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from borrowed import Inside
from irc_servers import Irc, LossyProxy, apache_fixture, ministack
from spark_session import mark, spark
from support import create_namespace

from pennon import IcebergNamespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


__all__ = ["spark"]


@pytest.hookimpl(tryfirst=True)  # before the marks are looked at
def pytest_collection_modifyitems(items) -> None:
    """Mark what uses Spark."""
    mark(items, "tests/iceberg/")


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


@pytest.fixture
def connect(tmp_path) -> Iterator[Callable[..., IcebergNamespace]]:
    """Open namespaces that are closed at the end of the test; the root is new."""
    opened: list[IcebergNamespace] = []

    def open_one(uri: str, **properties: str) -> IcebergNamespace:
        given = {"root": str(tmp_path / "root"), **properties}
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
def catalog(apache, connect, managed_by) -> IcebergNamespace:
    """Open Apache's fixture, for tables of each kind."""
    return connect(apache.uri, managed_by=managed_by)


@pytest.fixture
def space(catalog) -> str:
    """Create a namespace of the test's own."""
    name = f"s{uuid.uuid4().hex[:12]}"
    create_namespace(catalog, name)
    return name


@pytest.fixture
def lossy(apache) -> Iterator[LossyProxy]:
    """Put a proxy that loses requests and answers before Apache's fixture."""
    with LossyProxy(apache.uri) as proxy:
        yield proxy


@pytest.fixture
def namespace(catalog, space) -> Inside:
    """Give a catalog for suites whose tables are at the root: here they are in a namespace of their own."""
    return Inside(catalog, space)


@pytest.fixture
def ours(namespace) -> Inside:
    """Give the same catalog to suites that tell clients of ours from others."""
    return namespace


@pytest.fixture
def other(ours, connect) -> Inside:
    """Open a second client of the same server, for the same namespace."""
    properties = dict(ours._properties)
    return Inside(connect(properties.pop("uri"), **properties), ours._space)
