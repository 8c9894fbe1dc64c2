"""What every operation of a directory namespace works with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import lance

from pennon.directory import layout
from pennon.directory.lookup.resolve import Resolver
from pennon.directory.manifest import Manifest
from pennon.errors import UnsupportedOperationError
from pennon.table.handles import HandleCache

if TYPE_CHECKING:
    from pennon.config import DirectorySettings
    from pennon.store import Store


_CACHE_BYTES = 32 << 20


def _session() -> Any:
    return lance.Session(index_cache_size_bytes=_CACHE_BYTES, metadata_cache_size_bytes=_CACHE_BYTES)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Catalog:
    """One root in one mode."""

    settings: DirectorySettings
    store: Store
    manifest: Manifest | None
    resolver: Resolver
    session: Any = field(default_factory=_session)
    """What tables that were opened have in common: what is known of their versions, and connections."""
    handles: HandleCache = field(default_factory=HandleCache)
    """Tables that stay open between operations inside of them."""

    @property
    def lists_directories(self) -> bool:
        """Tell whether root tables are found by listing the root."""
        return self.settings.dir_listing_enabled

    def shown_location(self, location: str) -> str:
        """Return where a row says that its table is; one that leads out of the root is shown as it stands."""
        return self.store.location(location) if layout.location_fault(location) is None else location

    def require_manifest(self, operation: str) -> Manifest:
        """Give the manifest, or raise UnsupportedOperationError (0) in V1, which has none."""
        if self.manifest is None:
            raise UnsupportedOperationError(
                f"{operation} needs the manifest: it is not supported with manifest_enabled=false"
            )
        return self.manifest

    def close(self) -> None:
        """Finish upkeep and let go of threads and connections; the catalog cannot be used any more."""
        self.handles.clear()
        if self.manifest is not None:
            self.manifest.close()
        self.store.close()


def open_catalog(settings: DirectorySettings, store: Store) -> Catalog:
    """Put together what the settings ask for; nothing is requested until the first operation."""
    manifest = Manifest(store) if settings.manifest_enabled else None
    return Catalog(settings, store, manifest, Resolver(settings, store, manifest))
