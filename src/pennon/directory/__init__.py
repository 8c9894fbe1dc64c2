"""The directory namespace: namespaces, tables and versions in one directory, V1, V2 and compatibility mode."""

from pennon.directory.namespace import DirectoryNamespace
from pennon.directory.versions.transactions import TableCommit

__all__ = ["DirectoryNamespace", "TableCommit"]
