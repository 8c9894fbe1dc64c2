"""Verification: every table can be opened, the files of its versions exist, and unused files are reported.

The files of a table are listed before its versions are read, so a file that is committed in between is known. A table
with a fault is checked a second time before the fault is reported, because a writer or a cleanup may have been active.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pennon import durations
from pennon.config import EXPIRY
from pennon.errors import InvalidInputError, InvalidTableStateError, LanceNamespaceError
from pennon.identifiers import Identifier, quote_identifier
from pennon.spark import types
from pennon.spark.jobs import table_files, version_scan
from pennon.spark.jobs.catalog_access import list_versions, open_records
from pennon.spark.jobs.job_run import DECLARED, JobRun, JobSettings, PinnedTask, TableTask
from pennon.spark.jobs.outcome import DONE, FAILED, SKIPPED, JobResults, TableOutcome, first_line, skipped_outcome
from pennon.spark.jobs.table_selection import is_selected
from pennon.spark.reading.splits import fragment_sizes, group_fragments
from pennon.spark.tables.destination import Destination, locate_table
from pennon.store import open_store
from pennon.table import naming

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from lance import LanceDataset

    from pennon.directory.versions.record import VersionRecord
    from pennon.spark.address import Address
    from pennon.spark.jobs.table_selection import TableSelector
    from pennon.spark.lake import Lake
    from pennon.store import Store

ORPHAN_AGE = "7d"
_DAMAGED = int(InvalidTableStateError.code)
_LEAST_AGE_MS = 24 * 3600 * 1000
_PIECE_BYTES = 256 * 1024 * 1024
_BLOB_ROWS = 16
_SHOWN = 20
COLUMNS = (
    "location string, versions bigint, files bigint, bytes bigint, rows_read bigint, unreadable_versions bigint, "
    "missing_files bigint, wrong_sizes bigint, orphans bigint, orphan_bytes bigint, orphans_removed bigint, "
    "recent_files bigint, strange_files bigint, rows_without_file bigint, files_without_row bigint, "
    "findings array<string>"
)


def verify(
    lake: Lake,
    which: TableSelector = None,
    *,
    deep: bool = False,
    remove_orphans: bool = False,
    orphan_age: str = ORPHAN_AGE,
    dry_run: bool = False,
    job_id: str | None = None,
    state: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> JobResults:
    """Check tables against their files, and return one outcome for each table.

    A table with a fault fails with the code of InvalidTableStateError; `findings` lists the faults. `deep` also reads
    every row of the latest version. `remove_orphans` deletes files that no version refers to and that are older than
    `orphan_age` by the store's clock, at least a day. For the whole catalog, rows without a directory and directories
    without a row are reported too, if it is a directory catalog. Raises InvalidInputError if an option is invalid.
    """
    age = durations.parse_milliseconds(orphan_age, "orphan_age")
    if remove_orphans and age < _LEAST_AGE_MS:
        raise InvalidInputError(
            f"orphan_age must be at least one day, got {orphan_age}: younger files may belong to a running writer"
        )
    run = JobRun(lake, "verify", COLUMNS, JobSettings(dry_run, job_id, state, progress))
    tables = run.find_tables(which)
    beside = _compare_with_directories(lake.address, which)
    broken = {outcome.table for outcome in beside}
    left = [identifier for identifier in tables if quote_identifier(identifier) not in broken]
    options = VerifyOptions(age / 1000, remove_orphans and not dry_run, deep)
    return run.collect(_verify_tables(run, left, beside, options), len(left) + len(beside))


def _compare_with_directories(address: Address, which: TableSelector) -> list[TableOutcome]:
    """Compare the catalog's rows with the directories of its root, and return an outcome for each difference."""
    from pennon.directory.inspection import inspect

    catalog = open_records(address)
    if catalog is None:
        return []
    found = inspect(catalog)
    outcomes = []
    for identifier, location in found.without_directory.items():
        if is_selected(identifier, which):
            message = f"the catalog has the table, but its directory {location!r} is gone"
            details = {"location": location, "findings": [message]}
            outcomes.append(TableOutcome(quote_identifier(identifier), FAILED, message, _DAMAGED, details=details))
    if which is None:
        message = "no table of the catalog is in this directory; it is kept"
        outcomes += [
            TableOutcome(None, SKIPPED, message, details={"location": directory}) for directory in found.without_row
        ]
    return outcomes


def _verify_tables(
    run: JobRun, tables: Sequence[Identifier], beside: Sequence[TableOutcome], options: VerifyOptions
) -> Iterator[TableOutcome]:
    yield from beside
    deep: dict[str, TableCheck] = {}
    for check in run.map_tables(check_table, tables, options):
        if isinstance(check, TableOutcome):
            yield check
        elif check.pieces:
            deep[check.pieces[0].table] = check
        else:
            yield check.outcome
    pieces = [piece for check in deep.values() for piece in check.pieces]
    for table, rows, failures in run.map_parts(_read_rows, pieces):
        outcome = deep[table].outcome
        read = replace(outcome, details={**outcome.details, "rows_read": sum(rows)})
        yield add_findings(read, [f"rows cannot be read: {failure.message}" for failure in failures])


@dataclass(frozen=True)
class VerifyOptions:
    """Options of a check."""

    age: float
    """The age in seconds above which no writer can be about to commit a file."""
    remove: bool
    deep: bool


@dataclass(frozen=True)
class ScanPiece(PinnedTask):
    """Some fragments of a table, whose rows a task reads."""

    fragments: tuple[int, ...]


@dataclass(frozen=True)
class TableCheck:
    """The outcome of a check, and the pieces of the table that are left to read."""

    outcome: TableOutcome
    pieces: tuple[ScanPiece, ...] = ()


def check_table(address: Address, task: TableTask) -> TableCheck:
    """Check a table on an executor; a table with a fault, twice."""
    destination = locate_table(address, task.identifier)
    if destination.declared:
        return TableCheck(skipped_outcome(task.table, DECLARED, details={"location": destination.uri}))
    options = {key: value for key, value in (destination.options or {}).items() if key != EXPIRY}
    store = open_store(destination.uri, options)
    try:
        check = _check_once(destination, task, store)
        return _check_once(destination, task, store) if check.outcome.status == FAILED else check
    finally:
        store.close()


def _check_once(destination: Destination, task: TableTask, store: Store) -> TableCheck:
    wanted: VerifyOptions = task.options
    now = store.now()
    staged = _list_staged(destination)
    rows = _version_rows(destination.address, task.identifier)
    dataset, faults = _open_newest(destination, store)
    if dataset is None:
        details: dict[str, Any] = {
            "location": destination.uri,
            "versions": len(store.list_level(table_files.VERSIONS).files),
        }
        return TableCheck(add_findings(TableOutcome(task.table, DONE, details=details), faults))
    latest = dataset.version
    listed = version_scan.list_files(dataset)
    branches = sorted(dataset.branches.list())
    # After the files were listed, the latest version is opened again, so that their versions are known.
    reopened = dataset if faults else _open_by_files(destination)
    scan = version_scan.scan_versions(reopened, listed, branches, now - wanted.age)
    unreferenced = table_files.find_unreferenced(
        listed, scan.referenced, branches=branches, now=now, age=wanted.age, kept=staged or ()
    )
    missing = [path for path in table_files.find_missing(listed, scan.referenced) if store.size(path) is None]
    wrong = table_files.find_wrong_sizes(listed, scan.referenced)
    row_faults, row_figures = _compare_with_rows(rows, listed)
    # An unreadable version, or one that the catalog could not list, may refer to any file.
    doomed = unreferenced.orphans if wanted.remove and scan.is_complete and staged is not None else []
    _delete_orphans(store, doomed)
    details = {
        "location": destination.uri,
        "versions": scan.versions,
        "files": len(listed),
        "bytes": sum(one.size for one in listed.values()),
        "unreadable_versions": len(scan.unreadable),
        "missing_files": len(missing),
        "wrong_sizes": len(wrong),
        "orphans": len(unreferenced.orphans),
        "orphan_bytes": sum(listed[path].size for path in unreferenced.orphans),
        "orphans_removed": len(doomed),
        "recent_files": len(unreferenced.recent),
        "strange_files": len(unreferenced.strange),
        **row_figures,
    }
    faults += [*scan.unreadable, *(f"{path} is missing" for path in missing), *wrong, *row_faults]
    outcome = add_findings(TableOutcome(task.table, DONE, None, None, latest, latest, details=details), faults)
    if not wanted.deep:
        return TableCheck(outcome)
    pinned = destination.pin_version(latest).identified_by(dataset)
    groups = group_fragments(fragment_sizes(dataset), _PIECE_BYTES, lambda fragment: fragment.bytes)
    return TableCheck(outcome, tuple(ScanPiece(pinned, group) for group in groups))


def _open_newest(destination: Destination, store: Store) -> tuple[LanceDataset | None, list[str]]:
    """Return the newest version that can be opened, or None, and what is wrong with the latest one."""
    try:
        return _open_by_files(destination), []
    except version_scan.DAMAGE as error:
        faults = [f"the latest version cannot be opened: {first_line(error)}"]
    names = [file.name for file in store.list_level(table_files.VERSIONS).files]
    older = version_scan.open_newest_readable(destination.uri, destination.options, names)
    return older, faults if older is not None else [*faults, "no version of the table can be opened"]


def _open_by_files(destination: Destination) -> LanceDataset:
    """Return the latest version that has a file in its final place."""
    import lance

    return lance.LanceDataset(destination.uri, storage_options=destination.options, **destination.renewal_arguments)


def _list_staged(destination: Destination) -> set[str] | None:
    """Return the paths of the catalog's versions that are committed and not finished, or None if it cannot list them.

    Listing finishes what a dead writer committed.
    """
    try:
        versions = list_versions(destination.address, destination.identifier)
    except LanceNamespaceError:
        # The check of the table's files finds the reason.
        return None
    names = [one.manifest_path.rpartition("/")[2] for one in versions]
    return {f"{table_files.VERSIONS}/{name}" for name in names if naming.parse_staged_name(name) is not None}


def add_findings(outcome: TableOutcome, findings: Sequence[str]) -> TableOutcome:
    """Return a failed outcome with the findings added, or the outcome itself if there are none."""
    everything = [*(outcome.details.get("findings") or ()), *findings]
    if not everything:
        return outcome
    shown = everything[:_SHOWN]
    if len(everything) > _SHOWN:
        shown.append(f"... and {len(everything) - _SHOWN} more")
    details = {**outcome.details, "findings": shown}
    return replace(outcome, status=FAILED, code=_DAMAGED, message=everything[0], details=details)


def _version_rows(address: Address, identifier: Identifier) -> Mapping[int, VersionRecord] | None:
    """Return the rows of a table's versions, or None if the catalog has none."""
    from pennon.directory.inspection import list_version_rows

    catalog = open_records(address)
    return None if catalog is None or catalog.manifest is None else list_version_rows(catalog, identifier)


def _compare_with_rows(
    rows: Mapping[int, VersionRecord] | None, listed: Mapping[str, table_files.StoredFile]
) -> tuple[list[str], dict[str, int]]:
    """Return the faults, and the counts of the result, of comparing a table's version rows with its files."""
    if rows is None:
        return [], {}
    from pennon.directory.versions.file_comparison import compare_with_files

    prefix = f"{table_files.VERSIONS}/"
    named = {path.removeprefix(prefix): file for path, file in listed.items() if path.startswith(prefix)}
    files = {parsed[0]: file for name, file in named.items() if (parsed := naming.parse_name(name)) is not None}
    found = compare_with_files(rows, {version: file.size for version, file in files.items()})
    figures = {"rows_without_file": len(found.without_file), "files_without_row": len(found.without_row)}
    return found.faults, figures


def _delete_orphans(store: Store, paths: Sequence[str]) -> None:
    if not paths:
        return
    store.delete(*paths)
    for folder in sorted({path.rpartition("/")[0] for path in paths}, key=len, reverse=True):
        if folder.count("/") > 0:
            store.prune(folder)


def _read_rows(_: Address, task: ScanPiece) -> int:
    """Return the number of rows, after reading all of their columns, blobs included.

    Raises InvalidTableStateError if it differs from the number in the table's metadata.
    """
    dataset = task.pinned.open()
    fragments = [fragment for fragment in dataset.get_fragments() if fragment.fragment_id in task.fragments]
    blobs = types.has_blobs(dataset.schema)
    scanner = dataset.scanner(
        fragments=fragments,
        batch_size=_BLOB_ROWS if blobs else None,
        blob_handling="all_binary" if blobs else None,
    )
    rows = sum(int(batch.num_rows) for batch in scanner.to_batches())
    expected = sum(int(fragment.metadata.num_rows) for fragment in fragments)
    if rows != expected:
        raise InvalidTableStateError(f"Table '{task.table}' has {rows} readable rows instead of {expected}")
    return rows
