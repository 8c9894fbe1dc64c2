"""The parts of an open catalog, which every operation gets."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import lance

from pennon.directory import layout
from pennon.directory.lookup.resolve import Resolver
from pennon.directory.manifest import Manifest
from pennon.directory.versions.base_cache import BaseCache
from pennon.directory.versions.row_finishing import RowFinisher
from pennon.errors import UnsupportedOperationError
from pennon.table.handles import HandleCache

if TYPE_CHECKING:
    from pennon.config import DirectorySettings
    from pennon.store import Store


_CACHE_BYTES = 32 << 20


@dataclass(frozen=True)
class Catalog:
    """One root, opened in one mode."""

    settings: DirectorySettings
    store: Store
    manifest: Manifest | None
    resolver: Resolver
    handles: HandleCache = field(default_factory=HandleCache)
    """Tables that stay open between operations inside them."""
    bases: BaseCache = field(default_factory=BaseCache)
    """Manifests of versions that were appended through this catalog."""
    finisher: RowFinisher = field(init=False)
    """Finishes the rows of versions that were committed through this catalog."""

    def __post_init__(self) -> None:
        """Create the parts that others are given to."""
        object.__setattr__(self, "finisher", RowFinisher(self.store, self.manifest))

    @cached_property
    def session(self) -> Any:
        """Lance's caches and connections, shared by all tables that are opened, and created with the first of them.

        Threads that open the first tables at the same time may get sessions of their own.
        """
        return lance.Session(index_cache_size_bytes=_CACHE_BYTES, metadata_cache_size_bytes=_CACHE_BYTES)  # type: ignore[attr-defined]

    @property
    def lists_directories(self) -> bool:
        """True if root tables are found by listing the root."""
        return self.settings.dir_listing_enabled

    def format_location(self, location: str) -> str:
        """Return the address of a row's location for callers. A location outside the root is returned as it is."""
        return self.store.location(location) if layout.find_location_fault(location) is None else location

    def require_manifest(self, operation: str) -> Manifest:
        """Return the manifest. Raises UnsupportedOperationError in V1, which has none."""
        if self.manifest is None:
            raise UnsupportedOperationError(
                f"{operation} needs the manifest: it is not supported with manifest_enabled=false"
            )
        return self.manifest

    def close(self) -> None:
        """Finish background work and release threads and connections. The catalog cannot be used afterwards."""
        self.handles.clear()
        self.finisher.close()
        if self.manifest is not None:
            self.manifest.close()
        self.store.close()


def open_catalog(settings: DirectorySettings, store: Store) -> Catalog:
    """Return a catalog for these settings. Nothing is requested from the store before the first operation."""
    manifest = Manifest(store) if settings.manifest_enabled else None
    return Catalog(settings, store, manifest, Resolver(settings, store, manifest))
