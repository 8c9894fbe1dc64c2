"""Operations beyond the SDK, by the routes that `pennon serve` has below `/v1/pennon`: the life of tables."""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar

import lance_namespace as sdk
from pydantic import TypeAdapter, ValidationError

from pennon.errors import InvalidInputError, translate_errors
from pennon.http_transport import BadAnswerError
from pennon.identifiers import Identifier, format_identifier, namespace_identifier, table_identifier
from pennon.rest.common_commits import commit_tables
from pennon.rest.server import JSON, encode_json
from pennon.results import (
    DroppedTable,
    ManagementReport,
    MarkerReport,
    MigrationReport,
    Problem,
    PurgedTable,
    PurgeReport,
    TableStatusReport,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from datetime import datetime

    from lance_namespace_urllib3_client.models.create_table_version_entry import CreateTableVersionEntry

    from pennon.rest.server import RestServer
    from pennon.table_commits import NewTable, TableCommit

T = TypeVar("T")


@dataclass(frozen=True)
class _Location:
    location: str


@dataclass(frozen=True)
class _Version:
    version: int


@dataclass(frozen=True)
class _Versions:
    versions: list[int]


@dataclass(frozen=True)
class _RestoredTables:
    tables: list[list[str]]


@dataclass(frozen=True)
class _DroppedPage:
    tables: list[DroppedTable]
    page_token: str | None = None


@dataclass(frozen=True)
class _Problems:
    problems: list[Problem]


@dataclass(frozen=True)
class _Properties:
    properties: dict[str, str]


@dataclass(frozen=True)
class _Nothing:
    pass


class TableLifecycle(sdk.LanceNamespace):
    """Operations beyond the SDK. Servers other than `pennon serve` raise UnsupportedOperationError."""

    _server: RestServer

    def undrop_table(
        self, id: Sequence[str], as_id: Sequence[str] | None = None, deletion_id: str | None = None
    ) -> str:
        """Restore a dropped table, under its own name or another one, and return its location.

        Restores the latest drop of the name unless a deletion id selects another one.
        Raises TableNotFoundError if there is no such dropped table, NamespaceNotFoundError if the namespace does not
        exist, TableAlreadyExistsError if the name is taken.
        """
        identifier = table_identifier(id)
        target = None if as_id is None else list(table_identifier(as_id))
        body = {"as_id": target, "deletion_id": deletion_id}
        return self._change("undrop_table", "table/{id}/undrop", identifier, body, _Location).location

    def undrop_namespace(self, id: Sequence[str], deletion_id: str | None = None) -> list[list[str]]:
        """Restore a dropped namespace with everything that was dropped with it, and return the restored tables.

        Raises NamespaceNotFoundError if there is no such dropped namespace, NamespaceAlreadyExistsError if the name is
        taken.
        """
        identifier, body = namespace_identifier(id), {"deletion_id": deletion_id}
        return self._change("undrop_namespace", "namespace/{id}/undrop", identifier, body, _RestoredTables).tables

    def purge_table(self, id: Sequence[str], deletion_id: str | None = None, *, force: bool = False) -> PurgeReport:
        """Delete permanently what was dropped under a name.

        Raises TableNotFoundError if nothing was dropped under the name, InvalidTableStateError before the end of the
        retention unless `force` is set, InvalidInputError if the table is not dropped.
        """
        body = {"deletion_id": deletion_id, "force": force}
        return self._change("purge_table", "table/{id}/purge", table_identifier(id), body, PurgeReport)

    def purge_tables(
        self,
        ids: Sequence[Sequence[str]] | None = None,
        deleted_before: datetime | None = None,
        *,
        dry_run: bool = False,
        force: bool = False,
        progress: Callable[[PurgedTable, int, int], None] | None = None,
    ) -> PurgeReport:
        """Delete permanently all dropped tables whose retention has ended, or exactly those in `ids`.

        The report has an entry for each table, also for those that could not be purged. `progress` is called when all
        of them are done.
        """
        body = {
            "ids": None if ids is None else [list(table_identifier(one)) for one in ids],
            "deleted_before": None if deleted_before is None else deleted_before.isoformat(),
            "dry_run": dry_run,
            "force": force,
        }
        report = self._change("purge_tables", "table/purge", (), body, PurgeReport)
        if progress is not None:
            for number, table in enumerate(report.tables, 1):
                progress(table, number, len(report.tables))
        return report

    def list_purgable_tables(
        self, deleted_before: datetime | None = None, *, detailed: bool = False
    ) -> list[DroppedTable]:
        """List the dropped tables whose retention has ended, or those that were dropped before a time.

        `detailed` adds rows and bytes, as in `list_dropped_tables`.
        """
        before = None if deleted_before is None else deleted_before.isoformat()
        query = {"deleted_before": before, "detailed": detailed}
        return self._read("list_purgable_tables", "table/purgeable", (), query, _DroppedPage).tables

    def list_dropped_tables(
        self,
        namespace: Sequence[str] = (),
        page_token: str | None = None,
        limit: int | None = None,
        *,
        detailed: bool = False,
    ) -> tuple[list[DroppedTable], str | None]:
        """Return a page of the tables that were dropped from a namespace, and the token of the next page.

        `detailed` opens each table of the page to count its rows, and lists its files to add up their bytes.
        """
        query = {"page_token": page_token, "limit": limit, "detailed": detailed}
        identifier = namespace_identifier(namespace)
        page = self._read("list_dropped_tables", "namespace/{id}/dropped", identifier, query, _DroppedPage)
        return page.tables, page.page_token

    def table_status(self, id: Sequence[str]) -> TableStatusReport:
        """Return whether a table exists, is dropped, or neither."""
        return self._ask("table_status", "table/{id}/status", table_identifier(id), {}, TableStatusReport)

    def set_table_protection(self, id: Sequence[str], protected: bool) -> None:  # noqa: FBT001 - a setter
        """Protect a table from being dropped and purged, or stop protecting it. Raises TableNotFoundError."""
        body = {"protected": protected}
        self._change("set_table_protection", "table/{id}/protection", table_identifier(id), body, _Nothing)

    def set_namespace_protection(self, id: Sequence[str], protected: bool) -> None:  # noqa: FBT001 - a setter
        """Protect a namespace from being dropped, or stop protecting it. Raises NamespaceNotFoundError."""
        identifier, body = namespace_identifier(id), {"protected": protected}
        self._change("set_namespace_protection", "namespace/{id}/protection", identifier, body, _Nothing)

    def alter_namespace_properties(self, id: Sequence[str], changes: Mapping[str, str | None]) -> dict[str, str]:
        """Set properties of a namespace, remove those whose value is None, and return all properties.

        Raises NamespaceNotFoundError if the namespace does not exist.
        """
        if not all(isinstance(key, str) and isinstance(value, (str, NoneType)) for key, value in changes.items()):
            raise InvalidInputError(f"Properties are texts, got {dict(changes)!r}")
        identifier, body = namespace_identifier(id), {"changes": dict(changes)}
        path = "namespace/{id}/properties"
        return self._change("alter_namespace_properties", path, identifier, body, _Properties).properties

    # New tables that are written before they are in the catalog

    def new_table_location(self, id: Sequence[str]) -> str:
        """Return a location where a new table may be written before it is in the catalog.

        Raises NamespaceNotFoundError if the parent does not exist, TableAlreadyExistsError if the name is taken.
        """
        identifier = table_identifier(id)
        return self._ask("new_table_location", "table/{id}/new-location", identifier, {}, _Location).location

    def adopt_table(self, id: Sequence[str], location: str, properties: Mapping[str, str] | None = None) -> int:
        """Add the table that was written at a new location to the catalog, and return its version.

        Raises NamespaceNotFoundError if the parent does not exist, TableAlreadyExistsError if the name is taken,
        InvalidInputError for bad data.
        """
        body = {"location": location, "properties": None if properties is None else dict(properties)}
        return self._change("adopt_table", "table/{id}/adopt", table_identifier(id), body, _Version).version

    def require_new_table_location(self, id: Sequence[str], location: str) -> None:
        """Raise InvalidTableStateError unless a location was made for this table and no table refers to it."""
        path, body = "table/{id}/require-new-location", {"location": location}
        self._ask("require_new_table_location", path, table_identifier(id), body, _Nothing)

    def discard_table_location(self, id: Sequence[str], location: str) -> None:
        """Delete the files at a new location that did not become a table.

        Raises InvalidTableStateError, before anything is deleted, unless it is certain that no table uses them.
        """
        path, body = "table/{id}/discard-location", {"location": location}
        self._change("discard_table_location", path, table_identifier(id), body, _Nothing)

    # Several tables

    def latest_table_versions(self, ids: Sequence[Sequence[str]]) -> list[int]:
        """Return the latest versions of several tables at one point in time.

        Raises NamespaceNotFoundError or TableNotFoundError if a table does not exist, UnsupportedOperationError if the
        catalog does not manage its versions.
        """
        body = {"ids": [list(table_identifier(one)) for one in ids]}
        return self._ask("latest_table_versions", "table/latest-versions", (), body, _Versions).versions

    def require_common_commits(self, ids: Sequence[Sequence[str]]) -> None:
        """Raise UnsupportedOperationError unless one `commit_tables` can change all these tables, or create them."""
        body = {"ids": [list(table_identifier(one)) for one in ids]}
        self._ask("require_common_commits", "table/require-common-commits", (), body, _Nothing)

    def commit_tables(
        self,
        commits: Sequence[TableCommit | NewTable],
        check: Callable[[Mapping[Identifier, int]], object] = lambda _: None,
    ) -> dict[Identifier, int]:
        """Publish prepared Lance transactions of several tables, and new tables, all at once or not at all.

        Returns the new versions. The server's catalog must manage the versions of all tables. Each transaction is
        rebased on what was committed since it was prepared. `check` is called with the versions each time they are
        staged; an error that it raises stops the commit.
        Raises ConcurrentModificationError if a transaction cannot be rebased, TableAlreadyExistsError if a new table
        exists, UnsupportedOperationError if the catalog does not manage the versions.
        """
        body = {"ids": [list(table_identifier(one.id)) for one in commits]}
        with translate_errors("commit_tables"):
            self._ask("commit_tables", "table/require-common-commits", (), body, _Nothing)
            return commit_tables(self, commits, check, self._publish)

    def _publish(self, staged: Sequence[CreateTableVersionEntry], new_tables: Sequence[NewTable]) -> list[int]:
        """Create staged versions and add new tables, in one commit, and return the versions."""
        if not new_tables:
            # By the specification's own operation, which other servers have, too.
            made = self.batch_create_table_versions(sdk.BatchCreateTableVersionsRequest(entries=list(staged)))
            return [one.version for one in made.versions]
        added = [
            {"id": list(one.id), "location": one.location, "properties": dict(one.properties or {})}
            for one in new_tables
        ]
        body = {"versions": [one.model_dump(exclude_none=True) for one in staged], "new_tables": added}
        return self._change("commit_tables", "table/commit", (), body, _Versions).versions

    # Care of the catalog

    def migrate_to_manifest(self, *, dry_run: bool = False, names: Collection[str] | None = None) -> MigrationReport:
        """Register every V1 directory, or those with certain names, in one commit. Safe to interrupt and to repeat."""
        body = {"dry_run": dry_run, "names": None if names is None else sorted(names)}
        return self._change("migrate_to_manifest", "migrate", (), body, MigrationReport)

    def migrate_markers(self, *, dry_run: bool = False) -> MarkerReport:
        """Copy markers that other clients left inside table directories to the root, where listings find them."""
        return self._change("migrate_markers", "migrate-markers", (), {"dry_run": dry_run}, MarkerReport)

    def enable_table_version_management(self) -> ManagementReport:
        """Let the server's catalog manage the versions of all its tables. Safe to interrupt and to repeat.

        Raises UnsupportedOperationError in V1, which has no manifest.
        """
        path, body = "version-management", {"enabled": True}
        return self._change("enable_table_version_management", path, (), body, ManagementReport)

    def disable_table_version_management(self) -> ManagementReport:
        """Stop managing versions. Afterwards, the files of each table decide about its versions."""
        path, body = "version-management", {"enabled": False}
        return self._change("disable_table_version_management", path, (), body, ManagementReport)

    def list_problems(self) -> list[Problem]:
        """List the entries of the server's root that cannot be used and are skipped, each with the reason and the fix.

        Raises PermissionDeniedError without the right to administer the catalog.
        """
        return self._read("list_problems", "problems", (), {}, _Problems).problems

    def _read(self, operation: str, path: str, identifier: Identifier, query: Mapping[str, Any], answer: type[T]) -> T:
        parameters = {
            key: str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in query.items()
            if value is not None
        }
        return self._request(operation, path, identifier, answer, query=parameters, changes=False)

    def _ask(self, operation: str, path: str, identifier: Identifier, body: Mapping[str, Any], answer: type[T]) -> T:
        return self._request(operation, path, identifier, answer, body=body, changes=False)

    def _change(self, operation: str, path: str, identifier: Identifier, body: Mapping[str, Any], answer: type[T]) -> T:
        return self._request(operation, path, identifier, answer, body=body, changes=True)

    def _request(
        self,
        operation: str,
        path: str,
        identifier: Identifier,
        answer: type[T],
        *,
        changes: bool,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> T:
        """Request a route below `/v1/pennon`. Raises UnsupportedOperationError if the server has no such routes."""
        subject = format_identifier(identifier)
        what = f"{operation} of {subject}" if "{id}" in path else operation
        filled = path.replace("{id}", self._server.join(identifier))
        headers = {"Accept": JSON} | ({} if body is None else {"Content-Type": JSON})
        given = {key: value for key, value in (body or {}).items() if value is not None}
        with translate_errors(what):
            answered = self._server.exchange(
                "GET" if body is None else "POST",
                f"pennon/{filled}",
                query or {},
                headers,
                None if body is None else encode_json(given, what),
                what=what,
                subject=subject,
                changes=changes,
            )
            try:
                return TypeAdapter(answer).validate_json(answered.body if answered.body.strip() else b"{}")
            except ValidationError as error:
                raise BadAnswerError(
                    f"{what}: the server's answer is not valid: {error.error_count()} errors"
                ) from error
