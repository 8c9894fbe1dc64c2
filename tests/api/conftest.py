"""Fixtures of the Python API: one catalog of each implementation."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

import pennon
from pennon import DirectoryNamespace
from pennon.server import access, app
from tests.rest.conftest import hub
from tests.support import MODES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon import LakeCatalog

__all__ = ["hub"]
KINDS = ("v2", "compatibility", "rest", "iceberg")


@dataclass(frozen=True)
class Place:
    """A catalog that a test opens, and the directory in which it is."""

    kind: str
    location: str
    options: dict
    directory: DirectoryNamespace

    def open(self) -> LakeCatalog:
        """Open the catalog."""
        return pennon.open(self.location, **self.options)

    def manage_versions(self) -> None:
        """Let the catalog manage the versions of its tables."""
        self.directory.enable_table_version_management()


@pytest.fixture(params=KINDS)
def place(request, tmp_path) -> Iterator[Place]:
    """Return an empty catalog of each implementation."""
    kind, root = request.param, str(tmp_path / "lake")
    with contextlib.ExitStack() as stack:
        if kind in MODES:
            directory = stack.enter_context(DirectoryNamespace(root=root, **MODES[kind]))
            yield Place(kind, root, {"properties": MODES[kind]}, directory)
            return
        directory = stack.enter_context(DirectoryNamespace(root=root))
        url = request.getfixturevalue("hub").add(app.build(directory, access.Access(), catalog=directory.catalog))
        if kind == "rest":
            yield Place(kind, url, {}, directory)
            return
        directory.enable_table_version_management()
        yield Place(
            kind,
            f"{url}/iceberg",
            {"impl": "iceberg", "properties": {"managed_by": "impl", "root": f"{root}/clients"}},
            directory,
        )


@pytest.fixture
def lake(place) -> Iterator[LakeCatalog]:
    """Open a catalog that has the namespace `sales`."""
    with place.open() as opened:
        opened.create_namespace("sales")
        yield opened
