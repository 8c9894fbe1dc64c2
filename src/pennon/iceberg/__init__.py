"""The Iceberg REST namespace: a catalog server of Iceberg as the catalog of Lance tables."""

from pennon.iceberg.namespace import IcebergNamespace

__all__ = ["IcebergNamespace"]
