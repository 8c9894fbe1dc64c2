"""Tables with managed_by=impl: a version exists when it is a snapshot of the table on the server.

Lance stages the manifest of a version. The commit point is one commit to the server, on the condition that the snapshot
before it is still the current one. Then the staged file is copied to the name that readers expect. A client that finds
an unfinished version does this last step. After a lost answer, the table is loaded: a snapshot names its staged file.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from pennon.errors import (
    ConcurrentModificationError,
    InternalError,
    LanceNamespaceError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TableVersionNotFoundError,
    translate_errors,
)
from pennon.http_transport import pause_before_retry
from pennon.iceberg import files, rest
from pennon.iceberg.catalog import commit_body
from pennon.iceberg.files import StagedManifest, VersionFile
from pennon.iceberg.preparing import PlacedVersion, PreparedVersion, current_is, prepare, summary
from pennon.iceberg.summaries import STAGED
from pennon.identifiers import Identifier, format_identifier
from pennon.table import naming

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pennon.iceberg.catalog import Catalog
    from pennon.iceberg.entry import Entry
    from pennon.store import Store

_log = logging.getLogger(__name__)
VersionSource = StagedManifest | PlacedVersion
_ATTEMPTS = 6


def create(
    catalog: Catalog, wanted: Sequence[tuple[Identifier, VersionSource]], just_seen: Sequence[Entry]
) -> list[VersionFile]:
    """Publish staged manifests as the next versions of their tables, all at once.

    `just_seen` are the tables as the caller has just loaded them. A repeated request, after its answer was lost,
    succeeds. Raises ConcurrentModificationError if one is not the next version, UnknownOutcomeError if the outcome
    stays unknown, NamespaceNotFoundError or TableNotFoundError if a table does not exist.
    """
    prepared = _prepare(catalog, wanted, just_seen)
    trouble: LanceNamespaceError | None = None
    for attempt in range(_ATTEMPTS):
        pending = [one for one in prepared if not one.is_done]
        try:
            _commit(catalog, pending)
        except ConcurrentModificationError as error:
            # Our own commit, after a lost answer, looks like a commit of another client.
            trouble = error
        except ServiceUnavailableError as error:
            _log.warning("the outcome of a commit is not known; the table is loaded to find out: %s", error)
            trouble = error
        else:
            if len(pending) <= 1:
                return [_finish_or_postpone(one.store, one.entry, one.staged, one.body) for one in prepared]
        # The answer to a transaction does not list its tables, and a server may have left one out.
        prepared = _prepare(catalog, wanted, [catalog.table(identifier) for identifier, _ in wanted])
        if all(one.is_done for one in prepared):
            return [_finish_or_postpone(one.store, one.entry, one.staged, one.body) for one in prepared]
        pause_before_retry(attempt)
    tables = ", ".join(format_identifier(identifier) for identifier, _ in wanted)
    raise trouble or ServiceUnavailableError(f"The server accepts commits to {tables} but does not apply them")


def list_versions(entry: Entry, store: Store) -> list[VersionFile]:
    """Return the versions up to the current one that have files, oldest first. Unfinished ones are finished."""
    newest = entry.version or 0
    entries = store.list_level(naming.VERSIONS_FOLDER).files
    names = {file.name for file in entries}
    there = {
        version: one
        for version, one in files.parse_entries(entries, naming.VERSIONS_FOLDER).items()
        if version <= newest
    }
    for number in sorted(entry.snapshots.keys() - there.keys()):
        # A version that is neither published nor staged was cleaned up.
        if number <= newest and (number == newest or summary(entry, number).get(STAGED) in names):
            found = _find(entry, store, number)
            if found is not None:
                there[number] = found
    return [there[number] for number in sorted(there)]


def latest(entry: Entry, store: Store) -> VersionFile | None:
    """Return the current version, or None. If it is unfinished, it is finished."""
    return None if entry.version is None else describe(entry, store, entry.version)


def describe(entry: Entry, store: Store, version: int | None) -> VersionFile:
    """Return a version, or the current one. Raises TableVersionNotFoundError if it does not exist."""
    number = entry.version if version is None else version
    found = None if number is None or number < 1 or number > (entry.version or 0) else _find(entry, store, number)
    if found is None:
        what = "no version yet" if number is None else f"no version {number}"
        raise TableVersionNotFoundError(f"Table {format_identifier(entry.identifier)} has {what}")
    return found


def delete(catalog: Catalog, identifier: Identifier, chosen: Callable[[list[int]], list[int]]) -> int:
    """Delete versions: their snapshots by one commit, then their files.

    A crash between the two steps leaves files. The versions are listed again, and can be deleted again.
    Raises InvalidTableStateError if the current version is among them.
    """
    for attempt in range(_ATTEMPTS):
        entry = catalog.table(identifier)
        store = catalog.store(entry)
        there = {one.version: one for one in list_versions(entry, store)}
        gone = chosen(sorted(there))
        files.require_not_latest(format_identifier(identifier), gone, entry.version or 0)
        snapshots = [number for number in gone if number in entry.snapshots]
        try:
            if snapshots:
                removal = {"action": "remove-snapshots", "snapshot-ids": snapshots}
                catalog.commit(entry, [removal], [current_is(entry)])
        except (ConcurrentModificationError, ServiceUnavailableError):
            if attempt + 1 == _ATTEMPTS:
                raise
            pause_before_retry(attempt)
            continue
        if gone:
            store.delete(*{path for number in gone for path in (there[number].path, there[number].place())})
        return len(gone)
    raise AssertionError


def _prepare(
    catalog: Catalog, wanted: Sequence[tuple[Identifier, VersionSource]], entries: Sequence[Entry]
) -> list[PreparedVersion]:
    """Prepare all; 14 if others came first at one of them, 18 if a part of them is committed by then.

    A part that is committed while the rest still can be is no error: the rest is committed next.
    """
    found: list[PreparedVersion] = []
    taken: ConcurrentModificationError | TableAlreadyExistsError | None = None
    for entry, (_, staged) in zip(entries, wanted, strict=True):
        try:
            found.append(prepare(catalog, entry, staged))
        except (ConcurrentModificationError, TableAlreadyExistsError) as error:
            taken = error
    if taken is None:
        return found
    done = [format_identifier(one.entry.identifier) for one in found if one.is_done]
    if not done:
        raise taken
    missing = sorted({format_identifier(identifier) for identifier, _ in wanted} - set(done))
    raise InternalError(
        f"The server has committed {', '.join(done)}, but not {', '.join(missing)}, of one transaction: {taken}"
    ) from taken


def _commit(catalog: Catalog, prepared: list[PreparedVersion]) -> None:
    if not prepared:
        return
    if len(prepared) == 1:
        one = prepared[0]
        catalog.commit(one.entry, one.updates, [current_is(one.entry)])
        return
    changes = [commit_body(one.entry, one.updates, [current_is(one.entry)]) for one in prepared]
    catalog.server.call(rest.COMMIT_TRANSACTION, prepared[0].entry.identifier, {"table-changes": changes})


def _find(entry: Entry, store: Store, number: int) -> VersionFile | None:
    """Look for a version's file, in its place or else as it was staged; put it in its place then."""
    there = files.find(store, number)
    if there is not None:
        return there
    name = summary(entry, number).get(STAGED, "")
    parsed = naming.parse_staged_name(name)
    if parsed is None or "/" in name:
        return None
    staged = VersionFile(number, f"{naming.VERSIONS_FOLDER}/{name}", parsed[1])
    blob = store.get(staged.path)
    if blob is None:
        # Another client may just have finished it.
        return files.find(store, number)
    return _finish_or_postpone(store, entry, replace(staged, size=len(blob.body)), blob.body)


def _finish_or_postpone(store: Store, entry: Entry, staged: VersionFile, body: bytes | None) -> VersionFile:
    """Finish a committed version. If the store fails, the next client that finds the version finishes it.

    No error is raised, because the version is committed: the caller would commit it again.
    """
    if body is None:
        return files.find(store, staged.version) or staged
    try:
        with translate_errors(f"finishing version {staged.version} of {format_identifier(entry.identifier)}"):
            return files.put_in_place(store, staged, body) or staged
    except LanceNamespaceError as error:
        _log.warning("version is committed and not finished yet: %s", error)
        return staged
