"""The manifest: a Lance table that holds every namespace and table of the catalog."""

from pennon.directory.manifest.draft import Draft
from pennon.directory.manifest.manifest import Manifest
from pennon.directory.manifest.row import NAMESPACE, PROTECTED, TABLE, Row, properties_json
from pennon.directory.manifest.snapshot import Snapshot

__all__ = ["NAMESPACE", "PROTECTED", "TABLE", "Draft", "Manifest", "Row", "Snapshot", "properties_json"]
