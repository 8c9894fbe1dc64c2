"""Fixtures of the Lance protocol: servers over directories, and clients that speak to them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import lance_namespace
import pytest

from tests.server.http_client import LanceClient
from tests.support import create_namespace

if TYPE_CHECKING:
    from lance_namespace import LanceNamespace


@pytest.fixture
def client(server) -> LanceClient:
    """Speak plain HTTP to the server."""
    return LanceClient(server.lance)


@pytest.fixture
def pylance(server) -> LanceNamespace:
    """Return pylance's own client of the server."""
    return lance_namespace.connect("rest", {"uri": server.lance})


@pytest.fixture
def space(catalog) -> str:
    """Create a namespace of the test's own."""
    name = f"l{uuid.uuid4().hex[:12]}"
    create_namespace(catalog, name)
    return name
