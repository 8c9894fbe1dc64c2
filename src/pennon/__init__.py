"""Pennon: a catalog for Lance tables that needs no server.

`open(location)` opens a catalog of any kind, for Python programs and notebooks. Below it is the interface of the SDK:
`connect("dir", {...})` opens the directory namespace; `DirectoryNamespace(root=...)` does the same directly.
`connect("iceberg", {...})` and `IcebergNamespace(uri=...)` open a catalog on an Iceberg REST server,
`connect("rest", {...})` and `RestNamespace(uri=...)` one behind a Lance REST namespace server, such as `pennon serve`.
The other names are types that operations take and return. `__version__` is the installed version.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pennon.api import (
        LakeCatalog,
        LakeTable,
        LakeTransaction,
        RowChanges,
        TableSearch,
        TableVersionInfo,
        open,  # noqa: A004 - read as `pennon.open`
    )
    from pennon.connection import connect
    from pennon.directory import DirectoryNamespace
    from pennon.iceberg import IcebergNamespace
    from pennon.rest import RestNamespace
    from pennon.results import (
        DoctorCheck,
        DoctorReport,
        DroppedTable,
        Finding,
        KeptTable,
        ManagementReport,
        MarkerReport,
        MigratedTable,
        MigrationReport,
        Problem,
        PurgedTable,
        PurgeReport,
        SkippedEntry,
        StorePromise,
        TableStatus,
        TableStatusReport,
    )
    from pennon.table_commits import NewTable, TableCommit

    __version__: str

__all__ = [
    "DirectoryNamespace",
    "DoctorCheck",
    "DoctorReport",
    "DroppedTable",
    "Finding",
    "IcebergNamespace",
    "KeptTable",
    "LakeCatalog",
    "LakeTable",
    "LakeTransaction",
    "ManagementReport",
    "MarkerReport",
    "MigratedTable",
    "MigrationReport",
    "NewTable",
    "Problem",
    "PurgeReport",
    "PurgedTable",
    "RestNamespace",
    "RowChanges",
    "SkippedEntry",
    "StorePromise",
    "TableCommit",
    "TableSearch",
    "TableStatus",
    "TableStatusReport",
    "TableVersionInfo",
    "__version__",
    "connect",
    "open",
]

# Imported on first use: the SDK's models take seconds to import, and many parts of Pennon do not need them
# (docs/adr/0010).
_HOMES = {
    "DirectoryNamespace": "pennon.directory",
    "IcebergNamespace": "pennon.iceberg",
    "LakeCatalog": "pennon.api",
    "LakeTable": "pennon.api",
    "LakeTransaction": "pennon.api",
    "NewTable": "pennon.table_commits",
    "RestNamespace": "pennon.rest",
    "RowChanges": "pennon.api",
    "TableCommit": "pennon.table_commits",
    "TableSearch": "pennon.api",
    "TableVersionInfo": "pennon.api",
    "connect": "pennon.connection",
    "open": "pennon.api",
}
_RESULTS = "pennon.results"


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - slow, and rarely needed

        value: Any = version("pennon")
    else:
        value = getattr(import_module(_HOMES.get(name, _RESULTS)), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
