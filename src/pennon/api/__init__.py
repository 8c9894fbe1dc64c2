"""The Python API: `pennon.open(...)` returns a `LakeCatalog`, whose tables are `LakeTable` objects.

It is a thin layer over the namespace interface of `pennon.connect(...)`, and works the same on a directory, an Iceberg
REST catalog and a server. See docs/guides/python.md.
"""

from __future__ import annotations

from pennon.api.catalog import LakeCatalog
from pennon.api.opening import open  # noqa: A004 - read as `pennon.open`
from pennon.api.results import RowChanges, TableVersionInfo
from pennon.api.search import TableSearch
from pennon.api.table import LakeTable
from pennon.api.transaction import LakeTransaction

__all__ = [
    "LakeCatalog",
    "LakeTable",
    "LakeTransaction",
    "RowChanges",
    "TableSearch",
    "TableVersionInfo",
    "open",
]
