"""The directory namespace: namespaces, tables and versions in one directory, V1, V2 and compatibility mode."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pennon.directory.namespace import DirectoryNamespace
    from pennon.table_commits import NewTable, TableCommit

__all__ = ["DirectoryNamespace", "NewTable", "TableCommit"]

# Imported when they are asked for: what works on a catalog without requests and responses does not need the SDK's
# models (docs/adr/0010).
_HOMES = {
    "DirectoryNamespace": "pennon.directory.namespace",
    "NewTable": "pennon.table_commits",
    "TableCommit": "pennon.table_commits",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
