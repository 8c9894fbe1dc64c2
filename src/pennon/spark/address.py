"""Where a catalog is: the only thing about it that travels to executors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pennon import DirectoryNamespace

_CREDENTIALS = "storage."
_CLIENTS = 16


@dataclass(frozen=True)
class Address:
    """An implementation and its properties. Plain values: every process opens its own client."""

    impl: str
    properties: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, impl: str, properties: Mapping[str, Any]) -> Address:
        """Make the address of what `pennon.connect(impl, properties)` opens; a relative root is made absolute here."""
        values = {key: str(value) for key, value in properties.items()}
        if impl == "dir" and "root" in values:
            from pennon.store.root import absolute_root  # noqa: PLC0415 - opens no store, but imports one

            values["root"] = absolute_root(values["root"])
        return cls(impl, tuple(sorted(values.items())))

    def connect(self) -> DirectoryNamespace:
        """Give this process's client of the catalog."""
        return _client(self)

    def __repr__(self) -> str:
        """Show the properties without the secrets among them."""
        visible = {key: "..." if key.startswith(_CREDENTIALS) else value for key, value in self.properties}
        return f"Address({self.impl!r}, {visible})"


@lru_cache(maxsize=_CLIENTS)
def _client(address: Address) -> DirectoryNamespace:
    # Lance, which these import, must not be there before a worker forks.
    from pennon import DirectoryNamespace, connect  # noqa: PLC0415
    from pennon.errors import UnsupportedOperationError  # noqa: PLC0415

    opened = connect(address.impl, dict(address.properties))
    if not isinstance(opened, DirectoryNamespace):
        raise UnsupportedOperationError(f"The data pipeline works on the implementation 'dir', not {address.impl!r}")
    return opened
