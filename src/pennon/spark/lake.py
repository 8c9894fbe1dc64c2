"""The lake: the interface of a catalog for Spark programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon.identifiers import Identifier, namespace_identifier, parse_identifier, table_identifier
from pennon.spark import lake_listing
from pennon.spark.address import Address
from pennon.spark.reading import scan
from pennon.spark.reading.pinned import VersionOptions
from pennon.spark.session import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from pennon import DirectoryNamespace
    from pennon.spark.address import Client
    from pennon.spark.merging.merge import MergeResult
    from pennon.spark.merging.mutation import MutationResult
    from pennon.spark.tables import WriteResult

    Name = str | Sequence[str]


def attach(spark: SparkSession, name: str = "lake", impl: str = "dir", **properties: Any) -> Lake:
    """Return a lake: a catalog in a Spark session, classic or Connect. Raises InvalidInputError for bad properties.

    `properties` are those of `pennon.connect(impl, ...)`. A property with a dot in its name, such as a storage option,
    is given as `**{"storage.region": "eu-west-1"}`.
    """
    address = Address.of(impl, properties)
    address.connect()
    prepare(spark)
    return Lake(spark, name, address)


class Lake:
    """A catalog in a Spark session. Tables are named `prod.events`, `` `odd.name`.t `` or `["prod", "events"]`."""

    def __init__(self, spark: SparkSession, name: str, address: Address) -> None:
        self.spark = spark
        self.name = name
        self.address = address

    def __repr__(self) -> str:
        """Return the name and the address, without secrets."""
        return f"Lake({self.name!r}, {self.address!r})"

    @property
    def catalog(self) -> Client:
        """The driver's client of the catalog."""
        return self.address.connect()

    @property
    def directory(self) -> DirectoryNamespace:
        """The client as a directory namespace; raises UnsupportedOperationError if it is not one."""
        return self.address.directory()

    # --- reading ---

    def table(
        self,
        id: Name,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        branch: str | None = None,
        as_of: datetime | str | None = None,
        limit: int | None = None,
    ) -> DataFrame:
        """Return a DataFrame of one version of a table, by default the latest. Later filters are pushed down.

        `where` is a predicate in Lance's SQL. Raises NamespaceNotFoundError, TableNotFoundError, TableTagNotFoundError,
        TableVersionNotFoundError, TableBranchNotFoundError or TableColumnNotFoundError if that does not exist, and
        InvalidInputError for a bad predicate.
        """
        wanted = scan.plan_scan(
            self.address,
            parse_table_name(id),
            VersionOptions(version, tag, branch, as_of),
            columns=columns,
            where=where,
            limit=limit,
        )
        return lake_listing.source_frame(self.spark, self.address, wanted)

    def count(
        self,
        id: Name,
        *,
        where: str | None = None,
        version: int | None = None,
        tag: str | None = None,
        branch: str | None = None,
        as_of: datetime | str | None = None,
    ) -> int:
        """Return the number of rows. Without a predicate, only metadata is read."""
        wanted = scan.plan_scan(
            self.address, parse_table_name(id), VersionOptions(version, tag, branch, as_of), where=where
        )
        return scan.count_rows(self.spark, wanted)

    def sql(self, text: str) -> DataFrame:
        """Run a statement over the tables of the lake and of Spark; docs/guides/spark-sql.md lists the statements."""
        from pennon.spark.sql import run

        return run(self, text)

    # --- writing ---

    def write(
        self,
        df: DataFrame,
        id: Name,
        mode: str = "append",
        **options: Any,
    ) -> WriteResult:
        """Write a DataFrame in one commit: `append`, `overwrite`, `create` (or `error`), `ignore`.

        Options are those of `pennon.spark.tables.write`: `merge_schema`, `job_id` and others.
        """
        from pennon.spark import tables

        return tables.write(self.address, df, parse_table_name(id), mode, **options)

    def merge(
        self,
        df: DataFrame,
        id: Name,
        *,
        on: str | Sequence[str] = (),
        **clauses: Any,
    ) -> MergeResult:
        """Merge a DataFrame into a table by key or by `on_condition`, in one commit; see `merging.merge.merge`."""
        from pennon.spark.merging import merge

        return merge.merge(self, df, parse_table_name(id), on=[on] if isinstance(on, str) else list(on), **clauses)

    def update(
        self,
        id: Name,
        set: Mapping[str, str],
        *,
        where: str | None = None,
        **options: Any,
    ) -> MutationResult:
        """Set columns to SQL expressions in the rows that meet a predicate, in one commit."""
        from pennon.spark.merging import mutation

        return mutation.update(self, parse_table_name(id), dict(set), where=where, **options)

    def delete(self, id: Name, where: str, **options: Any) -> MutationResult:
        """Delete the rows that meet a predicate, in one commit."""
        from pennon.spark.merging import mutation

        return mutation.delete(self, parse_table_name(id), where, **options)

    # --- listing ---

    def namespaces(self, parent: Name = (), *, recursive: bool = False) -> DataFrame:
        """Return the namespaces, one row each: `namespace`, `name`."""
        return lake_listing.list_namespaces(self, parse_namespace_name(parent), recursive=recursive)

    def tables(self, parent: Name = (), *, recursive: bool = False) -> DataFrame:
        """Return the tables, one row each: `namespace`, `name`, `table` (as the other methods accept it)."""
        return lake_listing.list_tables(self, parse_namespace_name(parent), recursive=recursive)

    def dropped(self, parent: Name = ()) -> DataFrame:
        """Return the tables that were dropped from a namespace and can be restored."""
        return lake_listing.list_dropped_tables(self, parse_namespace_name(parent))

    def versions(self, id: Name) -> DataFrame:
        """Return the versions of a table, the newest first."""
        return lake_listing.list_versions(self, parse_table_name(id))

    def history(self, id: Name) -> DataFrame:
        """Return the versions of a table with the operation of each."""
        return lake_listing.list_history(self, parse_table_name(id))

    def tags(self, id: Name) -> DataFrame:
        """Return the tags of a table."""
        return lake_listing.list_tags(self, parse_table_name(id))

    def branches(self, id: Name) -> DataFrame:
        """Return the branches of a table."""
        return lake_listing.list_branches(self, parse_table_name(id))

    def indexes(self, id: Name) -> DataFrame:
        """Return the indexes of a table."""
        return lake_listing.list_indexes(self, parse_table_name(id))


def parse_table_name(name: Name) -> Identifier:
    """Return the identifier for the name of a table, given as text or as a list."""
    return table_identifier(parse_identifier(name) if isinstance(name, str) else name)


def parse_namespace_name(name: Name) -> Identifier:
    """Return the identifier for the name of a namespace, given as text or as a list; the empty name is the root."""
    return namespace_identifier(parse_identifier(name) if isinstance(name, str) else name)
