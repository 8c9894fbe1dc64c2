"""The requests that jobs send to the catalog, and the files that they delete."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING

from lance_namespace_urllib3_client.models.batch_delete_table_versions_request import BatchDeleteTableVersionsRequest
from lance_namespace_urllib3_client.models.version_range import VersionRange

from pennon.catalog_pages import iterate_versions
from pennon.errors import LanceNamespaceError, TableNotFoundError, translate_errors
from pennon.identifiers import quote_identifier
from pennon.spark.jobs.outcome import TableOutcome, skipped_outcome
from pennon.spark.jobs.table_selection import find_tables
from pennon.spark.reading.pinned import PinnedTable, pin
from pennon.spark.tables import job_commits
from pennon.spark.tables.destination import Destination, locate_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lance import LanceDataset
    from lance_namespace_urllib3_client.models.table_version import TableVersion

    from pennon.directory.catalog import Catalog
    from pennon.identifiers import Identifier
    from pennon.spark.address import Address
    from pennon.spark.jobs.table_selection import TableSelector

_log = logging.getLogger(__name__)


def open_latest(address: Address, identifier: Identifier) -> tuple[PinnedTable, LanceDataset] | None:
    """Return the latest version of a table, opened through the catalog, or None if the table is only declared."""
    try:
        return pin(address, identifier)
    except TableNotFoundError:
        if locate_table(address, identifier).declared:
            return None
        raise


def open_single(address: Address, which: TableSelector) -> Iterator[tuple[str, LanceDataset]]:
    """Yield the name and the latest version of the selected table, if it is the only one and not just declared."""
    tables = find_tables(address.connect(), which)
    there = open_latest(address, tables[0]) if len(tables) == 1 else None
    if there is not None:
        yield quote_identifier(tables[0]), there[1]


def open_for_commit(address: Address, identifier: Identifier, version: int | None = None) -> LanceDataset:
    """Return a version of a table whose commits go through the catalog if that manages versions."""
    dataset = locate_table(address, identifier).latest()
    return dataset if version is None else dataset.checkout_version(version)


def skip_committed(pinned: PinnedTable, table: str, address: Address, job_id: str | None) -> TableOutcome | None:
    """Return a skipped outcome if an earlier run of a job has committed to the table, otherwise None."""
    made = None if job_id is None else job_commits.find_job(address, pinned.identifier, job_id)
    if made is None:
        return None
    return skipped_outcome(table, f"done by an earlier run of this job, as version {made.version}", pinned.version)


def list_versions(address: Address, identifier: Identifier) -> list[TableVersion]:
    """Return the versions of a table that the catalog lists."""
    return list(iterate_versions(address.connect(), identifier))


def delete_versions(address: Address, identifier: Identifier, spans: Sequence[tuple[int, int]]) -> int:
    """Delete versions by ranges that exclude their end, and return how many were deleted."""
    ranges = [VersionRange(start_version=start, end_version=end) for start, end in spans]
    request = BatchDeleteTableVersionsRequest(id=list(identifier), ranges=ranges)
    return int(address.connect().batch_delete_table_versions(request).deleted_count or 0)


def discard_files(address: Address, table: PinnedTable, paths: Iterable[str]) -> bool:
    """Delete files of a table that no version since `table` refers to; return True if a version refers to any of them.

    A commit whose response was lost looks like one that failed, so the versions are read first. If they cannot be read,
    or a file cannot be deleted, the files stay for the next `verify`.
    """
    wanted = set(paths)
    if not wanted:
        return False
    place = Destination(address, table.identifier, table.uri, table.storage_options)
    try:
        with translate_errors(f"removing files of {table!r}"):
            # Committed versions that are not finished yet refer to files, too.
            list_versions(address, table.identifier)
            tracked = place.latest().tracked_files(min_version=table.version)
            referenced = {path for batch in tracked for path in batch.column("path").to_pylist()}
            with place.files() as files:
                files.delete(*sorted(wanted - referenced))
    except LanceNamespaceError as error:
        _log.warning(
            "Could not delete %d files that no version may refer to; 'verify' finds them: %s", len(wanted), error
        )
        return False
    return bool(wanted & referenced)


@lru_cache(maxsize=4)
def open_records(address: Address) -> Catalog | None:
    """Return the catalog's own records, or None if it is not a directory catalog.

    Jobs read from them what the namespace interface has no operation for.
    """
    if address.impl != "dir":
        return None
    from pennon.config import DirectorySettings
    from pennon.directory.catalog import open_catalog
    from pennon.store import open_store

    settings = DirectorySettings.from_properties(dict(address.properties))
    return open_catalog(settings, open_store(settings.root, settings.storage_options))
