"""Making a root table in `<name>.lance` under the claim on its name.

The claim (see `claim`) excludes every other creator and hides the table until it is complete. What was made is taken
away again if the table does not come into being, and nothing else is.
"""

from __future__ import annotations

import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pennon.directory import layout, purge_proof
from pennon.directory.claims import claim
from pennon.directory.claims.marker import CREATE, LEASE_SECONDS, REVIVING, Marker
from pennon.directory.lifecycle import deregister
from pennon.directory.lookup.listing import TableDirectory, look_at
from pennon.directory.manifest_tables import reservation, table_rows
from pennon.directory.root_tables import purge
from pennon.directory.versions import managed
from pennon.errors import ConcurrentModificationError, TableAlreadyExistsError
from pennon.identifiers import Identifier, format_identifier
from pennon.store import LeaseExpiredError
from pennon.table.writing import PreparedData, read_latest_version, write_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from pennon.directory.catalog import Catalog
    from pennon.directory.manifest import Row

_BYTES_PER_LEASE_SECOND = 1_000_000


class DroppedTableIsThere(TableAlreadyExistsError):
    """The directory of a root table that is to be declared holds a dropped one."""


def declare_root_table(catalog: Catalog, identifier: Identifier, row: Row) -> None:
    """Declare a root table. The commit point in V1 is its `.lance-reserved` file, else the manifest row.

    Raises DroppedTableIsThere if the name is that of a dropped table, whose files must not be in the way of the first
    version.
    """
    with _claimed(catalog, identifier) as there:
        if there.prior is not None:
            raise DroppedTableIsThere(
                f"A dropped table is at {there.directory.location!r}: create, restore or purge "
                f"{format_identifier(identifier)}"
            )
        if there.directory.has_files:
            raise already_there(identifier, there.directory)
        reserved = reservation.Reservation(catalog.store, there.directory.location)
        reserved.announce()
        with reserved.undone_on_error():
            with there.commit_guard():
                reserved.make()
            table_rows.insert_row(catalog, row)


def create_root_table(
    catalog: Catalog,
    identifier: Identifier,
    row: Row,
    data: pa.Table | PreparedData,
    storage_options: dict[str, str],
    *,
    must_be_declared: bool = False,
) -> tuple[Row, int]:
    """Write a root table that is new, only declared, or dropped; returns its row and the version.

    Over a dropped table it is the next version of the same lineage. With `must_be_declared`, only a declared one is
    written, and 14 raised if it is not there any more.
    """
    lease = LEASE_SECONDS + data.nbytes / _BYTES_PER_LEASE_SECOND
    identity = data.transaction_id if isinstance(data, PreparedData) else None
    with _claimed(catalog, identifier, lease_seconds=lease, transaction_id=identity) as there:
        before = there.directory
        if there.prior is None and (before.has_versions or before.deregistered):
            raise already_there(identifier, before)
        if must_be_declared and (there.prior is not None or not before.reserved):
            raise ConcurrentModificationError(
                f"Table {format_identifier(identifier)} was dropped before it got its first rows"
            )
        with there.undone_on_error():
            version = write_version(
                catalog.store.resolve(before.location, deeply=True),
                data,
                storage_options,
                after=there.base,
                transaction_id=there.transaction_id,
                session=catalog.session,
                commit_guard=there.commit_guard,
            )
            there.committed.append(version)
            stored = table_rows.settle_row(catalog, row, declared=before.reserved and there.prior is None)
        settled = [layout.declared(before.location)] if before.reserved else []
        if there.prior is not None:
            settled.append(layout.inside(before.location, layout.DEREGISTERED_MARKER))
        if there.prior is not None or catalog.store.is_local or catalog.manifest is None:
            # Left over where another client deleted a deregistered table. With a row, listings look closely.
            settled.append(layout.deregistered(identifier[0]))
        if settled:
            catalog.store.delete(*settled)
    return stored, version


def already_there(identifier: Identifier, directory: TableDirectory) -> TableAlreadyExistsError:
    """Say what stands in the way of a table."""
    if directory.deregistered:
        return TableAlreadyExistsError(
            f"A deregistered table is at {directory.location!r}: register {format_identifier(identifier)} "
            "again or drop it"
        )
    return TableAlreadyExistsError(f"Table already exists: {format_identifier(identifier)}")


@dataclass(frozen=True)
class _Claimed:
    """A root table's directory as it was when the claim on its name was taken."""

    catalog: Catalog
    held: claim.Standing
    directory: TableDirectory
    base: int
    """The version to build on: that of a dropped table, else 0."""
    transaction_id: str
    committed: list[int] = field(default_factory=list)

    @property
    def prior(self) -> Marker | None:
        """Give the dropped table that is there, if one is."""
        return None if self.held.marker is None else self.held.marker.prior

    @contextmanager
    def undone_on_error(self) -> Iterator[None]:
        """Take away the data that this caller wrote if the table does not come into being."""
        try:
            yield
        except BaseException as error:
            store = self.catalog.store
            deregister.delete_leftovers(store, self.directory.location, error)
            if claim.is_mine(store, self.held):
                self._undo()
            raise

    def _undo(self) -> None:
        store, location = self.catalog.store, self.directory.location
        if self.prior is not None:
            # What was committed, if anything, is burnt when the table is restored.
            claim.move(store, self.held, replace(self.prior, burn=self.prior.burn or bool(self.committed)))
        elif self.directory.reserved:
            # It was declared before, and is again.
            there = store.list_names(location) - {layout.RESERVED_MARKER}
            for name in sorted(there - set(purge_proof.foreign_entries(there))):
                self._purge(layout.inside(location, name))
        elif self.committed or not self._is_anothers():
            purge.clear(store, self.held)

    def _purge(self, path: str) -> None:
        """Delete under the claim, fenced like a purge."""
        store, held = self.catalog.store, self.held

        def still_mine() -> bool:
            return claim.is_mine(store, held)

        with store.exclusive(held.name):
            if not still_mine():
                return
            try:
                store.purge_tree(path, also=[], seconds=purge.seconds_left(held), still_mine=still_mine)
            except LeaseExpiredError:
                raise claim.held_by_another(held.name) from None

    def _is_anothers(self) -> bool:
        if self.directory.has_files:
            return True
        now = look_at(self.catalog.store, self.directory.location)
        return now.has_versions or now.deregistered or now.reserved

    @contextmanager
    def commit_guard(self) -> Iterator[None]:
        """Let a commit happen only while the claim stands: exactly so on local disk, under the lock."""
        store = self.catalog.store
        with store.exclusive(self.held.name):
            if store.is_local and not claim.is_mine(store, self.held):
                raise ConcurrentModificationError(
                    f"The claim on table '{self.held.name}' was taken over; nothing was written"
                )
            yield


@contextmanager
def _claimed(
    catalog: Catalog, identifier: Identifier, *, lease_seconds: float = LEASE_SECONDS, transaction_id: str | None = None
) -> Iterator[_Claimed]:
    """Hold the marker of a root table, complete what a dead owner began, and look at the directory under the claim."""
    store, name = catalog.store, identifier[0]
    location = layout.root_table(name)
    table_rows.require_free(catalog, identifier, root_table=True)
    wanted = Marker(REVIVING).leased(REVIVING, CREATE, lease_seconds)
    held = claim.take(store, name, wanted, lambda current: purge.settle(catalog, current))
    try:
        transaction_id = transaction_id or str(uuid.uuid4())
        held, base = _with_base(catalog, held, transaction_id)
        yield _Claimed(catalog, held, look_at(store, location), base, transaction_id)
    except BaseException:
        if held.marker is not None and held.marker.prior is not None:
            claim.move(store, held, held.marker.prior)
        else:
            claim.remove(store, held)
        raise
    if not claim.remove_own(store, held):
        raise ConcurrentModificationError(f"Creating table '{name}' took too long: another client took over")


def _with_base(catalog: Catalog, held: claim.Standing, transaction_id: str) -> tuple[claim.Standing, int]:
    """Fix the version to build on over a dropped table, and write it down for whoever has to undo this."""
    store = catalog.store
    if held.marker is None or held.marker.prior is None:
        return held, 0
    prior = held.marker.prior
    managed.finish_replaced_table(catalog, held.name)
    base = read_latest_version(store.resolve(layout.root_table(held.name)), store.storage_options)
    # What a creator that died built on stays what a restoration returns to.
    kept = prior.version if prior.burn and prior.version is not None else base or None
    prior = replace(prior, version=kept, writers=(*prior.writers, transaction_id))
    moved = claim.move(store, held, replace(held.marker, prior=prior))
    if moved is None:
        raise claim.held_by_another(held.name)
    return moved, base
