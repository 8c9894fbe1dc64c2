"""Declare and create root tables in `<name>.lance`, under a claim on the name.

The claim excludes other creators and hides the table until it is complete. If the creation fails, what it wrote is
deleted, and nothing else.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pennon.directory import layout, purge_proof, table_rows
from pennon.directory.lookup.directories import TableDirectory, look_at
from pennon.directory.markers.marker import CREATE, LEASE_SECONDS, REVIVING, Marker
from pennon.directory.markers.reservation import Reservation
from pennon.directory.root_tables.deletion import delete_entry, delete_failed_creation, delete_leftovers
from pennon.directory.root_tables.settle import acquire_claim
from pennon.directory.table_rows import CreatedTable, TableSpec, TableUpload
from pennon.directory.versions import managed
from pennon.errors import ConcurrentModificationError, TableAlreadyExistsError
from pennon.identifiers import Identifier, format_identifier
from pennon.store import call_together
from pennon.table.writing import PreparedData, read_latest_version, write_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.directory.catalog import Catalog
    from pennon.directory.lookup.resolve import ResolvedTable
    from pennon.directory.manifest import Row
    from pennon.directory.markers.claim import Claim
    from pennon.store import Store

_BYTES_PER_LEASE_SECOND = 1_000_000


class DroppedTableError(TableAlreadyExistsError):
    """A dropped table is in the directory in which a root table is to be declared."""


def declare(catalog: Catalog, identifier: Identifier, row: Row) -> None:
    """Declare a root table. The commit point in V1 is its `.lance-reserved` file, otherwise the manifest row.

    Raises DroppedTableError if the name belongs to a dropped table: its files must not be where a first version is
    written. Raises TableAlreadyExistsError for any other table.
    """
    store, location = catalog.store, layout.root_table(identifier[0])
    with _claim_name(catalog, row) as held:
        if held.prior is not None:
            raise DroppedTableError(
                f"A dropped table is at {location!r}: create, restore or purge {format_identifier(identifier)}"
            )
        if store.is_local:
            directory = look_at(store, location)
            if directory.has_files:
                raise already_exists(identifier, directory)
        # In a bucket the body must be unique: a table that is there already may be declared too.
        reservation = Reservation(store, location, contested=not store.is_local)
        with reservation.undo_on_error():
            if store.is_local:
                reservation.announce()
                with _guard_commit(store, held):
                    reservation.commit()
            else:
                _reserve_unseen(store, identifier, reservation)
            table_rows.insert_row(catalog, row)


def _reserve_unseen(store: Store, identifier: Identifier, reservation: Reservation) -> None:
    """Reserve a directory in a bucket while it is looked into. Raises TableAlreadyExistsError if it has a table.

    A crash in between leaves the files of a declaration in the directory of a table, which they do not change.
    """
    location = layout.root_table(identifier[0])
    directory, is_first, _ = call_together(
        store,
        lambda: look_at(store, location, ignoring=layout.RESERVED_MARKER),
        reservation.try_commit,
        reservation.announce,
    )
    if not is_first and directory.has_versions:
        # The table was declared once, and has data: listings need not look into it.
        store.delete(layout.declared_marker(location))
    if not is_first or directory.has_files:
        raise already_exists(identifier, directory)


def create(catalog: Catalog, spec: TableSpec, location: str) -> CreatedTable:
    """Write a root table that is new, only declared, or dropped.

    Over a dropped table it becomes the next version of the same history. Raises TableAlreadyExistsError if there is a
    table with data, ConcurrentModificationError if another client is creating it.
    """
    return _write(catalog, spec, spec.row(location), must_be_declared=False)


def fill(catalog: Catalog, table: ResolvedTable, spec: TableSpec) -> CreatedTable:
    """Write the first version of a declared root table.

    Raises ConcurrentModificationError if it was dropped since it was found.
    """
    return _write(catalog, spec, spec.row(table.location), must_be_declared=True)


def _write(catalog: Catalog, spec: TableSpec, row: Row, *, must_be_declared: bool) -> CreatedTable:
    lease = LEASE_SECONDS + spec.data.nbytes / _BYTES_PER_LEASE_SECOND
    transaction_id = spec.data.transaction_id if isinstance(spec.data, PreparedData) else None
    with _claim_directory(catalog, row, lease_seconds=lease, transaction_id=transaction_id) as creation:
        before, prior = creation.directory, creation.held.prior
        if prior is None and (before.has_versions or before.deregistered):
            raise already_exists(spec.identifier, before)
        if must_be_declared and (prior is not None or not before.reserved):
            raise ConcurrentModificationError(
                f"Table {format_identifier(spec.identifier)} was dropped before its first rows were written"
            )
        early, late = _list_old_markers(catalog, spec.identifier[0], before, was_dropped=prior is not None)
        with creation.undo_on_error():
            _, version = call_together(
                catalog.store, lambda: _delete(catalog.store, early), lambda: creation.write_version(spec)
            )
            stored = table_rows.update_root_row(catalog, row, was_declared=before.reserved and prior is None)
        _delete(catalog.store, late)
    return CreatedTable.of(catalog, stored, version)


def _list_old_markers(
    catalog: Catalog, name: str, before: TableDirectory, *, was_dropped: bool
) -> tuple[list[str], list[str]]:
    """Return the markers to delete while the new version is written, and those that it makes obsolete."""
    store = catalog.store
    early: list[str] = []
    late = [layout.declared_marker(before.location)] if before.reserved else []
    if was_dropped:
        late.append(layout.inside(before.location, layout.DEREGISTERED_MARKER))
    if was_dropped or store.is_local or catalog.manifest is None:
        # Left over if another client deleted a deregistered table. Listings look closely at tables with a row.
        # Without the marker inside, which decides, it means nothing.
        (late if was_dropped or store.is_local else early).append(layout.deregistered_marker(name))
    return early, late


def _delete(store: Store, paths: list[str]) -> None:
    if paths:
        store.delete(*paths)


def already_exists(identifier: Identifier, directory: TableDirectory) -> TableAlreadyExistsError:
    """Return the error for a directory that holds a table already."""
    if directory.deregistered:
        return TableAlreadyExistsError(
            f"A deregistered table is at {directory.location!r}: register {format_identifier(identifier)} "
            "again or drop it"
        )
    return TableAlreadyExistsError(f"Table already exists: {format_identifier(identifier)}")


@dataclass(frozen=True)
class _Creation:
    """A claim on a root table, and its directory when it was claimed."""

    catalog: Catalog
    held: Claim
    directory: TableDirectory
    base: int
    """The version to build on: that of a dropped table, or 0."""
    transaction_id: str
    committed: list[int] = field(default_factory=list)

    def write_version(self, spec: TableSpec) -> int:
        """Write the data and commit the version, and return its number."""
        location = self.directory.location
        version = write_version(
            self.catalog.store.resolve(location, deeply=True),
            spec.data,
            spec.storage_options,
            after=self.base,
            transaction_id=self.transaction_id,
            session=self.catalog.session,
            commit_guard=self.commit_guard,
            upload=TableUpload.of(self.catalog, spec, location),
        )
        self.committed.append(version)
        return version

    @contextmanager
    def undo_on_error(self) -> Iterator[None]:
        """Delete what this creation wrote if the block raises and the claim is still held."""
        try:
            yield
        except BaseException as error:
            delete_leftovers(self.catalog.store, self.directory.location, error)
            if self.held.is_held():
                self._undo()
            raise

    def _undo(self) -> None:
        store, location, prior = self.catalog.store, self.directory.location, self.held.prior
        if prior is not None:
            # A restoration replaces what was committed, if anything was.
            self.held.end(replace(prior, burn=prior.burn or bool(self.committed)))
        elif self.directory.reserved:
            # The table was declared before, and is again.
            names = store.list_names(location) - {layout.RESERVED_MARKER}
            for name in sorted(names - set(purge_proof.foreign_entries(names))):
                delete_entry(store, self.held, layout.inside(location, name))
        elif self.committed or not self._belongs_to_another():
            delete_failed_creation(store, self.held.hand_over())

    def _belongs_to_another(self) -> bool:
        if self.directory.has_files:
            return True
        now = look_at(self.catalog.store, self.directory.location)
        return now.has_versions or now.deregistered or now.reserved

    @contextmanager
    def commit_guard(self) -> Iterator[None]:
        """Allow a commit only while the claim is held. On a local disk this is exact, by the root's lock."""
        with _guard_commit(self.catalog.store, self.held):
            yield


@contextmanager
def _guard_commit(store: Store, held: Claim) -> Iterator[None]:
    with store.exclusive(held.name):
        if store.is_local and not held.is_held():
            raise ConcurrentModificationError(f"The claim on table '{held.name}' was taken over; nothing was written")
        yield


@contextmanager
def _claim_directory(
    catalog: Catalog, row: Row, *, lease_seconds: float = LEASE_SECONDS, transaction_id: str | None = None
) -> Iterator[_Creation]:
    """Claim a root table, look into its directory, and show the table at the end of the block.

    Raises ConcurrentModificationError if another client took the claim over before the end.
    """
    with _claim_name(catalog, row, lease_seconds=lease_seconds) as held:
        transaction_id = transaction_id or str(uuid.uuid4())
        base = _record_base(catalog, held, transaction_id)
        directory = look_at(catalog.store, layout.root_table(held.name))
        yield _Creation(catalog, held, directory, base, transaction_id)


@contextmanager
def _claim_name(catalog: Catalog, row: Row, *, lease_seconds: float = LEASE_SECONDS) -> Iterator[Claim]:
    """Claim the name of a new root table. The claim has its properties, for a client that completes the creation."""
    name = row.object_id
    table_rows.require_free(catalog, (name,), root_table=True)
    wanted = Marker(REVIVING, properties=row.parse_metadata() or None)
    with acquire_claim(catalog, name, wanted.with_lease(REVIVING, CREATE, lease_seconds)) as held:
        yield held
        if not held.complete():
            raise ConcurrentModificationError(f"Creating table '{name}' took too long: another client took over")


def _record_base(catalog: Catalog, held: Claim, transaction_id: str) -> int:
    """Return the version to build on over a dropped table, and record it for a client that has to undo this."""
    prior = held.prior
    if prior is None:
        return 0
    store = catalog.store
    managed.finish_replaced_table(catalog, held.name)
    base = read_latest_version(store.resolve(layout.root_table(held.name)), store.storage_options)
    # If a dead creator may still commit, a restoration returns to the version that it built on.
    version = prior.version if prior.burn and prior.version is not None else base or None
    prior = replace(prior, version=version, writers=(*prior.writers, transaction_id))
    held.update(replace(held.marker, prior=prior))
    return base
