"""Stores: a root directory on a disk or in a bucket, behind one protocol."""

from pennon.store.protocol import (
    LARGEST_MANIFEST,
    PROBE_PREFIX,
    Amount,
    Blob,
    FileEntry,
    LeaseExpiredError,
    Level,
    Store,
    UnusableEntry,
    call_together,
)
from pennon.store.root import open_store

__all__ = [
    "LARGEST_MANIFEST",
    "PROBE_PREFIX",
    "Amount",
    "Blob",
    "FileEntry",
    "LeaseExpiredError",
    "Level",
    "Store",
    "UnusableEntry",
    "call_together",
    "open_store",
]
