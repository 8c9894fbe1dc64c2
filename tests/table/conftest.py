"""Fixtures for operations on tables: the same tests run on every kind of catalog and on the reference client."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pennon import DirectoryNamespace
from tests.table.kinds import KINDS, opened
from tests.table.reference import reference_differs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_namespace import LanceNamespace


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect the reference client to fail exactly in the tests that `reference.py` lists."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is None or callspec.params.get("namespace") != "pylance":
            continue
        function = item.name.partition("[")[0]
        case = item.name.partition("[")[2].rstrip("]").replace("pylance", "").strip("-")
        why = reference_differs.get(f"{function}[{case}]", reference_differs.get(function))
        if why is not None:
            item.add_marker(pytest.mark.xfail(strict=True, reason=why))


@pytest.fixture(params=KINDS)
def namespace(request, tmp_path) -> Iterator[LanceNamespace]:
    """Open an empty root in each kind of catalog, and with the reference client."""
    ns = opened(request.param, tmp_path / "root")
    yield ns
    if isinstance(ns, DirectoryNamespace):
        ns.close()


@pytest.fixture(params=KINDS[:-1])
def ours(request, tmp_path) -> Iterator[DirectoryNamespace]:
    """Open an empty root in each of our kinds of catalog."""
    with opened(request.param, tmp_path / "root") as ns:
        yield ns
