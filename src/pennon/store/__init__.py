"""Object stores behind one small protocol."""

from pennon.store.protocol import Blob, FileEntry, Level, Removed, Store
from pennon.store.root import open_store

__all__ = ["Blob", "FileEntry", "Level", "Removed", "Store", "open_store"]
