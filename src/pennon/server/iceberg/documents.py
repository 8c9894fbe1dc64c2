"""A Lance table as LoadTable shows it.

There is no metadata file, so there is no `metadata-location`. A version is a snapshot; the manifest list that it names
is the Lance manifest, so that an engine that tries to scan it fails loudly.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from pennon.directory.lookup import opening
from pennon.directory.versions import service
from pennon.errors import ConcurrentModificationError, InvalidTableStateError
from pennon.iceberg.entry import LANCE, MAIN, MANAGED_BY, TABLE_TYPE
from pennon.iceberg.settings import IMPL, STORAGE
from pennon.iceberg.summaries import OPERATION, summary_of
from pennon.identifiers import Identifier, format_identifier
from pennon.server.iceberg import columns
from pennon.table import naming
from pennon.table.version_selector import VersionSelector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.resolve import ResolvedTable
    from pennon.directory.versions.record import VersionRecord
    from pennon.store import Store

FORMAT_VERSION = 2
UNPARTITIONED, UNSORTED = 0, 0
LAST_PARTITION_ID = 999
NO_CLEANING = "gc.enabled"
"""The property that keeps the clean-up of Iceberg from deleting files of Lance."""
_OPERATIONS = {"append", "replace", "overwrite", "delete"}
_ATTEMPTS = 5
_ENCODED = {ord(letter): quote(letter) for letter in "%?#"}


@dataclass(frozen=True)
class LoadedTable:
    """A table in the catalog, before its files are read."""

    catalog: Catalog
    found: ResolvedTable
    is_managed: bool

    @property
    def uuid(self) -> str:
        """The table's UUID. It comes from the location, so a rename keeps it."""
        store = self.catalog.store
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{store.identity()}\n{self.found.location}"))

    @property
    def location(self) -> str:
        """The URI of the table's directory."""
        return address(self.catalog.store, self.found.location)

    @property
    def properties(self) -> dict[str, str]:
        """All properties, including the fixed ones."""
        stored = {} if self.found.row is None else self.found.row.properties()
        return {**stored, **self.fixed}

    @property
    def fixed(self) -> dict[str, str]:
        """The properties that mark a Lance table and cannot be changed."""
        return {TABLE_TYPE: LANCE, MANAGED_BY: IMPL if self.is_managed else STORAGE, NO_CLEANING: "false"}


def read_table(catalog: Catalog, identifier: Identifier) -> LoadedTable:
    """Return a table. Raises NamespaceNotFoundError or TableNotFoundError if it does not exist."""
    found = catalog.resolver.table(identifier)
    return LoadedTable(catalog, found, service.is_managed(catalog, found))


def load_table(catalog: Catalog, identifier: Identifier, *, all_snapshots: bool = True) -> dict[str, Any]:
    """Return the metadata of a table. Its latest version is opened; the others are only listed.

    Raises NamespaceNotFoundError or TableNotFoundError if the table does not exist,
    InvalidTableStateError if it is damaged.
    """
    for _ in range(_ATTEMPTS):
        looked = read_table(catalog, identifier)
        try:
            dataset = opening.open_table(catalog, identifier, VersionSelector(), shared=True)
        except InvalidTableStateError:
            # A manifest that is only staged looks like a damaged table.
            if service.list_versions(catalog, identifier, None, 1, descending=False)[0]:
                raise
            return _metadata(looked, columns.empty(), 0, [], 0)
        records, _ = service.list_versions(catalog, identifier, None, None, descending=False)
        current = int(dataset.version)
        there = [record for record in records if record.version <= current]
        # It may have been replaced or cleaned since it was opened.
        if there and there[-1].version == current:
            schema, largest = columns.shown(dataset)
            return _metadata(looked, schema, largest, there, len(there) if all_snapshots else 1)
    raise ConcurrentModificationError(f"Table {format_identifier(identifier)} changes too fast to be read; try again")


def address(store: Store, path: str) -> str:
    """Return a URI for clients of Iceberg. Most of them decode nothing, so as little as possible is encoded."""
    return unquote(store.uri(path)).translate(_ENCODED)


def etag(answer: bytes) -> str:
    """Return an ETag for the answer that describes a table."""
    return f'"{hashlib.sha256(answer).hexdigest()[:32]}"'


def _metadata(
    looked: LoadedTable, schema: dict[str, Any], largest: int, records: Sequence[VersionRecord], newest: int
) -> dict[str, Any]:
    snapshots = _snapshots(looked, records, newest)
    current = snapshots[-1] if snapshots else None
    return {
        "format-version": FORMAT_VERSION,
        "table-uuid": looked.uuid,
        "location": looked.location,
        "last-sequence-number": 0 if current is None else current["sequence-number"],
        "last-updated-ms": 0 if current is None else current["timestamp-ms"],
        "last-column-id": largest,
        "current-schema-id": columns.SCHEMA_ID,
        "schemas": [schema],
        "default-spec-id": UNPARTITIONED,
        "partition-specs": [{"spec-id": UNPARTITIONED, "fields": []}],
        "last-partition-id": LAST_PARTITION_ID,
        "default-sort-order-id": UNSORTED,
        "sort-orders": [{"order-id": UNSORTED, "fields": []}],
        "properties": looked.properties,
        **({} if current is None else {"current-snapshot-id": current["snapshot-id"]}),
        "refs": {} if current is None else {MAIN: {"snapshot-id": current["snapshot-id"], "type": "branch"}},
        "snapshots": snapshots,
        "snapshot-log": [{"snapshot-id": one["snapshot-id"], "timestamp-ms": one["timestamp-ms"]} for one in snapshots],
        "metadata-log": [],
    }


def _snapshots(looked: LoadedTable, records: Sequence[VersionRecord], newest: int) -> list[dict[str, Any]]:
    """Return the newest versions as snapshots. The records are sorted, oldest first."""
    made: list[dict[str, Any]] = []
    folder = f"{looked.found.location}/{naming.VERSIONS_FOLDER}"
    shown_folder = address(looked.catalog.store, folder)
    latest_ms, parent = 0, None
    for place, record in enumerate(records):
        # Files that were copied may be newer than those of later versions; readers want times that only grow.
        latest_ms = max(latest_ms, record.timestamp_ms or 0)
        if place >= len(records) - newest:
            snapshot = {
                "snapshot-id": record.version,
                **({} if parent is None else {"parent-snapshot-id": parent}),
                "sequence-number": record.version,
                "timestamp-ms": latest_ms,
                # Names of manifests need no encoding.
                "manifest-list": f"{shown_folder}/{record.path.rpartition('/')[2]}",
                "summary": _summary(record),
            }
            made.append(snapshot)
        parent = record.version
    if made:
        # The schema of an older version is not known without opening it.
        made[-1]["schema-id"] = columns.SCHEMA_ID
    return made


def _summary(record: VersionRecord) -> dict[str, str]:
    kept = dict(record.metadata or {})
    summary = summary_of(
        record.version, record.scheme, (record.staged_path or record.path).rpartition("/")[2], record.size
    )
    operation = kept.pop(OPERATION, "")
    return {**kept, **summary, **({OPERATION: operation} if operation in _OPERATIONS else {})}
