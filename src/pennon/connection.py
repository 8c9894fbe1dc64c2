"""Open a namespace by the name of its implementation."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, overload

from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pennon.directory import DirectoryNamespace
    from pennon.iceberg import IcebergNamespace

# Imported on first use: hardly any program needs both.
_IMPLEMENTATIONS = {
    "dir": ("pennon.directory", "DirectoryNamespace"),
    "iceberg": ("pennon.iceberg", "IcebergNamespace"),
}
KNOWN = ", ".join(sorted(_IMPLEMENTATIONS))
"""The names of all implementations, for messages."""


@overload
def connect(impl: Literal["dir"], properties: Mapping[str, Any]) -> DirectoryNamespace: ...


@overload
def connect(impl: Literal["iceberg"], properties: Mapping[str, Any]) -> IcebergNamespace: ...


@overload
def connect(impl: str, properties: Mapping[str, Any]) -> DirectoryNamespace | IcebergNamespace: ...


def connect(impl: str, properties: Mapping[str, Any]) -> DirectoryNamespace | IcebergNamespace:
    """Open the namespace `impl` ("dir" or "iceberg"). Raises InvalidInputError if it or a property is unknown."""
    if impl not in _IMPLEMENTATIONS:
        raise InvalidInputError(f"Unknown namespace implementation {impl!r}; known: {KNOWN}")
    module, name = _IMPLEMENTATIONS[impl]
    opened: DirectoryNamespace | IcebergNamespace = getattr(import_module(module), name)(**properties)
    return opened
