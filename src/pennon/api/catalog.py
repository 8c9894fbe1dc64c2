"""A catalog: its namespaces, its tables, and what was dropped."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, cast

import lance_namespace as sdk

from pennon import addresses
from pennon.api.listing import Listing, format_html_table, format_value
from pennon.api.rows import show_reading, spool_stream, to_rows
from pennon.api.table import LakeTable
from pennon.api.transaction import LakeTransaction
from pennon.catalog_namespace import CatalogNamespace
from pennon.catalog_pages import (
    has_namespace,
    has_table,
    iterate_all_tables,
    iterate_dropped_tables,
    iterate_namespaces,
    suggest_similar,
)
from pennon.errors import (
    BucketNotFoundError,
    InvalidInputError,
    InvalidTableStateError,
    LanceNamespaceError,
    NamespaceNotFoundError,
    TableNotFoundError,
    UnsupportedOperationError,
)
from pennon.identifiers import Identifier, quote_identifier
from pennon.progress import show_progress
from pennon.results import PurgedTable, PurgeReport
from pennon.table_patterns import TablePattern, is_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    import pyarrow as pa
    from typing_extensions import Self

    from pennon.addresses import Address
    from pennon.api.rows import Rows
    from pennon.connection import AnyNamespace
    from pennon.results import (
        DoctorReport,
        DroppedTable,
        ManagementReport,
        MarkerReport,
        MigrationReport,
    )

_SHOWN_TABLES = 20
_END_OF_TIME = datetime.max.replace(tzinfo=timezone.utc)


class LakeCatalog:
    """A catalog of Lance tables: `pennon.open("s3://bucket/lake")`.

    Tables and namespaces are named by addresses: `sales.orders`, `` sales.`odd.name` ``, `/sales/odd.name`, or a list
    of names. `lake["sales.orders"]` is a table, and `"sales.orders" in lake` looks whether it exists.
    """

    def __init__(self, namespace: AnyNamespace, *, progress: bool | None = None) -> None:
        self._namespace = namespace
        self._progress = progress

    @property
    def namespace(self) -> AnyNamespace:
        """The catalog by the interface of the SDK, as `pennon.connect` returns it."""
        return self._namespace

    def close(self) -> None:
        """Finish background work and close connections. The catalog cannot be used afterwards."""
        self._namespace.close()

    def __enter__(self) -> Self:
        """Return the catalog."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the catalog."""
        self.close()

    # Tables

    def create_table(
        self, name: Address, data: Rows, *, mode: str = "create", properties: Mapping[str, str] | None = None
    ) -> LakeTable:
        """Create a table in one commit, and return it. Its namespace must exist.

        Args:
            name: The address of the table.
            data: Its rows: a pyarrow table, batch, reader or dataset, a pandas or polars DataFrame, a list of dicts, a
                dict of columns, or an iterable of batches, which may be larger than the memory. A pyarrow schema
                creates a table without rows. A pandas index becomes columns if it has a name, and is dropped otherwise.
            mode: If the table exists: `create` raises an error, `exist_ok` returns the table as it is, and `overwrite`
                writes a new version of it.
            properties: Properties of a new table.

        Raises:
            NamespaceNotFoundError: The namespace does not exist. `create_namespace` creates it.
            TableAlreadyExistsError: The table exists, and the mode is `create`.
            InvalidInputError: The name, the mode or the rows are not valid.
        """
        identifier = addresses.parse_table(name)
        request = sdk.CreateTableRequest(
            id=list(identifier), mode=mode, properties=None if properties is None else dict(properties)
        )
        with show_reading(to_rows(data), "writing", progress=self._progress) as rows:
            try:
                self._send_new_table(request, rows)
            except BucketNotFoundError:
                raise
            except NamespaceNotFoundError as error:
                parent = quote_identifier(identifier[:-1])
                raise NamespaceNotFoundError(f"{error}; create it with create_namespace({parent!r})") from error
        return self._table(identifier)

    def table(self, name: Address) -> LakeTable:
        """Return a table. Raises TableNotFoundError, which suggests similar names, if it does not exist."""
        identifier = addresses.parse_table(name)
        try:
            self._namespace.table_exists(sdk.TableExistsRequest(id=list(identifier)))
        except (TableNotFoundError, NamespaceNotFoundError) as error:
            raise type(error)(f"{error}{self.suggest_similar(identifier)}") from error
        return self._table(identifier)

    def __getitem__(self, name: Address) -> LakeTable:
        """Return a table. Raises TableNotFoundError if it does not exist."""
        return self.table(name)

    def __contains__(self, name: object) -> bool:
        """Return True if there is a table with this address."""
        try:
            identifier = addresses.parse_table(cast("Address", name))
        except InvalidInputError:
            return False
        return has_table(self._namespace, identifier)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the addresses of all tables, by name."""
        return iter(self.tables())

    def tables(self, which: str | None = None) -> list[str]:
        """Return the addresses of tables, sorted, as `lake[...]` takes them.

        Args:
            which: A namespace, for all tables in it and below it, or a pattern: `*`, `?` and `[abc]` stand for parts of
                a name, and `**` for any number of names, as in `sales.*` and `**.orders`. The default is all tables.

        Raises:
            NamespaceNotFoundError: The namespace does not exist.
            InvalidInputError: The pattern is malformed.
        """
        if which is not None and is_pattern(which):
            pattern = TablePattern.parse(which)
            found = [one for one in iterate_all_tables(self._namespace, ()) if pattern.matches(one)]
        else:
            found = list(iterate_all_tables(self._namespace, addresses.parse_namespace(which)))
        return [quote_identifier(one) for one in sorted(found)]

    def rename(self, name: Address, new_name: Address) -> LakeTable:
        """Rename a table, also into another namespace, and return it. No data is moved.

        Raises:
            TableNotFoundError or NamespaceNotFoundError: The table or the new namespace does not exist.
            TableAlreadyExistsError: The new name is taken.
        """
        identifier, target = addresses.parse_table(name), addresses.parse_table(new_name)
        request = sdk.RenameTableRequest(
            id=list(identifier), new_table_name=target[-1], new_namespace_id=list(target[:-1])
        )
        self._namespace.rename_table(request)
        return self._table(target)

    def transaction(self) -> LakeTransaction:
        """Return a transaction, for changes of several tables in one commit: `with lake.transaction() as t:`."""
        return LakeTransaction(self._namespace, progress=self._progress)

    # Dropped tables

    def drop(self, name: Address, *, ttl: str | None = None, purge: bool = False, force: bool = False) -> None:
        """Drop a table in one commit. Its data is kept, and `undrop` restores it.

        Args:
            name: The address of the table.
            ttl: How long the data is kept at least, such as `30d`. The default is the catalog's, which is a week.
            purge: Delete the data at once and permanently.
            force: Also drop a protected table.

        Raises:
            TableNotFoundError: The table does not exist.
            InvalidTableStateError: The table is protected.
        """
        context = _make_context(ttl=ttl, purge=purge, force=force)
        self._namespace.drop_table(sdk.DropTableRequest(id=list(addresses.parse_table(name)), context=context))

    def undrop(self, name: Address, *, new_name: Address | None = None, drop_id: str | None = None) -> LakeTable:
        """Restore a dropped table in one commit, and return it.

        Args:
            name: The address that it had.
            new_name: The address that it gets. The default is the old one.
            drop_id: Which drop, if the name was dropped several times. The default is the latest.

        Raises:
            TableNotFoundError: No such table was dropped, or it was purged.
            TableAlreadyExistsError: The name is in use again.
        """
        identifier = addresses.parse_table(name)
        target = None if new_name is None else addresses.parse_table(new_name)
        self._namespace.undrop_table(identifier, target, drop_id)
        return self._table(target or identifier)

    def trash(self, namespace: Address | None = None, *, detailed: bool = False) -> Listing[DroppedTable]:
        """Return the tables that were dropped from a namespace and those below it, and can be restored.

        Args:
            namespace: The namespace. The default is the whole catalog.
            detailed: Also count the rows and bytes of each table.

        Raises:
            NamespaceNotFoundError: There is no such namespace, and nothing was dropped from it.
        """
        below = addresses.parse_namespace(namespace)
        # The namespaces of dropped tables may be dropped, too. Tables whose retention cannot be read are not in it.
        everything = self._namespace.list_purgable_tables(_END_OF_TIME, detailed=detailed)
        found = {_drop_key(table): table for table in everything if _is_below(table, below)}
        places = []
        if self.has_namespace(below):
            places = [below, *iterate_namespaces(self._namespace, below, recursive=True)]
        elif not found:
            self._namespace.namespace_exists(sdk.NamespaceExistsRequest(id=list(below)))
        for place in places:
            for table in iterate_dropped_tables(self._namespace, place):
                if table.fault is not None or table.being_purged:
                    found[_drop_key(table)] = table
        return Listing(found[key] for key in sorted(found))

    def purge(
        self,
        name: Address | None = None,
        *,
        drop_id: str | None = None,
        before: datetime | None = None,
        dry_run: bool = False,
        force: bool = False,
    ) -> PurgeReport:
        """Delete dropped tables permanently: one, or all whose time has come.

        Args:
            name: The address of a dropped table. The default is all that are due.
            drop_id: Which drop, if the name was dropped several times. The default is all of them.
            before: Only tables that were dropped before this time.
            dry_run: Only report what would be deleted.
            force: Also delete tables that are not due yet or are protected. Needs a name.

        Returns:
            What was deleted, with the error of each table that could not be deleted.

        Raises:
            TableNotFoundError: Nothing was dropped under this name.
            InvalidTableStateError: The table is not due.
        """
        if name is None and force:
            raise InvalidInputError("Purging with force needs the name of a table")
        if name is not None and before is not None:
            raise InvalidInputError("Purge either a table by its name, or all that were dropped before a time")
        ids = None if name is None else [addresses.parse_table(name)]
        if ids is not None and dry_run and drop_id is not None:
            return self._plan_purge(ids[0], drop_id, force=force)
        with show_progress("purging (tables)", wanted=self._progress) as advance:

            def count(table: PurgedTable, _done: int, _total: int) -> None:
                advance(1, quote_identifier(tuple(table.id)))

            if ids is not None and not dry_run:
                return self._namespace.purge_table(ids[0], drop_id, force=force)
            return self._namespace.purge_tables(ids, before, dry_run=dry_run, force=force, progress=count)

    # Namespaces

    def namespaces(self, parent: Address | None = None, *, recursive: bool = True) -> list[str]:
        """Return the addresses of namespaces, sorted.

        Args:
            parent: Only those below this namespace. The default is all.
            recursive: Also those at a deeper level.
        """
        below = addresses.parse_namespace(parent)
        found = iterate_namespaces(self._namespace, below, recursive=recursive)
        return [quote_identifier(one) for one in sorted(found)]

    def create_namespace(
        self,
        name: Address,
        *,
        properties: Mapping[str, str] | None = None,
        exist_ok: bool = False,
        parents: bool = False,
    ) -> None:
        """Create a namespace in one commit.

        Args:
            name: The address of the namespace.
            properties: Properties of a new namespace.
            exist_ok: Do nothing if it exists.
            parents: First create the namespaces above it that do not exist.

        Raises:
            NamespaceAlreadyExistsError: The namespace exists, and `exist_ok` is False.
            NamespaceNotFoundError: The namespace above it does not exist, and `parents` is False.
        """
        identifier = addresses.parse_namespace(name)
        if parents:
            for depth in range(1, len(identifier)):
                above = sdk.CreateNamespaceRequest(id=list(identifier[:depth]), mode="exist_ok")
                self._namespace.create_namespace(above)
        request = sdk.CreateNamespaceRequest(
            id=list(identifier),
            mode="exist_ok" if exist_ok else "create",
            properties=None if properties is None else dict(properties),
        )
        self._namespace.create_namespace(request)

    def drop_namespace(
        self, name: Address, *, cascade: bool = False, ttl: str | None = None, force: bool = False
    ) -> None:
        """Drop a namespace in one commit.

        Args:
            name: The address of the namespace.
            cascade: Also drop everything in it. `undrop_namespace` restores it with its contents.
            ttl: How long the contents are kept at least.
            force: Also drop protected objects.

        Raises:
            NamespaceNotFoundError: The namespace does not exist.
            NamespaceNotEmptyError: It has contents, and `cascade` is False.
            InvalidTableStateError: Something in it is protected.
        """
        request = sdk.DropNamespaceRequest(
            id=list(addresses.parse_namespace(name)),
            behavior="cascade" if cascade else "restrict",
            context=_make_context(ttl=ttl, force=force),
        )
        self._namespace.drop_namespace(request)

    def undrop_namespace(self, name: Address, *, drop_id: str | None = None) -> list[str]:
        """Restore a dropped namespace with everything that was dropped with it, and return the restored tables.

        Raises:
            NamespaceNotFoundError: No such namespace was dropped.
            NamespaceAlreadyExistsError: The name is in use again.
        """
        undrop = self._require_method("undrop_namespace")
        restored = undrop(addresses.parse_namespace(name), drop_id)
        return [quote_identifier(tuple(one)) for one in restored]

    def has_namespace(self, name: Address) -> bool:
        """Return True if there is a namespace with this address."""
        return has_namespace(self._namespace, addresses.parse_namespace(name))

    def namespace_properties(self, name: Address) -> dict[str, str]:
        """Return the properties of a namespace. Raises NamespaceNotFoundError if it does not exist."""
        request = sdk.DescribeNamespaceRequest(id=list(addresses.parse_namespace(name)))
        return dict(self._namespace.describe_namespace(request).properties or {})

    def set_namespace_properties(self, name: Address, changes: Mapping[str, str | None]) -> dict[str, str]:
        """Set properties of a namespace, remove those whose value is None, and return all.

        Raises:
            NamespaceNotFoundError: The namespace does not exist.
        """
        return self._namespace.alter_namespace_properties(addresses.parse_namespace(name), changes)

    def protect(self, name: Address, *, on: bool = True) -> None:
        """Protect a table from being dropped and purged, or end that.

        Raises:
            TableNotFoundError: The table does not exist.
            UnsupportedOperationError: An Iceberg REST catalog has no protection.
        """
        self._require_method("set_table_protection")(addresses.parse_table(name), on)

    def protect_namespace(self, name: Address, *, on: bool = True) -> None:
        """Protect a namespace from being dropped, or end that.

        Raises:
            NamespaceNotFoundError: The namespace does not exist.
            UnsupportedOperationError: An Iceberg REST catalog has no protection.
        """
        self._require_method("set_namespace_protection")(addresses.parse_namespace(name), on)

    # The whole catalog

    def migrate(self, *, dry_run: bool = False) -> MigrationReport:
        """Add the root tables of a directory that had no manifest to the manifest, in one commit. No data is moved.

        Raises:
            UnsupportedOperationError: The catalog has no root tables, as an Iceberg REST catalog.
        """
        return cast("MigrationReport", self._require_method("migrate_to_manifest")(dry_run=dry_run))

    def migrate_markers(self, *, dry_run: bool = False) -> MarkerReport:
        """Copy markers that other clients left inside table directories to the root, where listings find them.

        Raises:
            UnsupportedOperationError: The catalog has no root tables, as an Iceberg REST catalog.
        """
        return cast("MarkerReport", self._require_method("migrate_markers")(dry_run=dry_run))

    def manage_versions(self, *, on: bool = True) -> ManagementReport:
        """Let the catalog manage the versions of its tables, so that transactions can change several, or end that.

        It can be interrupted and repeated.

        Raises:
            UnsupportedOperationError: The catalog has no manifest. An Iceberg REST catalog manages the versions of
                tables that are created with the property `managed_by=impl`.
        """
        if not on:
            return cast("ManagementReport", self._require_method("disable_table_version_management")())
        enable = self._require_method("enable_table_version_management")
        with show_progress("reading versions", wanted=self._progress) as advance:
            is_here = isinstance(self._namespace, CatalogNamespace)
            report = enable(lambda _done, _total: advance(1)) if is_here else enable()
        return cast("ManagementReport", report)

    def doctor(
        self,
        *,
        fix: bool = False,
        deep: bool = False,
        probe: bool = True,
        progress: Callable[[str, int], None] | None = None,
    ) -> DoctorReport:
        """Examine the catalog: its store, manifest, markers, trash, directories and versions, or its server.

        The report lists what is wrong and what to do. What `fix` repairs was recorded as begun by a client: purges,
        creations, versions, deletions; no data is deleted that a table may need, and data without a row is kept.

        Args:
            fix: Repair what is provably safe. The report then has what was repaired, and what remains.
            deep: Open every table too, and list more than one page of the store. Takes requests for each table.
            probe: Write objects below the directory `.lance-probe-...` of the root to see which promises the store
                keeps, and delete them.
            progress: Called with the title of each check before it runs, and the number of all checks.
        """
        from pennon.doctor.examination import examine

        if progress is not None:
            return examine(self._namespace, fix=fix, deep=deep, probe=probe, report=progress)
        with show_progress("examining", wanted=self._progress) as advance:
            return examine(self._namespace, fix=fix, deep=deep, probe=probe, report=lambda title, _: advance(1, title))

    # Showing

    def suggest_similar(self, identifier: Identifier) -> str:
        """Return a question that names tables and namespaces with a similar name, or an empty string."""
        return suggest_similar(self._namespace, identifier)

    def __repr__(self) -> str:
        """Return what is open. No request is sent."""
        return f"LakeCatalog({self._namespace!r})"

    def _repr_html_(self) -> str:
        heading = format_html_table([repr(self)], [])
        try:
            names = self.tables()
        except LanceNamespaceError as error:
            return heading + format_html_table([type(error).__name__], [[format_value(str(error))]])
        more = [[f"{len(names) - _SHOWN_TABLES:,} more"]] if len(names) > _SHOWN_TABLES else []
        return heading + format_html_table(["table"], [*([format_value(one)] for one in names[:_SHOWN_TABLES]), *more])

    # Helpers

    def _table(self, identifier: Identifier) -> LakeTable:
        return LakeTable(self._namespace, identifier, progress=self._progress)

    def _send_new_table(self, request: sdk.CreateTableRequest, rows: pa.Table | pa.RecordBatchReader) -> None:
        if isinstance(self._namespace, CatalogNamespace):
            with spool_stream(rows) as spooled:
                self._namespace.create_table(request, spooled)
        else:
            self._namespace.create_table(request, rows)

    def _plan_purge(self, identifier: Identifier, drop_id: str, *, force: bool) -> PurgeReport:
        """Return what purging one of several drops of a name would delete."""
        shown = quote_identifier(identifier)
        dropped = [one for one in self.trash(detailed=True) if tuple(one.id) == identifier]
        found = next((one for one in dropped if one.deletion_id == drop_id), None)
        if found is None:
            raise TableNotFoundError(f"Table '{shown}' has no drop with the id {drop_id!r}")
        if not force and not found.is_due(datetime.now(timezone.utc)):
            raise InvalidTableStateError(f"Table '{shown}' is kept until {found.purgeable_at:%Y-%m-%d %H:%M:%S %Z}")
        planned = PurgedTable(found.id, found.deletion_id, found.location, bytes=found.bytes or 0)
        return PurgeReport(dry_run=True, tables=[planned])

    def _require_method(self, name: str) -> Callable[..., Any]:
        """Return a method that not all implementations have. Raises UnsupportedOperationError if this one lacks it."""
        method = getattr(self._namespace, name, None)
        if method is None:
            raise UnsupportedOperationError(f"{self._namespace!r} does not support {name}")
        return cast("Callable[..., Any]", method)


def _drop_key(table: DroppedTable) -> tuple[tuple[str, ...], datetime, str]:
    # Old clients recorded no id.
    return tuple(table.id), table.dropped_at, table.deletion_id


def _is_below(table: DroppedTable, namespace: Identifier) -> bool:
    return tuple(table.id[: len(namespace)]) == namespace


def _make_context(*, ttl: str | None, force: bool, purge: bool = False) -> dict[str, str] | None:
    """Return the options of a drop as requests carry them."""
    context = {} if ttl is None else {"ttl": ttl}
    context |= {key: "true" for key, wanted in {"force": force, "purge": purge}.items() if wanted}
    return context or None
