"""Helpers for tests: requests in one line, Arrow IPC data, expected error codes."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from pennon.testing.calls import (
    create_namespace,
    create_table,
    declare_table,
    deregister_table,
    describe_namespace,
    describe_table,
    drop_namespace,
    drop_table,
    fails,
    ipc,
    list_all_tables,
    list_namespaces,
    list_tables,
    namespace_exists,
    register_table,
    remove_table,
    rename_table,
    table_exists,
)

__all__ = [
    "MODES",
    "Root",
    "create_namespace",
    "create_table",
    "declare_table",
    "deregister_table",
    "describe_namespace",
    "describe_table",
    "drop_namespace",
    "drop_table",
    "fails",
    "ipc",
    "list_all_tables",
    "list_namespaces",
    "list_tables",
    "namespace_exists",
    "register_table",
    "remove_table",
    "rename_table",
    "table_exists",
    "wait_for_background_work",
]

MODES: dict[str, dict[str, str]] = {
    "v1": {"manifest_enabled": "false", "dir_listing_enabled": "true"},
    "v2": {"manifest_enabled": "true", "dir_listing_enabled": "false"},
    "compatibility": {"manifest_enabled": "true", "dir_listing_enabled": "true"},
}


@dataclass(frozen=True)
class Root:
    """The location of a catalog, and the options that open it."""

    uri: str
    options: dict[str, str] = field(default_factory=dict)

    @property
    def properties(self) -> dict[str, str]:
        """The properties that open a namespace at this root."""
        return {"root": self.uri, **{f"storage.{key}": value for key, value in self.options.items()}}


def wait_for_background_work() -> None:
    """Wait for background work of this process, so that its requests count for the operation that started it."""
    for thread in threading.enumerate():
        if thread.name in {"pennon-upkeep", "pennon-finish"}:
            thread.join()
