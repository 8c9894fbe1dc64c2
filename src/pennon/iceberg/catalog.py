"""The server and the stores that every operation uses, and how tables are loaded and changed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import lance

from pennon import json_answers as answers
from pennon.errors import NamespaceNotFoundError, TableNotFoundError, UnsupportedOperationError
from pennon.http_transport import UnknownOutcomeError, pause_before_retry
from pennon.iceberg import rest
from pennon.iceberg.entry import Entry, parse_entry
from pennon.iceberg.places import Places, check_location
from pennon.iceberg.reserved import TRASHES, require_not_reserved
from pennon.iceberg.server_promises import KEEPS_SNAPSHOTS, ONLY_LANCE
from pennon.identifiers import ROOT, Identifier, format_identifier, namespace_not_found, table_not_found
from pennon.table.handles import HandleCache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pennon.iceberg.rest import RestCatalog
    from pennon.iceberg.settings import IcebergSettings
    from pennon.store import Store

T = TypeVar("T")
Item = TypeVar("Item")
_PARALLEL_CALLS = 8
_ATTEMPTS = 5
_CACHE_BYTES = 64 << 20


def _session() -> Any:
    return lance.Session(index_cache_size_bytes=_CACHE_BYTES, metadata_cache_size_bytes=_CACHE_BYTES)  # type: ignore[attr-defined]


@dataclass
class Catalog:
    """A server and the stores of its tables."""

    settings: IcebergSettings
    server: RestCatalog
    places: Places
    session: Any = field(default_factory=_session)
    handles: HandleCache = field(default_factory=HandleCache)
    """Open tables, for the next operation."""
    _checks_requirements: bool = False
    _lock: Lock = field(default_factory=Lock)

    def close(self) -> None:
        """Close connections and open tables."""
        self.handles.clear()
        self.server.close()
        self.places.close()

    # Looking

    def table(self, identifier: Identifier) -> Entry:
        """Return a Lance table. Raises TableNotFoundError or NamespaceNotFoundError if it does not exist."""
        entry = self.any_table(require_not_reserved(identifier))
        if entry is None or not entry.is_lance:
            self.require_namespace(identifier[:-1])
            raise table_not_found(identifier)
        return entry

    def any_table(self, identifier: Identifier) -> Entry | None:
        """Return a table of any kind, or None. The root has no tables."""
        if len(identifier) == 1:
            return None
        try:
            answer = self.server.call(rest.LOAD_TABLE, identifier, table=identifier[-1], query={"snapshots": "all"})
        except (TableNotFoundError, NamespaceNotFoundError):
            return None
        return parse_entry(identifier, answer)

    def require_namespace(self, identifier: Identifier) -> dict[str, str]:
        """Return the properties of a namespace. Raises NamespaceNotFoundError if it does not exist."""
        if identifier == ROOT:
            return {}
        try:
            answer = self.server.call(rest.LOAD_NAMESPACE, identifier)
        except NamespaceNotFoundError:
            raise namespace_not_found(identifier) from None
        return answers.texts(answer, "properties", f"Namespace {format_identifier(identifier)}")

    def children(self, identifier: Identifier) -> list[Identifier]:
        """List the namespaces directly below one. Raises NamespaceNotFoundError if that one does not exist."""
        query = {"parent": "\x1f".join(identifier)} if identifier else None
        what = f"Namespaces below {format_identifier(identifier)}"
        try:
            found = {
                answers.names(one, what) for one in self.server.pages(rest.LIST_NAMESPACES, ROOT, "namespaces", query)
            }
        except NamespaceNotFoundError:
            if identifier == ROOT:
                # Keep the server's message: it does not know the prefix, or hides it from this user.
                raise
            raise namespace_not_found(identifier) from None
        # A server without levels may return all its namespaces.
        below = {one for one in found if len(one) == len(identifier) + 1 and one[:-1] == identifier}
        if identifier and not below:
            self.require_namespace(identifier)
        return sorted(below.difference(TRASHES))

    def walk(self, below: Identifier) -> list[Identifier]:
        """Return a namespace and all namespaces below it, at any depth."""
        found = [below]
        for child in self.children(below):
            found += self.walk(child)
        return found

    def names(self, identifier: Identifier) -> list[str]:
        """List the names of tables of any kind in a namespace.

        Raises NamespaceNotFoundError if the server reports that the namespace does not exist. Some servers do not.
        """
        if identifier == ROOT:
            return []
        what = f"Tables of {format_identifier(identifier)}"
        try:
            listed = [
                answers.mapping(one, what) for one in self.server.pages(rest.LIST_TABLES, identifier, "identifiers")
            ]
        except NamespaceNotFoundError:
            raise namespace_not_found(identifier) from None
        return sorted({answers.text(one, "name", what) for one in listed})

    def map(self, function: Callable[[Item], T], items: Sequence[Item]) -> list[T]:
        """Return the results of the function for all items, in order. Several calls run at the same time."""
        if len(items) <= 1:
            return [function(item) for item in items]
        with ThreadPoolExecutor(min(_PARALLEL_CALLS, len(items))) as pool:
            return list(pool.map(function, items))

    # Stores

    def options(self, entry: Entry | None) -> dict[str, str]:
        """Return the storage options for a table."""
        return self.places.options(entry, {} if entry is None else self.server.defaults)

    def store(self, entry: Entry) -> Store:
        """Return the store whose root is the table's directory."""
        return self.places.store(self.location(entry), self.options(entry))

    @property
    def shows_files(self) -> bool:
        """Return True if the server adds the versions that it finds at a location to the table."""
        return self.server.defaults.get(KEEPS_SNAPSHOTS) == "true"

    @property
    def has_only_lance_tables(self) -> bool:
        """Return True if all tables of the server are Lance tables, by the settings or by the server's promise."""
        return self.settings.assumes_lance_tables or self.server.defaults.get(ONLY_LANCE) == "true"

    def location(self, entry: Entry) -> str:
        """Return the location of a table as Lance opens it."""
        return check_location(entry.location, entry.identifier)

    # Changing

    def commit(
        self, entry: Entry, updates: Iterable[dict[str, Any]], requirements: Iterable[dict[str, Any]] = ()
    ) -> Entry:
        """Change a table by one UpdateTable, on the condition that it is still the table that was loaded.

        Raises TableNotFoundError, ConcurrentModificationError, or UnknownOutcomeError if the outcome is not known.
        """
        return parse_entry(
            entry.identifier,
            self.server.call(
                rest.UPDATE_TABLE,
                entry.identifier,
                commit_body(entry, updates, requirements),
                table=entry.identifier[-1],
            ),
        )

    def set_properties(self, entry: Entry, updates: dict[str, str]) -> Entry:
        """Set properties of a table. If the outcome is not known, set them again: that changes nothing else."""
        for attempt in range(_ATTEMPTS):
            try:
                return self.commit(entry, [{"action": "set-properties", "updates": updates}])
            except UnknownOutcomeError:
                if attempt + 1 == _ATTEMPTS:
                    raise
                pause_before_retry(attempt)
        raise AssertionError

    def require_requirements(self, entry: Entry) -> None:
        """Raise UnsupportedOperationError if the server accepts a commit whose requirement does not hold.

        Such a server cannot manage versions. The check is made once, on a table that was just created.
        """
        with self._lock:
            if self._checks_requirements:
                return
            wrong = {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": (1 << 62) - 1}
            probe = {"action": "set-properties", "updates": {"pennon.probe": "1"}}
            try:
                self.commit(entry, [probe], [wrong])
            except Exception as error:
                if int(getattr(error, "code", -1)) not in {13, 14}:
                    raise
                self._checks_requirements = True
                return
        raise UnsupportedOperationError(
            f"Table {format_identifier(entry.identifier)} cannot have managed_by=impl: the server does not "
            "check requirements of commits, so writers would overwrite each other's versions"
        )


def commit_body(
    entry: Entry, updates: Iterable[dict[str, Any]], requirements: Iterable[dict[str, Any]] = ()
) -> dict[str, Any]:
    """Return the body of a commit to a table."""
    same = [{"type": "assert-table-uuid", "uuid": entry.uuid}] if entry.uuid else []
    return {
        "identifier": {"namespace": list(entry.identifier[:-1]), "name": entry.identifier[-1]},
        "requirements": [*same, *requirements],
        "updates": list(updates),
    }
