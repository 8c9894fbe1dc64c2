"""Fixtures of table versions: catalogs with and without version management, on each kind of store."""

from __future__ import annotations

import itertools
import uuid
from typing import TYPE_CHECKING

import pytest

from tests.servers import CountingS3
from tests.support import Root, create_namespace
from tests.versions.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PLACES = {
    "v1": ("v1", (), False),
    "v2": ("v2", (), False),
    "compatibility": ("compatibility", (), False),
    "v2-managed": ("v2", (), True),
    "v2-nested-managed": ("v2", ("a", "b"), True),
    "compatibility-managed": ("compatibility", (), True),
}
NEARBY = [("local", "v1"), ("memory", "v2"), ("local", "v2-nested-managed"), ("local", "compatibility-managed")]
EVERYWHERE = [
    *NEARBY,
    ("local", "compatibility"),
    ("local", "v2-managed"),
    ("memory", "compatibility-managed"),
    ("s3", "v1"),
    ("s3", "compatibility-managed"),
]
NEARBY_MANAGED = [(store, place) for store, place in NEARBY if PLACES[place][2]]
MANAGED = [*NEARBY_MANAGED, ("s3", "v2-managed")]
_numbers = itertools.count()


def _params(combinations: list[tuple[str, str]]) -> list:
    return [
        pytest.param(one, id="-".join(one), marks=[pytest.mark.s3] if one[0] == "s3" else []) for one in combinations
    ]


@pytest.fixture(scope="session")
def s3() -> Iterator[CountingS3]:
    with CountingS3() as server:
        yield server


@pytest.fixture
def new_root(request, tmp_path) -> Callable[[str], Root]:
    """Return a function that creates empty roots on a kind of store."""

    def new(store: str) -> Root:
        number = next(_numbers)
        if store == "local":
            return Root(str(tmp_path / f"root-{number}"))
        if store == "memory":
            return Root(f"memory://versions-{number}-{uuid.uuid4().hex}")
        endpoint = request.getfixturevalue("s3").endpoint
        return Root(endpoint.uri(f"versions-{number}"), endpoint.storage_options())

    return new


@pytest.fixture
def new_shelf(new_root, open_namespace) -> Callable[..., Shelf]:
    """Return a function that opens catalogs in a mode, managed or not, with a namespace for tables."""

    def new(store: str, place: str) -> Shelf:
        mode, parent, is_managed = PLACES[place]
        where = new_root(store)
        ns = open_namespace(where, mode)
        if is_managed:
            ns.enable_table_version_management()
        for depth in range(1, len(parent) + 1):
            create_namespace(ns, *parent[:depth])
        return Shelf(ns, where, parent, is_managed=is_managed)

    return new


@pytest.fixture(params=_params(EVERYWHERE))
def shelf(request, new_shelf) -> Shelf:
    """Return each kind of catalog, managed or not, on each kind of store."""
    return new_shelf(*request.param)


@pytest.fixture(params=_params(NEARBY))
def near_shelf(request, new_shelf) -> Shelf:
    """Return each kind of catalog, managed or not, for tests that do not depend on the store."""
    return new_shelf(*request.param)


@pytest.fixture(params=_params(MANAGED))
def managed_shelf(request, new_shelf) -> Shelf:
    """Return each kind of managed catalog, on each kind of store."""
    return new_shelf(*request.param)


@pytest.fixture(params=_params(NEARBY_MANAGED))
def near_managed_shelf(request, new_shelf) -> Shelf:
    """Return each kind of managed catalog, for tests that do not depend on the store."""
    return new_shelf(*request.param)
