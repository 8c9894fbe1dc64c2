"""Checking one table: the files that its versions refer to, the files that exist, and the catalog's version rows.

The files are listed before the versions are read, so a file that is committed in between is known. A table with a fault
is checked a second time before the fault is reported, because a writer or a cleanup may have been active.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidTableStateError, LanceNamespaceError
from pennon.spark.jobs import table_files, version_scan
from pennon.spark.jobs.catalog_access import describe_table, list_versions, open_records
from pennon.spark.jobs.job_run import DECLARED, TableTask
from pennon.spark.jobs.outcome import DONE, FAILED, SKIPPED, TableOutcome
from pennon.spark.reading.pinned import PinnedTable
from pennon.spark.reading.splits import fragment_sizes
from pennon.store import open_store
from pennon.table import naming

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance import LanceDataset

    from pennon.directory.versions.record import VersionRecord
    from pennon.identifiers import Identifier
    from pennon.spark.address import Address
    from pennon.spark.reading.splits import FragmentSize
    from pennon.store import Store

DAMAGED_CODE = int(InvalidTableStateError("").code)
_SHOWN = 20


@dataclass(frozen=True)
class VerifyOptions:
    """Options of a check."""

    age: float
    """The age in seconds above which no writer can be about to commit a file."""
    remove: bool
    deep: bool


@dataclass(frozen=True)
class TableCheck:
    """The outcome of a check, and what is left to read of the table."""

    outcome: TableOutcome
    pinned: PinnedTable | None = None
    fragments: tuple[FragmentSize, ...] = ()


def check_table(address: Address, task: TableTask) -> TableCheck:
    """Check a table on an executor; a table with a fault, twice."""
    begun = time.monotonic()
    found = describe_table(address, task.identifier)
    if found.is_only_declared:
        return TableCheck(TableOutcome(task.table, SKIPPED, DECLARED, details={"location": found.location}))
    options = tuple(sorted((found.storage_options or {}).items()))
    store = open_store(str(found.location), dict(options))
    try:
        check = _check_once(address, task, store, str(found.location), options)
        if check.outcome.status == FAILED:
            check = _check_once(address, task, store, str(found.location), options)
    finally:
        store.close()
    return replace(check, outcome=check.outcome.after(time.monotonic() - begun))


def _check_once(
    address: Address, task: TableTask, store: Store, location: str, options: tuple[tuple[str, str], ...]
) -> TableCheck:
    import lance

    wanted: VerifyOptions = task.options
    findings: list[str] = []
    now = store.now()
    rows = _version_rows(address, task.identifier)
    try:
        dataset = lance.dataset(location, storage_options=dict(options) or None)
    except (OSError, ValueError, RuntimeError) as error:
        findings.append(f"the latest version cannot be opened: {str(error).splitlines()[0][:300]}")
        names = [file.name for file in store.list_level(table_files.VERSIONS).files]
        older = version_scan.open_newest_readable(location, dict(options) or None, names)
        if older is None:
            outcome = TableOutcome(task.table, DONE, details={"location": location, "versions": len(names)})
            return TableCheck(add_findings(outcome, [*findings, "no version of the table can be opened"]))
        dataset = older
    latest = dataset.version
    listed = version_scan.list_files(dataset)
    branches = sorted(dataset.branches.list())
    scan = version_scan.scan_versions(_reopen(dataset, location, options), listed, branches, now - wanted.age)
    unreferenced = table_files.find_unreferenced(
        listed, scan.referenced, branches=branches, now=now, age=wanted.age, kept=_staged_manifests(rows)
    )
    gone = [path for path in table_files.find_missing(listed, scan.referenced) if store.size(path) is None]
    wrong = table_files.find_wrong_sizes(listed, scan.referenced)
    findings += scan.unreadable + [f"{path} is missing" for path in gone] + wrong
    row_faults, row_figures = _compare_with_rows(rows, listed)
    findings += row_faults
    details: dict[str, Any] = {
        "location": location,
        "versions": scan.versions,
        "files": len(listed),
        "bytes": sum(one.size for one in listed.values()),
        "unreadable_versions": len(scan.unreadable),
        "missing_files": len(gone),
        "wrong_sizes": len(wrong),
        "orphans": len(unreferenced.orphans),
        "orphan_bytes": sum(listed[path].size for path in unreferenced.orphans),
        "orphans_removed": 0,
        "recent_files": len(unreferenced.recent),
        "strange_files": len(unreferenced.strange),
        **row_figures,
    }
    # An unreadable version may refer to any file, so no file is certainly an orphan.
    if wanted.remove and unreferenced.orphans and scan.is_complete:
        _delete_orphans(store, unreferenced.orphans)
        details["orphans_removed"] = len(unreferenced.orphans)
    outcome = add_findings(TableOutcome(task.table, DONE, None, None, latest, latest, details=details), findings)
    pinned = PinnedTable(task.identifier, location, latest, None, options)
    if not wanted.deep:
        return TableCheck(outcome, pinned)
    return TableCheck(outcome, pinned.identified_by(dataset), fragment_sizes(dataset))


def _reopen(dataset: LanceDataset, location: str, options: tuple[tuple[str, str], ...]) -> LanceDataset:
    """Return the latest version, opened after the files were listed, or the open one if that fails."""
    import lance

    try:
        return lance.dataset(location, storage_options=dict(options) or None)
    except (OSError, ValueError, RuntimeError):
        return dataset


def add_findings(outcome: TableOutcome, findings: Sequence[str]) -> TableOutcome:
    """Return a failed outcome with the findings added, or the outcome itself if there are none."""
    everything = [*(outcome.details.get("findings") or ()), *findings]
    if not everything:
        return outcome
    details = {**outcome.details, "findings": table_files.truncate_findings(everything, _SHOWN)}
    return replace(outcome, status=FAILED, code=DAMAGED_CODE, message=everything[0], details=details)


def _version_rows(address: Address, identifier: Identifier) -> Mapping[int, VersionRecord] | None:
    """Return the rows of a table's versions, all finished, or None if the catalog has none."""
    from pennon.directory.inspection import list_version_rows

    catalog = open_records(address)
    if catalog is None or catalog.manifest is None:
        return None
    # Listing finishes what a dead writer committed. If that fails, the check of the table finds the reason.
    with suppress(LanceNamespaceError):
        list_versions(address, identifier)
    return list_version_rows(catalog, identifier)


def _staged_manifests(rows: Mapping[int, VersionRecord] | None) -> set[str]:
    """Return the paths of staged manifests that rows refer to."""
    names = [record.path.rpartition("/")[2] for record in (rows or {}).values() if record.is_unfinished]
    return {f"{table_files.VERSIONS}/{name}" for name in names}


def _compare_with_rows(
    rows: Mapping[int, VersionRecord] | None, listed: Mapping[str, table_files.StoredFile]
) -> tuple[list[str], dict[str, int]]:
    """Return the faults, and the counts of the result, of comparing a table's version rows with its files."""
    if rows is None:
        return [], {}
    files = {}
    for path, stored in listed.items():
        folder, _, name = path.rpartition("/")
        parsed = naming.parse_name(name) if folder == table_files.VERSIONS else None
        if parsed is not None:
            files[parsed[0]] = stored
    newest = max(rows, default=0)
    faults = []
    for version, record in sorted(rows.items()):
        there = files.get(version)
        if there is None and version == newest and not record.is_unfinished:
            faults.append(f"version {version}, the latest according to its row, has no file")
        elif there is not None and record.size is not None and record.size != there.size:
            faults.append(f"version {version} has {there.size} bytes, but its row records {record.size}")
    without_file = [version for version, record in rows.items() if version not in files and not record.is_unfinished]
    without_row = [version for version in files if version not in rows]
    return faults, {"rows_without_file": len(without_file), "files_without_row": len(without_row)}


def _delete_orphans(store: Store, paths: Sequence[str]) -> None:
    store.delete(*paths)
    for folder in sorted({path.rpartition("/")[0] for path in paths}, key=len, reverse=True):
        if folder.count("/") > 0:
            store.prune(folder)
