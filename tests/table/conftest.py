"""Fixtures of operations inside of tables: the same test bodies on every kind of catalog, and on pylance's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance.namespace
import pytest
from reference import reference_differs
from support import MODES

from pennon import DirectoryNamespace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lance_namespace import LanceNamespace

KINDS = ["v1", "v2", "managed", "pylance"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Expect of the reference client to fail where `reference_differs` says so, and nowhere else."""
    for item in items:
        callspec = getattr(item, "callspec", None)
        if callspec is None or callspec.params.get("namespace") != "pylance":
            continue
        function = item.name.partition("[")[0]
        case = item.name.partition("[")[2].rstrip("]").replace("pylance", "").strip("-")
        why = reference_differs.get(f"{function}[{case}]", reference_differs.get(function))
        if why is not None:
            item.add_marker(pytest.mark.xfail(strict=True, reason=why))


def opened(kind: str, root: Path) -> LanceNamespace:
    """Open a catalog of a kind."""
    if kind == "pylance":
        return lance.namespace.DirectoryNamespace(root=str(root))
    ns = DirectoryNamespace(root=str(root), **MODES["v1" if kind == "v1" else "v2"])
    if kind == "managed":
        ns.enable_table_version_management()
    return ns


@pytest.fixture(params=KINDS)
def namespace(request, tmp_path) -> Iterator[LanceNamespace]:
    """Open an empty root, in each kind of catalog and by the reference client."""
    ns = opened(request.param, tmp_path / "root")
    yield ns
    if isinstance(ns, DirectoryNamespace):
        ns.close()


@pytest.fixture(params=KINDS[:-1])
def ours(request, tmp_path) -> Iterator[DirectoryNamespace]:
    """Open an empty root, in each kind of catalog of ours."""
    with opened(request.param, tmp_path / "root") as ns:
        yield ns


@pytest.fixture
def managed(tmp_path) -> Iterator[DirectoryNamespace]:
    """Open an empty root whose catalog manages the versions of its tables."""
    with opened("managed", tmp_path / "root") as ns:
        yield ns
