"""Object stores behind one small protocol."""

from pennon.store.protocol import Blob, FileEntry, LeaseOver, Level, Removed, Store
from pennon.store.root import open_store

__all__ = ["Blob", "FileEntry", "LeaseOver", "Level", "Removed", "Store", "open_store"]
