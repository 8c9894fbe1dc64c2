"""Pennon: a catalog for Lance tables that needs no server.

`connect("dir", {...})` opens the directory namespace; `DirectoryNamespace(root=...)` does the same directly.
"""

from pennon.connection import connect
from pennon.directory import DirectoryNamespace, TableCommit

__all__ = ["DirectoryNamespace", "TableCommit", "connect"]
