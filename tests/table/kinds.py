"""The kinds of catalogs that the operations on tables are tested with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance.namespace

from pennon import DirectoryNamespace
from tests.support import MODES

if TYPE_CHECKING:
    from pathlib import Path

    from lance_namespace import LanceNamespace

KINDS = ["v1", "v2", "managed", "pylance"]


def opened(kind: str, root: Path) -> LanceNamespace:
    """Open a catalog of a kind."""
    if kind == "pylance":
        return lance.namespace.DirectoryNamespace(root=str(root))
    ns = DirectoryNamespace(root=str(root), **MODES["v1" if kind == "v1" else "v2"])
    if kind == "managed":
        ns.enable_table_version_management()
    return ns
