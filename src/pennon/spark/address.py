"""The address of a catalog: its implementation and properties, which are sent to executors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pennon.config import STORAGE_PREFIX

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from pennon import DirectoryNamespace
    from pennon.catalog_namespace import CatalogNamespace
    from pennon.rest import RestNamespace

    Client: TypeAlias = CatalogNamespace[Any] | RestNamespace

_SHOWN_PROPERTIES = {
    *(
        "assume-lance-tables",
        "connect_timeout",
        "delimiter",
        "dir_listing_enabled",
        "drop_ttl",
        "managed_by",
        "manifest_enabled",
    ),
    *("max_answer_bytes", "max_snapshots", "prefix", "read_timeout", "rest-page-size", "rest.signing-name"),
    *("rest.signing-region", "rest.sigv4-enabled", "retry_timeout", "root", "uri", "vended-credentials-enabled"),
    "warehouse",
}
"""Properties that are shown; all others may be secrets."""
_CACHED_CLIENTS = 16


@dataclass(frozen=True)
class Address:
    """An implementation and its properties. It can be pickled: every process opens its own client."""

    impl: str
    properties: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, impl: str, properties: Mapping[str, Any]) -> Address:
        """Return the address of the catalog that `pennon.connect(impl, properties)` opens, with an absolute root."""
        values = {key: str(value) for key, value in properties.items()}
        if "root" in values:
            from pennon.store.root import make_root_absolute

            values["root"] = make_root_absolute(values["root"])
        return cls(impl, tuple(sorted(values.items())))

    def connect(self) -> Client:
        """Return the client of the catalog that this process uses."""
        return _client(self)

    def directory(self) -> DirectoryNamespace:
        """Return the client as a directory namespace; raises UnsupportedOperationError if it is not one."""
        from pennon import DirectoryNamespace
        from pennon.errors import UnsupportedOperationError

        client = _client(self)
        if not isinstance(client, DirectoryNamespace):
            raise UnsupportedOperationError(
                f"This operation needs the implementation 'dir', but the catalog has {self.impl!r}"
            )
        return client

    def lifecycle_client(self) -> DirectoryNamespace | RestNamespace:
        """Return the client, which can protect objects and restore namespaces.

        Raises UnsupportedOperationError if the implementation cannot.
        """
        from pennon.rest import RestNamespace

        client = _client(self)
        return client if isinstance(client, RestNamespace) else self.directory()

    @property
    def storage_options(self) -> dict[str, str]:
        """Return the storage options among the properties, as the user set them."""
        return {
            key.removeprefix(STORAGE_PREFIX): value for key, value in self.properties if key.startswith(STORAGE_PREFIX)
        }

    def __repr__(self) -> str:
        """Return the implementation and the properties, without secrets."""
        visible = {key: value if key in _SHOWN_PROPERTIES else "..." for key, value in self.properties}
        return f"Address({self.impl!r}, {visible})"


@lru_cache(maxsize=_CACHED_CLIENTS)
def _client(address: Address) -> Client:
    # `connect` imports Lance, which must not be imported before a worker forks.
    from pennon import connect

    return connect(address.impl, dict(address.properties))
