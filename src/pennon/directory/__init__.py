"""The directory namespace: a catalog in one directory."""

from pennon.directory.namespace import DirectoryNamespace

__all__ = ["DirectoryNamespace"]
