"""Pennon: a catalog for Lance tables that needs no server.

`connect("dir", {...})` opens the directory namespace; `DirectoryNamespace(root=...)` does the same directly.
`connect("iceberg", {...})` and `IcebergNamespace(uri=...)` open a catalog on an Iceberg REST server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pennon.connection import connect
    from pennon.directory import DirectoryNamespace, NewTable, TableCommit
    from pennon.iceberg import IcebergNamespace

__all__ = ["DirectoryNamespace", "IcebergNamespace", "NewTable", "TableCommit", "connect"]

# Imported when they are asked for: the SDK's models cost seconds, and not every part of Pennon needs them
# (docs/adr/0010).
_HOMES = {
    "DirectoryNamespace": "pennon.directory",
    "IcebergNamespace": "pennon.iceberg",
    "NewTable": "pennon.directory",
    "TableCommit": "pennon.directory",
    "connect": "pennon.connection",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - as the public name
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
