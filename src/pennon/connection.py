"""Opening a namespace by the name of its implementation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon.directory import DirectoryNamespace
from pennon.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping

_IMPLEMENTATIONS: dict[str, type[DirectoryNamespace]] = {"dir": DirectoryNamespace}


def connect(impl: str, properties: Mapping[str, Any]) -> DirectoryNamespace:
    """Open the namespace `impl` ("dir") with `properties`; bad ones raise InvalidInputError (13)."""
    if impl not in _IMPLEMENTATIONS:
        known = ", ".join(sorted(_IMPLEMENTATIONS))
        raise InvalidInputError(f"Unknown namespace implementation {impl!r}; known: {known}")
    return _IMPLEMENTATIONS[impl](**properties)
