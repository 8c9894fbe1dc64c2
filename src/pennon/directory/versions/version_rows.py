"""The catalog as the external manifest store: a version of a table exists when its row is committed.

The caller stages the table's manifest, a commit to the catalog's manifest adds the row (the commit point), the staged
file is copied to the name under which readers look for it, and the row is made to point there. Whoever meets a row that
still points at a staged file does the last two steps itself, so a crash after any of them loses nothing and blocks
nobody. The rows of several tables may be added by one commit: they are then there all together or not at all.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pennon.directory.claims.marker import milliseconds
from pennon.directory.manifest import TABLE, Draft, Snapshot, flags, version_key
from pennon.directory.problem_log import warn_once
from pennon.directory.versions import version_files
from pennon.directory.versions.record import Record, of_row, problem_of
from pennon.errors import (
    ConcurrentModificationError,
    InvalidInputError,
    InvalidTableStateError,
    LanceNamespaceError,
    TableNotFoundError,
    TableVersionAlreadyExistsError,
    TableVersionNotFoundError,
    translate_errors,
)
from pennon.store import LARGEST_MANIFEST
from pennon.table import naming

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pennon.directory.catalog import Catalog
    from pennon.directory.manifest import Manifest, Row


_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Table:
    """A table whose versions the catalog manages: its key in the manifest and its directory."""

    key: str
    location: str


@dataclass(frozen=True)
class Wanted:
    """A version that is to be created from a staged manifest."""

    table: Table
    record: Record


@dataclass(frozen=True)
class _Seen:
    """What the files of a table's versions showed: those that only the files know, and rows whose files are gone."""

    files: Mapping[int, Record]
    gone: frozenset[int]
    newest: Record | None
    """The newest version that had a row."""
    leftovers: frozenset[str] = frozenset()
    """Staged manifests of versions that readers have finished: readers delete nothing."""


class _LookedTooEarlyError(ConcurrentModificationError):
    """The table is not the one that was looked at, or its rows were made anew."""


def create(
    catalog: Catalog, wanted: Sequence[Wanted], first: Callable[[Draft], object] = lambda _: None
) -> list[Record]:
    """Create versions of one or several tables, all in one commit; error 14 if one exists or is not the next one.

    The same request again, after its answer was lost, succeeds. `first` is done to the draft in the same commit.
    """
    try:
        records = _create(catalog, wanted, first)
    except _LookedTooEarlyError:
        records = _create(catalog, wanted, first)
    return finish_committed(catalog, [(entry.table, record) for entry, record in zip(wanted, records, strict=True)])


def _create(catalog: Catalog, wanted: Sequence[Wanted], first: Callable[[Draft], object]) -> list[Record]:
    manifest = catalog.require_manifest("create_table_version")
    creation = Creation(catalog, wanted)

    def plan(draft: Draft) -> list[Record]:
        first(draft)
        return creation.plan(draft)

    try:
        records = manifest.mutate(plan)
    except TableVersionAlreadyExistsError:
        return creation.found_again(manifest)
    creation.delete_leftovers()
    return records


class Creation:
    """The plan of a commit that adds versions; reads what it needs from the store beforehand."""

    def __init__(self, catalog: Catalog, wanted: Sequence[Wanted]) -> None:
        self._store = catalog.store
        self._wanted = wanted
        # The tables first: if another one takes the place of one of them later, the plan sees that its rows differ.
        tables = {entry.table for entry in wanted}
        self._seen = dict(zip(tables, catalog.store.map(lambda table: _look_at(catalog, table), tables), strict=True))
        now = milliseconds()
        bodies = catalog.store.map(lambda entry: _read(catalog, entry.record.path), wanted)
        self._records: list[Record] = []
        self._bodies: list[bytes | None] = []
        """None for a version that was made before, by the very same request."""
        for entry, body in zip(wanted, bodies, strict=True):
            done = None if body is not None else _made_from(catalog, entry)
            if done is not None:
                self._bodies.append(None)
                self._records.append(done)
                continue
            if body is None:
                path = catalog.store.absolute(entry.record.path)
                raise InvalidInputError(f"There is no staged manifest for '{entry.table.key}' at {path!r}")
            self._bodies.append(body)
            self._records.append(replace(entry.record, size=len(body), timestamp_ms=now, staged=entry.record.path))

    def plan(self, draft: Draft) -> list[Record]:
        """Add the rows, or raise if one of the versions cannot be the next one of its table."""
        if not flags.manages_versions(draft.metadata):
            raise ConcurrentModificationError("The management of versions was turned off while a version was made")
        for table, seen in self._seen.items():
            require_table(draft, table)
            _require_same(draft, table, seen)
            _bring_up_to_date(draft, table, seen)
        return [_added(draft, entry.table, record) for entry, record in zip(self._wanted, self._records, strict=True)]

    def delete_leftovers(self) -> None:
        """Delete staged manifests of older versions that readers have finished."""
        paths = sorted(path for seen in self._seen.values() for path in seen.leftovers)
        if paths:
            with suppress(OSError):
                self._store.delete(*paths)

    def found_again(self, manifest: Manifest) -> list[Record]:
        """Give the records if all of them are there with these very bytes; raises the conflict if not."""
        found: list[Record] = []
        for entry, record, body in zip(self._wanted, self._records, self._bodies, strict=True):
            if body is None:
                found.append(record)
                continue
            there = manifest.read(lambda snapshot, entry=entry: record_in(snapshot, entry.table, entry.record.version))  # type: ignore[misc]
            blob = None if there is None else self._store.get(there.path, max_bytes=LARGEST_MANIFEST)
            if there is None or blob is None or blob.body != body:
                raise TableVersionAlreadyExistsError(
                    f"Version {entry.record.version} of table '{entry.table.key}' already exists"
                )
            found.append(there)
        return found


def finish(catalog: Catalog, versions: Iterable[tuple[Table, Record]], *, tidy: bool = False) -> list[Record]:
    """Copy staged manifests to their final names, and make their rows point there; `tidy` deletes what was staged.

    A reader that meets an unfinished version finishes it, but deletes nothing. A manifest whose final name is taken by
    a writer that went past the catalog stays where it was staged.
    """
    pairs = list(versions)
    outcomes = catalog.store.map(lambda pair: _finish(catalog, *pair), pairs)
    moved = [
        (table, before, after)
        for (table, before), after in zip(pairs, outcomes, strict=True)
        if after.path != before.path
    ]
    if not moved:
        return outcomes

    def plan(draft: Draft) -> None:
        for table, before, after in moved:
            there = record_in(draft, table, after.version)
            if there is not None and there.path == before.path:
                draft.put(after.row(table.key))

    catalog.require_manifest("create_table_version").mutate(plan)
    if tidy:
        catalog.store.delete(*(before.path for _, before, _ in moved))
    return outcomes


def finish_committed(catalog: Catalog, versions: Sequence[tuple[Table, Record]]) -> list[Record]:
    """Finish versions that were just committed; if the store fails now, the next one that meets them does.

    They are there: an error would make the caller commit the same once more.
    """
    try:
        with translate_errors("finishing versions"):
            return finish(catalog, versions, tidy=True)
    except LanceNamespaceError as error:
        names = ", ".join(f"{record.version} of '{table.key}'" for table, record in versions)
        _log.warning("version %s is committed and not finished yet: %s", names, error)
        return [record for _, record in versions]


def list_records(catalog: Catalog, table: Table) -> list[Record]:
    """Give the versions of a table whose files are there, oldest first, each finished."""
    rows = _rows(catalog, table)
    files = version_files.records(catalog.store, table.location)
    latest = max(rows, default=0)
    there = [record for record in rows.values() if record.is_staged or record.version in files]
    if latest and latest not in {record.version for record in there}:
        there.append(rows[latest])
    ahead = [record for version, record in files.items() if version > latest]
    staged = [record for record in there if record.is_staged]
    done = {record.version: record for record in finish(catalog, [(table, record) for record in staged])}
    return sorted([done.get(one.version, one) for one in there] + ahead, key=lambda record: record.version)


def latest(catalog: Catalog, table: Table) -> Record | None:
    """Give the latest version, finished; None if there is none. No request: the caller has just found the table."""
    manifest = catalog.require_manifest("list_table_versions")
    record, skipped = manifest.peek(lambda snapshot: _newest(snapshot, table))
    if record is None or skipped:
        _warn(catalog, table, skipped)
        # It came in by a client that did not know of the management, or is only declared; or a newer row cannot be
        # read, and only the files show whether it stands for a version.
        files = version_files.records(catalog.store, table.location)
        newest = max(files, default=0)
        if record is None or newest > record.version:
            return files.get(newest)
    if not record.is_staged:
        return record
    return finish(catalog, [(table, record)])[0]


def latest_of(catalog: Catalog, tables: Sequence[Table]) -> list[Record | None]:
    """Give the latest versions of several tables in one version of the manifest, each finished."""
    manifest = catalog.require_manifest("latest_table_versions")
    records = manifest.read(lambda snapshot: [_newest(snapshot, table)[0] for table in tables])
    staged = [(table, one) for table, one in zip(tables, records, strict=True) if one is not None and one.is_staged]
    done = dict(zip([table for table, _ in staged], finish(catalog, staged), strict=True))
    return [done.get(table, record) for table, record in zip(tables, records, strict=True)]


def describe(catalog: Catalog, table: Table, version: int) -> Record:
    """Give one version, finished; error 11 if it is not there, or not any more."""
    manifest = catalog.require_manifest("describe_table_version")

    def look(snapshot: Snapshot) -> tuple[Record | None, int]:
        newest, _ = _newest(snapshot, table)
        return record_in(snapshot, table, version), 0 if newest is None else newest.version

    record, newest = manifest.peek(look)
    if record is None and version > newest:
        # A writer that went past the catalog may have made it; the next one that goes through it takes it in.
        record = version_files.find(catalog.store, table.location, version)
    elif record is not None and record.is_staged:
        record = finish(catalog, [(table, record)])[0]
    elif record is not None and version != newest and catalog.store.size(record.path) is None:
        record = None
    if record is None:
        raise TableVersionNotFoundError(f"Table '{table.key}' has no version {version}")
    return record


def removal_plan(table: Table, chosen: Callable[[list[int]], list[int]]) -> Callable[[Draft], list[Record]]:
    """Give a plan that removes the rows of the chosen versions; the latest one stays (19)."""

    def plan(draft: Draft) -> list[Record]:
        require_table(draft, table)
        there = draft.versions_of(table.key)
        gone = chosen(there)
        newest, _ = _newest(draft, table)
        latest = newest.version if newest is not None else there[-1] if there else 0
        if latest in gone:
            raise InvalidTableStateError(
                f"Version {latest} is the latest of table '{table.key}', which could not be opened without it"
            )
        removed = []
        for version in gone:
            record = record_in(draft, table, version)
            if record is not None:
                removed.append(record)
            draft.remove_version(table.key, version)
        return removed

    return plan


def delete_files(catalog: Catalog, location: str, removed: Iterable[Record]) -> None:
    """Delete the manifests of versions whose rows are gone, of unfinished ones also a copy in place."""
    paths = {path for record in removed for path in (record.path, record.final_path(location))}
    # A reader that finished a version has left what was staged.
    folder = f"{location}/{naming.VERSIONS_FOLDER}/"
    staged = {record.staged for record in removed if record.staged is not None}
    paths |= {
        path for path in staged if path.startswith(folder) and naming.parse_staged_name(path.removeprefix(folder))
    }
    if paths:
        catalog.store.delete(*sorted(paths))


def import_rows(draft: Draft, key: str, records: Iterable[Record]) -> int:
    """Add rows for versions that the files of a table show; gives the number of those that had none."""
    row = draft.get(key)
    table = Table(key, "" if row is None else str(row.location))
    known = {version for version in draft.versions_of(key) if record_in(draft, table, version) is not None}
    new = [record for record in records if record.version not in known]
    for record in new:
        draft.put(record.row(key))
    return len(new)


def replace_rows(draft: Draft, key: str, records: Sequence[Record]) -> int:
    """Make the rows of a table's versions say what its files show; gives the number of those that had none."""
    files = {record.version for record in records}
    for version in draft.versions_of(key):
        if version not in files:
            draft.remove_version(key, version)
    return import_rows(draft, key, records)


def record_in(rows: Draft | Snapshot, table: Table, version: int) -> Record | None:
    """Find a version by its row; None if it has none, or one that says what no version of the table can be."""
    return of_row(rows.get(version_key(table.key, version)), table.location)


def records_in(rows: Draft | Snapshot, table: Table) -> dict[int, Record]:
    """Give the versions of a table that have rows, by number."""
    found = {version: record_in(rows, table, version) for version in rows.versions_of(table.key)}
    return {version: record for version, record in found.items() if record is not None}


def require_table(draft: Draft, table: Table) -> None:
    """Raise 4 unless the table is there, where it was found."""
    row = draft.get(table.key)
    if row is None or row.object_type != TABLE or row.location != table.location:
        raise TableNotFoundError(f"Table not found: '{table.key}'")


def _added(draft: Draft, table: Table, record: Record) -> Record:
    require_table(draft, table)
    there = record_in(draft, table, record.version)
    if there is not None and there.staged == record.staged:
        return there
    newest = _newest_number(draft, table)
    if record.version <= newest:
        raise TableVersionAlreadyExistsError(f"Version {record.version} of table '{table.key}' already exists")
    if record.version != newest + 1:
        raise ConcurrentModificationError(
            f"Version {record.version} of table '{table.key}' cannot be created: the latest is {newest}"
        )
    draft.put(record.row(table.key))
    return record


def _require_same(draft: Draft, table: Table, seen: _Seen) -> None:
    """Raise unless the rows go on from those that were seen; another table may lie in the same directory by now."""
    if seen.newest is None:
        return
    there = record_in(draft, table, seen.newest.version)
    if there is None:
        same = _newest_number(draft, table) > seen.newest.version  # it was deleted as an old one
    else:
        same = (there.size, there.timestamp_ms) == (seen.newest.size, seen.newest.timestamp_ms)
    if not same:
        raise _LookedTooEarlyError(f"Table '{table.key}' was replaced while version {seen.newest.version + 1} was made")


def _bring_up_to_date(draft: Draft, table: Table, seen: _Seen) -> None:
    """Take in versions that a writer made past the catalog, and forget those that were cleaned away."""
    versions = draft.versions_of(table.key)
    newest = _newest_number(draft, table)
    for version in seen.gone:
        if version in versions and version != newest:
            draft.remove_version(table.key, version)
    import_rows(draft, table.key, [record for version, record in seen.files.items() if version > newest])


def _newest(rows: Snapshot | Draft, table: Table) -> tuple[Record | None, list[Row]]:
    """Find the newest version whose row can be used, and the rows of newer ones, which were skipped."""
    skipped: list[Row] = []
    for version in reversed(rows.versions_of(table.key)):
        row = rows.get(version_key(table.key, version))
        record = of_row(row, table.location)
        if record is not None:
            return record, skipped
        if row is not None:
            skipped.append(row)
    return None, skipped


def _warn(catalog: Catalog, table: Table, skipped: Iterable[Row]) -> None:
    for row in skipped:
        problem = problem_of(row, table.location)
        if problem is not None:
            warn_once(problem, catalog.store.identity())


def _newest_number(rows: Snapshot | Draft, table: Table) -> int:
    record, _ = _newest(rows, table)
    return 0 if record is None else record.version


def _rows(catalog: Catalog, table: Table) -> dict[int, Record]:
    def look(snapshot: Snapshot) -> tuple[dict[int, Record], list[Row]]:
        records = records_in(snapshot, table)
        skipped = [version for version in snapshot.versions_of(table.key) if version not in records]
        rows = [snapshot.get(version_key(table.key, version)) for version in skipped]
        return records, [row for row in rows if row is not None]

    records, skipped = catalog.require_manifest("list_table_versions").peek(look)
    _warn(catalog, table, skipped)
    return records


def _look_at(catalog: Catalog, table: Table) -> _Seen:
    # The rows first: what is finished after this look is not mistaken for something that is gone.
    rows = _rows(catalog, table)
    finished = {version: record for version, record in rows.items() if not record.is_staged}
    files, staged = version_files.listed(catalog.store, table.location)
    leftovers = staged & {record.staged for record in finished.values() if record.staged is not None}
    gone = frozenset(finished.keys() - files.keys())
    return _Seen(files, gone, rows[max(rows)] if rows else None, leftovers)


def _made_from(catalog: Catalog, wanted: Wanted) -> Record | None:
    """Find the version that was made of a staged manifest which is gone since; None if none was."""
    manifest = catalog.require_manifest("create_table_version")
    record = manifest.read(lambda snapshot: record_in(snapshot, wanted.table, wanted.record.version))
    return record if record is not None and record.staged == wanted.record.path else None


def _read(catalog: Catalog, path: str) -> bytes | None:
    blob = catalog.store.get(path, max_bytes=LARGEST_MANIFEST)
    return None if blob is None else blob.body


def _finish(catalog: Catalog, table: Table, record: Record) -> Record:
    if not record.is_staged:
        return record
    blob = catalog.store.get(record.path, max_bytes=LARGEST_MANIFEST)
    if blob is None:
        # Somebody else has finished it, and deleted what was staged.
        there = version_files.find(catalog.store, table.location, record.version)
        return record if there is None else record.finished(table.location, None)
    e_tag = version_files.put_in_place(catalog.store, table.location, record, blob.body)
    return record if e_tag is None else record.finished(table.location, e_tag)
