"""Fixtures for the lifecycle of tables: catalogs in every mode, on a local disk, in memory and in a bucket."""

from __future__ import annotations

import itertools
import uuid
from typing import TYPE_CHECKING, Any

import lance
import pytest

from tests.servers import CountingS3
from tests.support import Root, create_namespace, describe_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon import DirectoryNamespace

PLACES = {
    "v1": ("v1", ()),
    "v2": ("v2", ()),
    "v2-nested": ("v2", ("a",)),
    "compatibility": ("compatibility", ()),
    "compatibility-nested": ("compatibility", ("a",)),
}
_numbers = itertools.count()


@pytest.fixture(scope="session")
def s3() -> Iterator[CountingS3]:
    with CountingS3() as server:
        yield server


@pytest.fixture(params=["local", "memory", pytest.param("s3", marks=pytest.mark.s3)])
def where(request, tmp_path) -> Root:
    """Return an empty root on each kind of store."""
    if request.param == "local":
        return Root(str(tmp_path / "root"))
    if request.param == "memory":
        return Root(f"memory://life-{next(_numbers)}-{uuid.uuid4().hex}")
    endpoint = request.getfixturevalue("s3").endpoint
    return Root(endpoint.uri(f"life-{next(_numbers)}"), endpoint.storage_options())


class Home:
    """A namespace in a catalog, and access to its tables with plain Lance."""

    def __init__(self, ns: DirectoryNamespace, where: Root, mode: str, parent: tuple[str, ...]) -> None:
        self.ns, self.where, self.mode, self.parent = ns, where, mode, parent
        self.by_marker = mode != "v2" and not parent
        """Whether tables in this namespace are root tables."""

    def id(self, name: str) -> list[str]:
        return [*self.parent, name]

    def open(self, location: str) -> Any:
        return lance.dataset(location, storage_options=self.where.options or None)

    def rows(self, name: str) -> list[int]:
        return self.open(describe_table(self.ns, *self.id(name)).location).to_table()["x"].to_pylist()


@pytest.fixture(params=list(PLACES))
def home(request, where, open_namespace) -> Home:
    """Return a namespace for tables in each mode: the root, and a nested namespace where the mode has them."""
    mode, parent = PLACES[request.param]
    ns = open_namespace(where, mode)
    if parent:
        create_namespace(ns, *parent)
    return Home(ns, where, mode, parent)
