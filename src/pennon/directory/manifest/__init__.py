"""The manifest: a Lance table that holds every namespace and table of the catalog."""

from pennon.directory.manifest.draft import Draft
from pennon.directory.manifest.loaded_snapshot import LoadedSnapshot
from pennon.directory.manifest.manifest import PLAN_ERRORS, Manifest
from pennon.directory.manifest.row import (
    NAMESPACE,
    PROTECTED,
    REQUEST,
    TABLE,
    TABLE_VERSION,
    TRASH,
    Row,
    is_live,
    properties_json,
    version_key,
)
from pennon.directory.manifest.snapshot import Snapshot, is_version

__all__ = [
    "NAMESPACE",
    "PLAN_ERRORS",
    "PROTECTED",
    "REQUEST",
    "TABLE",
    "TABLE_VERSION",
    "TRASH",
    "Draft",
    "LoadedSnapshot",
    "Manifest",
    "Row",
    "Snapshot",
    "is_live",
    "is_version",
    "properties_json",
    "version_key",
]
