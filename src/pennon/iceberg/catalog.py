"""What every operation works with: the server, the stores, and how a table is looked up and changed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import lance

from pennon.errors import NamespaceNotFoundError, TableNotFoundError, UnsupportedOperationError
from pennon.iceberg import answers, rest
from pennon.iceberg.entry import Entry, parse_entry
from pennon.iceberg.http import UnknownOutcomeError, pause_before_retry
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
    """Tables that are open for operations inside of them."""
    _checks_requirements: bool = False
    _lock: Lock = field(default_factory=Lock)

    def close(self) -> None:
        """Let go of connections and open tables."""
        self.handles.clear()
        self.server.close()
        self.places.close()

    # Looking

    def table(self, identifier: Identifier) -> Entry:
        """Give a Lance table; 4 if there is none of that name, 1 if its namespace is not there."""
        entry = self.any_table(require_not_reserved(identifier))
        if entry is None or not entry.is_lance:
            self.require_namespace(identifier[:-1])
            raise table_not_found(identifier)
        return entry

    def any_table(self, identifier: Identifier) -> Entry | None:
        """Give a table of any kind; None if there is none. At the root there are none."""
        if len(identifier) == 1:
            return None
        try:
            answer = self.server.call(rest.LOAD_TABLE, identifier, table=identifier[-1], query={"snapshots": "all"})
        except (TableNotFoundError, NamespaceNotFoundError):
            return None
        return parse_entry(identifier, answer)

    def require_namespace(self, identifier: Identifier) -> dict[str, str]:
        """Give the properties of a namespace; 1 if it is not there. The root always is."""
        if identifier == ROOT:
            return {}
        try:
            answer = self.server.call(rest.LOAD_NAMESPACE, identifier)
        except NamespaceNotFoundError:
            raise namespace_not_found(identifier) from None
        return answers.texts(answer, "properties", f"Namespace {format_identifier(identifier)}")

    def children(self, identifier: Identifier) -> list[Identifier]:
        """List the namespaces directly below one; 1 if that is not there."""
        query = {"parent": "\x1f".join(identifier)} if identifier else None
        what = f"Namespaces below {format_identifier(identifier)}"
        try:
            found = {
                answers.names(one, what) for one in self.server.pages(rest.LIST_NAMESPACES, ROOT, "namespaces", query)
            }
        except NamespaceNotFoundError:
            if identifier == ROOT:
                # The server's own words: it does not know the prefix, or hides it from this user.
                raise
            raise namespace_not_found(identifier) from None
        # A server without levels may answer with all that it has.
        below = {one for one in found if len(one) == len(identifier) + 1 and one[:-1] == identifier}
        if identifier and not below:
            self.require_namespace(identifier)
        return sorted(below.difference(TRASHES))

    def walk(self, below: Identifier) -> list[Identifier]:
        """Give a namespace and all at any depth below it."""
        found = [below]
        for child in self.children(below):
            found += self.walk(child)
        return found

    def names(self, identifier: Identifier) -> list[str]:
        """List the names of tables of any kind in a namespace.

        Raises NamespaceNotFoundError if the server answers that the namespace does not exist; some list nothing then.
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
        """Give the options by which Lance opens a table."""
        return self.places.options(entry, {} if entry is None else self.server.defaults)

    def store(self, entry: Entry) -> Store:
        """Give the store whose root is a table's directory."""
        return self.places.store(self.location(entry), self.options(entry))

    @property
    def shows_files(self) -> bool:
        """Tell whether the server takes the versions that it finds at a table's place for the table's own."""
        return self.server.defaults.get(KEEPS_SNAPSHOTS) == "true"

    @property
    def has_only_lance_tables(self) -> bool:
        """Tell whether every table that the server lists is a Lance table: the user says so, or the server does."""
        return self.settings.assumes_lance_tables or self.server.defaults.get(ONLY_LANCE) == "true"

    def location(self, entry: Entry) -> str:
        """Give the location of a table as Lance opens it."""
        return check_location(entry.location, entry.identifier)

    # Changing

    def commit(
        self, entry: Entry, updates: Iterable[dict[str, Any]], requirements: Iterable[dict[str, Any]] = ()
    ) -> Entry:
        """Change a table by one UpdateTable, which only holds for the table that was looked at. Errors 4, 14, 17.

        If its outcome is not known, UnknownOutcomeError is raised.
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
        """Set properties of a table, again if nobody knows whether they are set: it comes to the same."""
        for attempt in range(_ATTEMPTS):
            try:
                return self.commit(entry, [{"action": "set-properties", "updates": updates}])
            except UnknownOutcomeError:
                if attempt + 1 == _ATTEMPTS:
                    raise
                pause_before_retry(attempt)
        raise AssertionError

    def require_requirements(self, entry: Entry) -> None:
        """Raise 0 if the server accepts a commit whose requirement does not hold: it cannot manage versions.

        It is asked once, by a change of a table that was just made.
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
            "check requirements of "
            "commits, so writers would overwrite each other's versions"
        )


def commit_body(
    entry: Entry, updates: Iterable[dict[str, Any]], requirements: Iterable[dict[str, Any]] = ()
) -> dict[str, Any]:
    """Give the body of a commit to a table."""
    same = [{"type": "assert-table-uuid", "uuid": entry.uuid}] if entry.uuid else []
    return {
        "identifier": {"namespace": list(entry.identifier[:-1]), "name": entry.identifier[-1]},
        "requirements": [*same, *requirements],
        "updates": list(updates),
    }
