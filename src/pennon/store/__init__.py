"""Object stores behind one small protocol."""

from pennon.store.protocol import Amount, Blob, FileEntry, LeaseOver, Level, Store
from pennon.store.root import open_store

__all__ = ["Amount", "Blob", "FileEntry", "LeaseOver", "Level", "Store", "open_store"]
