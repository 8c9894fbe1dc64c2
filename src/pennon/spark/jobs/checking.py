"""One table against its files: what its versions name, what is there, and what the catalog's rows say.

A look lists the files first and reads the versions after that, so a file that is committed in between is known. What
seems wrong is looked at once more before it is reported: a writer or a cleanup may have been at work.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pennon.errors import InvalidTableStateError, LanceNamespaceError
from pennon.spark.jobs import reading, table_files
from pennon.spark.jobs.asking import described, records, versions
from pennon.spark.jobs.outcome import DONE, FAILED, SKIPPED, Outcome
from pennon.spark.jobs.running import DECLARED, TableWork
from pennon.spark.reading.pinned import PinnedTable
from pennon.spark.reading.splits import fragment_sizes
from pennon.store import open_store
from pennon.table import naming

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance import LanceDataset

    from pennon.directory.versions.record import Record
    from pennon.identifiers import Identifier
    from pennon.spark.address import Address
    from pennon.spark.reading.splits import FragmentSize
    from pennon.store import Store

DAMAGED = int(InvalidTableStateError("").code)
_SHOWN = 20


@dataclass(frozen=True)
class Asked:
    """What a look at a table is for."""

    age: float
    """How old, in seconds, a file is that no writer can be about to commit."""
    remove: bool
    deep: bool


@dataclass(frozen=True)
class Looked:
    """What came of a look at a table, and what is left to read of it."""

    outcome: Outcome
    pinned: PinnedTable | None = None
    fragments: tuple[FragmentSize, ...] = ()


def looked_at(address: Address, work: TableWork) -> Looked:
    """Look at a table on an executor; at what seems wrong, twice."""
    begun = time.monotonic()
    found = described(address, work.identifier)
    if found.is_only_declared:
        return Looked(Outcome(work.table, SKIPPED, DECLARED, did={"location": found.location}))
    options = tuple(sorted((found.storage_options or {}).items()))
    store = open_store(str(found.location), dict(options))
    try:
        looked = _look(address, work, store, str(found.location), options)
        if looked.outcome.status == FAILED:
            looked = _look(address, work, store, str(found.location), options)
    finally:
        store.close()
    return replace(looked, outcome=looked.outcome.after(time.monotonic() - begun))


def _look(
    address: Address, work: TableWork, store: Store, location: str, options: tuple[tuple[str, str], ...]
) -> Looked:
    import lance

    asked: Asked = work.options
    findings: list[str] = []
    now = store.now()
    rows = _rows(address, work.identifier)
    try:
        dataset = lance.dataset(location, storage_options=dict(options) or None)
    except (OSError, ValueError, RuntimeError) as error:
        findings.append(f"the latest version cannot be opened: {str(error).splitlines()[0][:300]}")
        names = [file.name for file in store.list_level(table_files.VERSIONS).files]
        older = reading.newest_that_opens(location, dict(options) or None, names)
        if older is None:
            outcome = Outcome(work.table, DONE, did={"location": location, "versions": len(names)})
            return Looked(judged(outcome, [*findings, "no version of the table can be opened"]))
        dataset = older
    latest = dataset.version
    listed = reading.listed_files(dataset)
    branches = sorted(dataset.branches.list())
    read = reading.read_versions(_again(dataset, location, options), listed, branches, now - asked.age)
    unnamed = table_files.unnamed(listed, read.named, branches=branches, now=now, age=asked.age, kept=_staged(rows))
    gone = [path for path in table_files.missing(listed, read.named) if store.size(path) is None]
    wrong = table_files.wrong_sizes(listed, read.named)
    findings += read.unreadable + [f"{path} is missing" for path in gone] + wrong
    row_faults, row_figures = _against_rows(rows, listed)
    findings += row_faults
    did: dict[str, Any] = {
        "location": location,
        "versions": read.versions,
        "files": len(listed),
        "bytes": sum(one.size for one in listed.values()),
        "unreadable_versions": len(read.unreadable),
        "missing_files": len(gone),
        "wrong_sizes": len(wrong),
        "orphans": len(unnamed.orphans),
        "orphan_bytes": sum(listed[path].size for path in unnamed.orphans),
        "orphans_removed": 0,
        "recent_files": len(unnamed.recent),
        "strange_files": len(unnamed.strange),
        **row_figures,
    }
    # What an unreadable version names is not known: nothing is an orphan for certain then.
    if asked.remove and unnamed.orphans and read.is_complete:
        _remove(store, unnamed.orphans)
        did["orphans_removed"] = len(unnamed.orphans)
    outcome = judged(Outcome(work.table, DONE, None, None, latest, latest, did=did), findings)
    pinned = PinnedTable(work.identifier, location, latest, None, options)
    if not asked.deep:
        return Looked(outcome, pinned)
    return Looked(outcome, pinned.identified_by(dataset), fragment_sizes(dataset))


def _again(dataset: LanceDataset, location: str, options: tuple[tuple[str, str], ...]) -> LanceDataset:
    """Open the latest version anew, after the files were listed; the one that is open, if that cannot be."""
    import lance

    try:
        return lance.dataset(location, storage_options=dict(options) or None)
    except (OSError, ValueError, RuntimeError):
        return dataset


def judged(outcome: Outcome, findings: Sequence[str]) -> Outcome:
    """Let a table fail for what was found."""
    everything = [*(outcome.did.get("findings") or ()), *findings]
    if not everything:
        return outcome
    did = {**outcome.did, "findings": table_files.ended(everything, _SHOWN)}
    return replace(outcome, status=FAILED, code=DAMAGED, message=everything[0], did=did)


def _rows(address: Address, identifier: Identifier) -> Mapping[int, Record] | None:
    """Give the rows of a table's versions, all finished; None where the catalog has none."""
    from pennon.directory.inspection import list_version_rows

    catalog = records(address)
    if catalog is None or catalog.manifest is None:
        return None
    # Finishes what a dead writer committed. If that fails, the look at the table says what is wrong with it.
    with suppress(LanceNamespaceError):
        versions(address, identifier)
    return list_version_rows(catalog, identifier)


def _staged(rows: Mapping[int, Record] | None) -> set[str]:
    """Name the staged manifests that rows point at."""
    names = [record.path.rpartition("/")[2] for record in (rows or {}).values() if record.is_staged]
    return {f"{table_files.VERSIONS}/{name}" for name in names}


def _against_rows(
    rows: Mapping[int, Record] | None, listed: Mapping[str, table_files.Stored]
) -> tuple[list[str], dict[str, int]]:
    """Compare the rows of a table's versions with the files."""
    if rows is None:
        return [], {}
    files = {}
    for path, stored in listed.items():
        folder, _, name = path.rpartition("/")
        parsed = naming.parsed(name) if folder == table_files.VERSIONS else None
        if parsed is not None:
            files[parsed[0]] = stored
    newest = max(rows, default=0)
    faults = []
    for version, record in sorted(rows.items()):
        there = files.get(version)
        if there is None and version == newest and not record.is_staged:
            faults.append(f"version {version}, the latest by its row, has no file")
        elif there is not None and record.size is not None and record.size != there.size:
            faults.append(f"version {version} has {there.size} bytes, its row says {record.size}")
    without_file = [version for version, record in rows.items() if version not in files and not record.is_staged]
    without_row = [version for version in files if version not in rows]
    return faults, {"rows_without_file": len(without_file), "files_without_row": len(without_row)}


def _remove(store: Store, paths: Sequence[str]) -> None:
    store.delete(*paths)
    for folder in sorted({path.rpartition("/")[0] for path in paths}, key=len, reverse=True):
        if folder.count("/") > 0:
            store.prune(folder)
