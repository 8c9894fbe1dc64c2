"""Fixtures of the interop tests: two kinds of client on one root."""

from __future__ import annotations

import pytest

from tests.interop import peers
from tests.support import Root


@pytest.fixture
def place(tmp_path) -> Root:
    """Return an empty root."""
    return Root(str(tmp_path / "root"))


@pytest.fixture
def ours(place, mode, open_namespace):
    """Open Pennon in each mode."""
    return open_namespace(place, mode)


@pytest.fixture
def reference(place, mode):
    """Open pylance's own client in each mode."""
    return peers.reference_client(place, mode)


@pytest.fixture(params=["pennon writes", "reference writes"])
def pair(request, ours, reference):
    """Return the writing client and the other one."""
    return (ours, reference) if request.param == "pennon writes" else (reference, ours)


@pytest.fixture(params=["v2", "compatibility"])
def manifest_mode(request) -> str:
    """Return a mode that has a manifest."""
    return request.param


@pytest.fixture(params=["pennon writes", "reference writes"])
def manifest_pair(request, place, manifest_mode, open_namespace):
    """Return the writing client and the other one, in the modes that have a manifest."""
    clients = [open_namespace(place, manifest_mode), peers.reference_client(place, manifest_mode)]
    return clients if request.param == "pennon writes" else clients[::-1]
