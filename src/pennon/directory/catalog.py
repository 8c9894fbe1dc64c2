"""What every operation of a directory namespace works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pennon.errors import UnsupportedOperationError

if TYPE_CHECKING:
    from pennon.config import DirectorySettings
    from pennon.directory.manifest import Manifest
    from pennon.directory.resolve import Resolver
    from pennon.store import Store


@dataclass(frozen=True)
class Catalog:
    """One root in one mode."""

    settings: DirectorySettings
    store: Store
    manifest: Manifest | None
    resolver: Resolver

    @property
    def lists_directories(self) -> bool:
        """Tell whether root tables are found by listing the root."""
        return self.settings.dir_listing_enabled

    def require_manifest(self, operation: str) -> Manifest:
        """Give the manifest, or raise UnsupportedOperationError (0) in V1, which has none."""
        if self.manifest is None:
            raise UnsupportedOperationError(
                f"{operation} needs the manifest: it is not supported with manifest_enabled=false"
            )
        return self.manifest
