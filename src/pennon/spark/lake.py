"""The lake: the interface of a catalog for Spark programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pennon.identifiers import parse_namespace_name, parse_table_name, quote_identifier
from pennon.spark import lake_listing
from pennon.spark.address import Address
from pennon.spark.options import PLAN
from pennon.spark.reading import scan
from pennon.spark.reading.pinned import VersionOptions, pin
from pennon.spark.session import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lance import LanceDataset
    from pyspark.sql import DataFrame, SparkSession

    from pennon import DirectoryNamespace
    from pennon.spark.address import Client
    from pennon.spark.lake_listing import ResultRows
    from pennon.spark.merging.clauses import ClauseSpec
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
    """A catalog in a Spark session. Tables are named `prod.events`, `` `odd.name`.t `` or `["prod", "events"]`.

    Methods raise NamespaceNotFoundError, TableNotFoundError, TableTagNotFoundError, TableVersionNotFoundError,
    TableBranchNotFoundError or TableColumnNotFoundError for what does not exist, and InvalidInputError for a bad
    argument or expression. A write, merge, update or delete is one commit. A second one with the same `job_id` to the
    same table changes nothing. ConcurrentModificationError means that other writers caused repeated conflicts.
    """

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

        `where` is a predicate in Lance's SQL. `as_of` selects the version that was current at a time.
        """
        selector = VersionOptions(version, tag, branch, as_of)
        wanted = scan.plan_scan(self.address, parse_table_name(id), selector, columns=columns, where=where, limit=limit)
        # Through the data source, so that Spark pushes filters down.
        reader = self.spark.read.format("pennon").schema(wanted.spark_schema())
        reader = reader.option(PLAN, scan.serialize_scan(wanted)).option("impl", self.address.impl)
        return reader.option("splits", scan.count_cores(self.spark)).load(quote_identifier(wanted.table.identifier))

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
        selector = VersionOptions(version, tag, branch, as_of)
        return scan.count_rows(self.spark, scan.plan_scan(self.address, parse_table_name(id), selector, where=where))

    def sql(self, text: str) -> DataFrame:
        """Run a statement over the tables of the lake and of Spark; docs/guides/spark-sql.md lists the statements."""
        from pennon.spark.statements import run

        return run(self, text)

    # --- writing ---

    def write(
        self,
        df: DataFrame,
        id: Name,
        mode: str = "append",
        *,
        merge_schema: bool = False,
        job_id: str | None = None,
        branch: str | None = None,
        properties: Mapping[str, str] | None = None,
        rebalance: bool = False,
        max_rows_per_file: int | None = None,
        max_bytes_per_file: int | None = None,
        data_storage_version: str | None = None,
    ) -> WriteResult:
        """Write a DataFrame. Columns are matched by name; `merge_schema` adds those that the table lacks.

        `append` adds rows, and creates a missing table. `overwrite` replaces all rows and columns. If the table exists,
        `create` (or `error`) raises TableAlreadyExistsError and `ignore` does nothing. `properties` are those of a new
        table. With `rebalance`, Spark evens out partitions before they are written. A data file has at most
        `max_rows_per_file` rows (default 1,048,576) and `max_bytes_per_file` bytes (default 4 GiB).
        `data_storage_version` is the version of Lance's file format for a new table.
        """
        from pennon.spark import tables

        return tables.write(
            self.address,
            df,
            parse_table_name(id),
            mode,
            merge_schema=merge_schema,
            job_id=job_id,
            branch=branch,
            properties=properties,
            rebalance=rebalance,
            settings=tables.FileSettings.of(max_rows_per_file, max_bytes_per_file, data_storage_version),
        )

    def merge(
        self,
        df: DataFrame,
        id: Name,
        *,
        on: str | Sequence[str] = (),
        on_condition: str | None = None,
        when_matched: ClauseSpec = "update",
        when_not_matched: ClauseSpec = "insert",
        when_not_matched_by_source: ClauseSpec = None,
        null_safe: bool = False,
        target_alias: str = "target",
        source_alias: str = "source",
        merge_schema: bool = False,
        job_id: str | None = None,
        branch: str | None = None,
        cache: bool = True,
    ) -> MergeResult:
        """Merge a DataFrame into a table: change rows that match rows of the DataFrame, and insert others.

        Rows match if the columns `on` are equal, or if `on_condition` holds: an expression in Spark's SQL that calls
        the two sides by their aliases. Null keys match nothing, unless `null_safe` is True. Clauses are a word
        (`update`, `delete`, `insert`, `ignore`) or a list of `Update`, `Delete` and `Insert`; the first clause whose
        condition holds applies. `merge_schema` adds columns that the table lacks. The DataFrame is cached during the
        merge, unless `cache` is False. Raises InvalidInputError if several rows would change the same row.
        """
        from pennon.spark.merging import merge
        from pennon.spark.merging.clauses import MergeSpec

        spec = MergeSpec(
            on=[on] if isinstance(on, str) else list(on),
            on_condition=on_condition,
            when_matched=when_matched,
            when_not_matched=when_not_matched,
            when_not_matched_by_source=when_not_matched_by_source,
            null_safe=null_safe,
            target_alias=target_alias,
            source_alias=source_alias,
            merge_schema=merge_schema,
        )
        identifier = parse_table_name(id)
        return merge.merge(self.address, df, identifier, spec, job_id=job_id, branch=branch, cache=cache)

    def update(
        self,
        id: Name,
        set: Mapping[str, str],
        *,
        where: str | None = None,
        alias: str = "target",
        job_id: str | None = None,
        branch: str | None = None,
    ) -> MutationResult:
        """Set columns to expressions in Spark's SQL in the rows for which `where` is true, by default in all rows.

        Expressions may call the table by `alias`.
        """
        from pennon.spark.merging import mutation

        identifier = parse_table_name(id)
        return mutation.update(
            self.spark, self.address, identifier, set, where=where, alias=alias, job_id=job_id, branch=branch
        )

    def delete(
        self,
        id: Name,
        where: str,
        *,
        alias: str = "target",
        job_id: str | None = None,
        branch: str | None = None,
    ) -> MutationResult:
        """Delete the rows for which `where`, an expression in Spark's SQL, is true; `true` deletes all rows."""
        from pennon.spark.merging import mutation

        return mutation.delete(
            self.spark, self.address, parse_table_name(id), where, alias=alias, job_id=job_id, branch=branch
        )

    # --- listing ---

    def namespaces(self, parent: Name = (), *, recursive: bool = False) -> DataFrame:
        """Return the namespaces, one row each: `namespace`, `name`."""
        return self._show(lake_listing.list_namespaces(self.catalog, parse_namespace_name(parent), recursive=recursive))

    def tables(self, parent: Name = (), *, recursive: bool = False) -> DataFrame:
        """Return the tables, one row each: `namespace`, `name`, `table` (as the other methods accept it)."""
        return self._show(lake_listing.list_tables(self.catalog, parse_namespace_name(parent), recursive=recursive))

    def dropped(self, parent: Name = ()) -> DataFrame:
        """Return the tables that were dropped from a namespace and can be restored."""
        return self._show(lake_listing.list_dropped_tables(self.catalog, parse_namespace_name(parent)))

    def versions(self, id: Name) -> DataFrame:
        """Return the versions of a table, the newest first."""
        return self._show(lake_listing.list_versions(self.catalog, parse_table_name(id)))

    def history(self, id: Name) -> DataFrame:
        """Return the versions of a table with the operation of each, the newest first."""
        return self._show(lake_listing.list_history(self._open(id)))

    def tags(self, id: Name) -> DataFrame:
        """Return the tags of a table."""
        return self._show(lake_listing.list_tags(self._open(id)))

    def branches(self, id: Name) -> DataFrame:
        """Return the branches of a table."""
        return self._show(lake_listing.list_branches(self._open(id)))

    def indexes(self, id: Name) -> DataFrame:
        """Return the indexes of a table."""
        return self._show(lake_listing.list_indexes(self._open(id)))

    def _open(self, id: Name) -> LanceDataset:
        return pin(self.address, parse_table_name(id))[1]

    def _show(self, listing: ResultRows) -> DataFrame:
        return listing.to_dataframe(self.spark)
