"""Fixtures of the contract: where tables can live, and catalogs that have child namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support import create_namespace

if TYPE_CHECKING:
    from pennon import DirectoryNamespace

PLACES = {
    "v1": ("v1", ()),
    "v2": ("v2", ()),
    "v2-nested": ("v2", ("a", "b")),
    "compatibility": ("compatibility", ()),
    "compatibility-nested": ("compatibility", ("a", "b")),
}


@pytest.fixture(params=list(PLACES))
def place(request, root, open_namespace) -> tuple[DirectoryNamespace, tuple[str, ...]]:
    """Return a catalog in each mode and a namespace for tables: the root, and a nested one except in V1."""
    mode, parent = PLACES[request.param]
    ns = open_namespace(root, mode)
    for depth in range(1, len(parent) + 1):
        create_namespace(ns, *parent[:depth])
    return ns, parent


@pytest.fixture(params=["v2", "compatibility"])
def nested(request, root, open_namespace) -> DirectoryNamespace:
    """Open an empty root in the modes that have child namespaces."""
    return open_namespace(root, request.param)
