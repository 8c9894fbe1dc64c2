"""Open a namespace by the name of its implementation."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, overload

from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from pennon.directory import DirectoryNamespace
    from pennon.iceberg import IcebergNamespace
    from pennon.rest import RestNamespace

    AnyNamespace: TypeAlias = DirectoryNamespace | IcebergNamespace | RestNamespace

# Imported on first use: hardly any program needs all.
_IMPLEMENTATIONS = {
    "dir": ("pennon.directory", "DirectoryNamespace"),
    "iceberg": ("pennon.iceberg", "IcebergNamespace"),
    "rest": ("pennon.rest", "RestNamespace"),
}
KNOWN = ", ".join(sorted(_IMPLEMENTATIONS))
"""The names of all implementations, for messages."""


@overload
def connect(impl: Literal["dir"], properties: Mapping[str, Any]) -> DirectoryNamespace: ...


@overload
def connect(impl: Literal["iceberg"], properties: Mapping[str, Any]) -> IcebergNamespace: ...


@overload
def connect(impl: Literal["rest"], properties: Mapping[str, Any]) -> RestNamespace: ...


@overload
def connect(impl: str, properties: Mapping[str, Any]) -> AnyNamespace: ...


def connect(impl: str, properties: Mapping[str, Any]) -> AnyNamespace:
    """Open the namespace `impl` ("dir", "iceberg" or "rest").

    Raises InvalidInputError if the implementation or a property is unknown.
    """
    if impl not in _IMPLEMENTATIONS:
        raise InvalidInputError(f"Unknown namespace implementation {impl!r}; known: {KNOWN}")
    module, name = _IMPLEMENTATIONS[impl]
    opened: AnyNamespace = getattr(import_module(module), name)(**properties)
    return opened
