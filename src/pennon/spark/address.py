"""Where a catalog is: the only thing about it that travels to executors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pennon.config import STORAGE_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pennon import DirectoryNamespace, IcebergNamespace

    Client = DirectoryNamespace | IcebergNamespace

_HARMLESS = frozenset(
    {
        "assume-lance-tables",
        "connect_timeout",
        "dir_listing_enabled",
        "drop_ttl",
        "managed_by",
        "manifest_enabled",
        "max_answer_bytes",
        "max_snapshots",
        "prefix",
        "read_timeout",
        "rest-page-size",
        "rest.signing-name",
        "rest.signing-region",
        "rest.sigv4-enabled",
        "retry_timeout",
        "root",
        "uri",
        "vended-credentials-enabled",
        "warehouse",
    }
)
"""Properties that may be shown; all others may hold secrets."""
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
        if "root" in values:
            from pennon.store.root import make_root_absolute

            values["root"] = make_root_absolute(values["root"])
        return cls(impl, tuple(sorted(values.items())))

    def connect(self) -> Client:
        """Give this process's client of the catalog."""
        return _client(self)

    def directory(self) -> DirectoryNamespace:
        """Give the same for what only a directory namespace can do; 0 if it is none."""
        from pennon import DirectoryNamespace
        from pennon.errors import UnsupportedOperationError

        client = _client(self)
        if not isinstance(client, DirectoryNamespace):
            raise UnsupportedOperationError(f"This works on the implementation 'dir', not on {self.impl!r}")
        return client

    @property
    def storage_options(self) -> dict[str, str]:
        """Give what Lance and the stores are told to reach the catalog's files, as the user set it."""
        return {
            key.removeprefix(STORAGE_PREFIX): value for key, value in self.properties if key.startswith(STORAGE_PREFIX)
        }

    def __repr__(self) -> str:
        """Show the properties without the secrets among them."""
        visible = {key: value if key in _HARMLESS else "..." for key, value in self.properties}
        return f"Address({self.impl!r}, {visible})"


@lru_cache(maxsize=_CLIENTS)
def _client(address: Address) -> Client:
    # Lance, which this imports, must not be there before a worker forks.
    from pennon import connect

    return connect(address.impl, dict(address.properties))
