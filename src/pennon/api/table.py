"""A table of a catalog: reading, searching and changing its rows, its versions, tags, branches and indexes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, TypeVar

import lance_namespace as sdk
import pyarrow as pa

from pennon.api import datasets
from pennon.api.fitting import fit_rows
from pennon.api.listing import Listing, format_html_table, format_value
from pennon.api.results import BranchInfo, IndexInfo, RowChanges, TableSummary, TableVersionInfo, TagInfo
from pennon.api.rows import show_reading, to_rows
from pennon.api.search import TableSearch, format_rows_as_html, parse_vectors, resolve_selector
from pennon.catalog_namespace import CatalogNamespace
from pennon.catalog_pages import iterate_pages, iterate_versions
from pennon.errors import InvalidInputError, InvalidTableStateError, LanceNamespaceError, TableSchemaValidationError
from pennon.identifiers import Identifier, format_identifier, quote_identifier
from pennon.table.querying import choose_vector_column
from pennon.table.version_selector import VersionSelector
from pennon.table.version_summary import summarize_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import duckdb
    import pandas as pd
    import polars as pl
    from lance import LanceDataset

    from pennon.api.rows import Rows
    from pennon.connection import AnyNamespace

T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LATEST = VersionSelector()
_SHOWN_ROWS = 5
_SHOWN_COLUMNS = 50
_PAGE = 1000


class LakeTable:
    """A table of a catalog, at its latest version or at another one.

    The object refers to the table by its name and holds no data: each method asks the catalog. Methods raise
    TableNotFoundError if the table does not exist (any more).
    """

    def __init__(
        self,
        catalog: AnyNamespace,
        identifier: Identifier,
        selector: VersionSelector = _LATEST,
        *,
        progress: bool | None = None,
    ) -> None:
        self._catalog = catalog
        self._identifier = identifier
        self._selector = selector
        self._progress = progress

    @property
    def name(self) -> str:
        """The address of the table, such as `sales.orders`, as `lake[...]` takes it."""
        return quote_identifier(self._identifier)

    @property
    def identifier(self) -> Identifier:
        """The names of the table and of its namespaces."""
        return self._identifier

    # Reading

    def search(
        self,
        query: str | Sequence[float] | Any | None = None,
        *,
        text: str | None = None,
        vector_column: str | None = None,
        text_columns: Sequence[str] | None = None,
        metric: str | None = None,
        nprobes: int | None = None,
        refine_factor: int | None = None,
        bypass_index: bool = False,
        with_row_id: bool = False,
    ) -> TableSearch:
        """Return a search, which runs when its rows are asked for: `table.search(v).where("x > 1").limit(5).to_list()`.

        Args:
            query: A vector (a list, or a numpy or pyarrow array), several vectors, or a text. Without it, the search
                reads all rows.
            text: A text to search for together with a vector. Both rankings are fused.
            vector_column: The column to compare with the vector. The default is `vector`, or the only one with vectors.
            text_columns: The columns to search for the text. They need a full-text index.
            metric: The distance: `l2`, `cosine`, `dot` or `hamming`. The default is that of the index.
            nprobes: How many partitions of a vector index to search.
            refine_factor: How many times as many candidates to compare exactly.
            bypass_index: Compare with all vectors, and not only with those that the index finds.
            with_row_id: Add the column `_rowid`.

        Returns:
            The search. Without `limit`, a search for a vector or a text returns 10 rows.

        Raises:
            InvalidInputError: The query is neither numbers nor a text.
        """
        if isinstance(query, str):
            if text is not None:
                raise InvalidInputError("Search for one text: give it as query or as text, not as both")
            query, text = None, query
        options = {
            "vector_column": vector_column,
            "text_columns": text_columns,
            "distance_type": metric,
            "nprobes": nprobes,
            "refine_factor": refine_factor,
            "bypass_vector_index": bypass_index or None,
            "with_row_id": with_row_id or None,
        }
        return TableSearch(
            self._catalog,
            self._identifier,
            self._selector,
            vectors=() if query is None else parse_vectors(query),
            text=text,
            options={key: value for key, value in options.items() if value is not None},
        )

    def find_vector(self, where: str, column: str | None = None) -> list[float]:
        """Return the vector of the one row that meets a predicate, to search for rows that are like it.

        Args:
            where: A predicate in Lance's SQL, such as `"id = 7"`.
            column: The column of vectors. The default is `vector`, or the only one with vectors.

        Raises:
            InvalidInputError: No row or several rows meet the predicate, or the row has no vector.
        """
        chosen = column or choose_vector_column(self.schema, self._identifier)
        found = self.where(where).select([chosen]).limit(2).to_arrow()[chosen].to_pylist()
        if len(found) != 1:
            count = "no row" if not found else "more than one row"
            raise InvalidInputError(f"In table {format_identifier(self._identifier)}, {count} meets {where!r}")
        if not found[0]:
            raise InvalidInputError(
                f"The row of table {format_identifier(self._identifier)} that meets {where!r} has no vector in "
                f"{chosen!r}"
            )
        return parse_vectors(found[0])[0]

    def where(self, predicate: str) -> TableSearch:
        """Return a search for the rows that meet a predicate in Lance's SQL."""
        return self.search().where(predicate)

    def select(self, columns: Sequence[str] | Mapping[str, str]) -> TableSearch:
        """Return a search with these columns only."""
        return self.search().select(columns)

    def head(self, n: int = 10) -> pa.Table:
        """Return the first rows as a pyarrow table."""
        return self.search().limit(n).to_arrow()

    def count(self, where: str | None = None) -> int:
        """Return the number of rows, or of those that meet a predicate.

        Raises:
            InvalidInputError: The predicate is not valid.
        """
        version, branch = resolve_selector(self._catalog, self._identifier, self._selector)
        request = sdk.CountTableRowsRequest(id=self._id, predicate=where, version=version, branch=branch)
        return int(self._catalog.count_table_rows(request).count or 0)

    def to_arrow(self) -> pa.Table:
        """Return all rows as a pyarrow table."""
        return self.search().to_arrow()

    def to_batches(self) -> pa.RecordBatchReader:
        """Return a reader of all rows, for tables that do not fit into memory."""
        return self.search().to_batches()

    def to_pandas(self) -> pd.DataFrame:
        """Return all rows as a pandas DataFrame."""
        return self.search().to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Return all rows as a polars DataFrame."""
        return self.search().to_polars()

    def to_list(self) -> list[dict[str, Any]]:
        """Return all rows as dicts."""
        return self.search().to_list()

    def to_lance(self) -> LanceDataset:
        """Return the table as a dataset of Lance, which reads the table's storage itself.

        Read with it. Change the table by the methods of this object, which keep what the catalog promises.
        """
        return datasets.open_dataset(self._catalog, self._identifier, self._selector)

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Return the table as a relation of DuckDB, which reads only the columns and rows that a query needs.

        Args:
            connection: The connection to use. The default is DuckDB's own default connection.
        """
        import duckdb

        return (connection or duckdb).from_arrow(self.to_lance())

    # Description

    @property
    def schema(self) -> pa.Schema:
        """The columns, as a pyarrow schema."""
        from pennon.table.json_arrow import parse_schema

        described = self._describe().var_schema
        if described is None:
            raise _declared_error(self._identifier)
        return parse_schema(described.model_dump(by_alias=True, exclude_none=True))

    @property
    def version(self) -> int:
        """The number of the version."""
        found = self._describe().version
        if found is None:
            raise _declared_error(self._identifier)
        return found

    def summary(self) -> TableSummary:
        """Return the figures of the version: rows, columns, fragments, bytes. A server is asked for them.

        Raises:
            InvalidTableStateError: The table is declared and has no data yet.
        """
        if isinstance(self._catalog, CatalogNamespace):
            dataset = self.to_lance()
            found = summarize_version(dataset)
            return TableSummary(
                found.version,
                found.changed,
                found.rows,
                len(dataset.schema),
                found.fragments,
                found.data_bytes,
                found.deleted_rows,
            )
        version, columns = self.version, len(self.schema)
        branch = resolve_selector(self._catalog, self._identifier, self._selector)[1]
        if self._selector.version is not None or self._selector.tag is not None:
            return TableSummary(version, None, self.count(), columns)
        latest = sdk.ListTableVersionsRequest(id=self._id, branch=branch, limit=1, descending=True)
        when = next(
            (_to_datetime(one.timestamp_millis) for one in self._catalog.list_table_versions(latest).versions), None
        )
        stats = self._catalog.get_table_stats(sdk.GetTableStatsRequest(id=self._id, branch=branch))
        fragments = stats.fragment_stats.num_fragments
        return TableSummary(version, when, stats.num_rows, columns, fragments, stats.total_bytes)

    @property
    def location(self) -> str:
        """Where the table is stored."""
        return str(self._describe(detailed=False).location)

    @property
    def properties(self) -> dict[str, str]:
        """The properties that the catalog stores for the table. They are set when the table is created."""
        return dict(self._describe(detailed=False).properties or {})

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the table's schema, which Spark shows as table properties."""
        found = self._describe().var_schema
        if found is None:
            raise _declared_error(self._identifier)
        return dict(found.metadata or {})

    def set_metadata(self, changes: Mapping[str, str | None]) -> dict[str, str]:
        """Set metadata of the table's schema in one commit, remove keys whose value is None, and return all.

        The interface replaces all metadata: a change of another client at the same moment may be lost.
        """
        kept = {**self.metadata, **changes}
        request = sdk.UpdateTableSchemaMetadataRequest(
            id=self._id,
            branch=self._branch_to_change(),
            metadata={key: value for key, value in kept.items() if value is not None},
        )
        return dict(self._catalog.update_table_schema_metadata(request).metadata or {})

    # Changing rows

    def append(self, data: Rows) -> LakeTable:
        """Append rows in one commit, and return this table. A table that is only declared gets its first version.

        Args:
            data: Rows as `LakeCatalog.create_table` takes them. A stream is written as it is read.

        Raises:
            TableSchemaValidationError: The columns do not fit.
            ConcurrentModificationError: Other writers changed the table in the same way too often.
        """
        self._insert(data, "append")
        return self

    def overwrite(self, data: Rows) -> LakeTable:
        """Replace all rows and columns in one commit, and return this table. Older versions stay."""
        self._insert(data, "overwrite")
        return self

    def merge(
        self,
        data: Rows,
        on: str | Sequence[str],
        *,
        update_matched: bool | str = True,
        insert_unmatched: bool = True,
        delete_missing: bool | str = False,
    ) -> RowChanges:
        """Update the rows that match new ones by key columns, and insert the others, in one commit.

        Args:
            data: Rows as `append` takes them.
            on: The columns that identify a row.
            update_matched: Whether matching rows get the new values, or a predicate that says which of them do. It
                calls the sides `source` and `target`: `"source.changed > target.changed"`.
            insert_unmatched: Whether new rows without a match are inserted.
            delete_missing: Whether rows of the table without a match are deleted, or a predicate that says which.

        Returns:
            How many rows were changed, and the new version.

        Raises:
            TableColumnNotFoundError or TableSchemaValidationError: The columns do not fit.
        """
        request = sdk.MergeInsertIntoTableRequest(
            id=self._id,
            branch=self._branch_to_change(),
            on=[on] if isinstance(on, str) else list(on),
            when_matched_update_all=update_matched is True or None,
            when_matched_update_all_filt=update_matched if isinstance(update_matched, str) else None,
            when_not_matched_insert_all=insert_unmatched,
            when_not_matched_by_source_delete=delete_missing is True or None,
            when_not_matched_by_source_delete_filt=delete_missing if isinstance(delete_missing, str) else None,
        )
        done = self._send_rows(data, "merging", lambda rows: self._catalog.merge_insert_into_table(request, rows))
        return RowChanges(done.version, done.num_inserted_rows, done.num_updated_rows, done.num_deleted_rows)

    def update(self, values: Mapping[str, str], where: str | None = None) -> RowChanges:
        """Set columns to the values of SQL expressions in one commit: `update({"price": "price * 2"}, "id = 7")`.

        Args:
            values: An expression for each column. A text literal has quotes of its own: `{"state": "'done'"}`.
            where: Only rows that meet this predicate. The default is all rows.

        Raises:
            TableColumnNotFoundError: A column does not exist.
            InvalidInputError: An expression or the predicate is not valid.
        """
        pairs = [[column, expression] for column, expression in values.items()]
        request = sdk.UpdateTableRequest(id=self._id, branch=self._branch_to_change(), updates=pairs, predicate=where)
        done = self._catalog.update_table(request)
        return RowChanges(done.version, updated=done.updated_rows)

    def delete(self, predicate: str) -> RowChanges:
        """Delete the rows that meet a predicate in one commit; `"true"` deletes all. Their number is not known.

        Raises:
            InvalidInputError: The predicate is empty or not valid.
        """
        request = sdk.DeleteFromTableRequest(id=self._id, branch=self._branch_to_change(), predicate=predicate)
        return RowChanges(self._catalog.delete_from_table(request).version, deleted=None)

    # Versions, tags and branches

    def history(self, limit: int | None = None, *, operations: bool = False) -> Listing[TableVersionInfo]:
        """Return the versions, the newest first.

        Args:
            limit: At most so many.
            operations: Also read the transaction of each version, to know what it did.
        """
        tagged: dict[int, list[str]] = {}
        for tag in self.tags():
            if tag.branch == self._selector.branch:
                tagged.setdefault(tag.version, []).append(tag.name)
        found: Listing[TableVersionInfo] = Listing()
        for one in iterate_versions(self._catalog, self._identifier, self._selector.branch):
            if limit is not None and len(found) >= limit:
                break
            tags = tuple(sorted(tagged.get(one.version, ())))
            found.append(TableVersionInfo(one.version, _to_datetime(one.timestamp_millis), tags))
        if operations:
            found[:] = [replace(one, operation=self._read_operation(one.version)) for one in found]
        return found

    def at(self, version: int | None = None, *, tag: str | None = None, branch: str | None = None) -> LakeTable:
        """Return the table at a version, at a tag, or on a branch. Only a branch without a version can be changed.

        Raises:
            InvalidInputError: A tag is combined with a version or a branch.
        """
        selector = VersionSelector.of(format_identifier(self._identifier), version, tag, branch)
        return LakeTable(self._catalog, self._identifier, selector, progress=self._progress)

    def restore(self, version: int) -> LakeTable:
        """Commit an old version again as the latest one, and return this table.

        Raises:
            TableVersionNotFoundError: There is no such version.
        """
        request = sdk.RestoreTableRequest(id=self._id, version=version, branch=self._branch_to_change())
        self._catalog.restore_table(request)
        return self

    def tags(self) -> Listing[TagInfo]:
        """Return the tags, by name."""
        listed = iterate_pages(self._fetch_tags)
        return Listing(TagInfo(name, int(one.version), one.branch) for name, one in listed)

    def tag(self, name: str, version: int | None = None, *, move: bool = False) -> LakeTable:
        """Give a version a name, by default the version of this object, and return this table.

        Args:
            name: The tag.
            version: The version. The default is that of this object.
            move: Move the tag if it exists.

        Raises:
            TableTagAlreadyExistsError: The tag exists, and `move` is False.
            TableVersionNotFoundError: There is no such version.
        """
        number = self.version if version is None else version
        branch = self._selector.branch
        if move and any(one.name == name for one in self.tags()):
            update = sdk.UpdateTableTagRequest(id=self._id, tag=name, version=number, branch=branch)
            self._catalog.update_table_tag(update)
        else:
            create = sdk.CreateTableTagRequest(id=self._id, tag=name, version=number, branch=branch)
            self._catalog.create_table_tag(create)
        return self

    def delete_tag(self, name: str) -> None:
        """Delete a tag. The version stays. Raises TableTagNotFoundError if there is no such tag."""
        self._catalog.delete_table_tag(sdk.DeleteTableTagRequest(id=self._id, tag=name))

    def branches(self) -> Listing[BranchInfo]:
        """Return the branches besides the main one, by name."""
        listed = iterate_pages(self._fetch_branches)
        return Listing(BranchInfo(name, one.parent_branch, one.parent_version) for name, one in listed)

    def create_branch(self, name: str) -> LakeTable:
        """Create a branch from the version of this object, and return the table on the new branch.

        Raises:
            TableBranchAlreadyExistsError: The branch exists.
        """
        version, branch = resolve_selector(self._catalog, self._identifier, self._selector)
        request = sdk.CreateTableBranchRequest(id=self._id, name=name, from_branch=branch, from_version=version)
        self._catalog.create_table_branch(request)
        return self.at(branch=name)

    def delete_branch(self, name: str) -> None:
        """Delete a branch with its versions. Raises TableBranchNotFoundError if there is no such branch."""
        self._catalog.delete_table_branch(sdk.DeleteTableBranchRequest(id=self._id, name=name))

    # Indexes

    def indexes(self) -> Listing[IndexInfo]:
        """Return the indexes."""
        listed = iterate_pages(self._fetch_indexes)
        return Listing(
            IndexInfo(
                one.index_name,
                tuple(one.columns),
                one.index_type,
                one.status,
                one.num_indexed_rows,
                one.num_unindexed_rows,
            )
            for one in listed
        )

    def create_index(
        self, column: str, kind: str, *, name: str | None = None, metric: str | None = None, **parameters: Any
    ) -> LakeTable:
        """Build an index of a column, and return this table. It is ready when this method returns.

        Args:
            column: The column.
            kind: Such as `BTREE` and `BITMAP` for filters, `FTS` for texts, `IVF_PQ` and `IVF_HNSW_SQ` for vectors.
            name: The name of the index. The default follows from the column.
            metric: The distance of a vector index: `l2`, `cosine` or `dot`.
            parameters: Parameters of the kind, such as `num_partitions`.

        Raises:
            TableIndexAlreadyExistsError: An index has the name.
            InvalidInputError: The kind does not exist, or does not fit the column or the parameters.
        """
        request = sdk.CreateTableIndexRequest(
            id=self._id,
            branch=self._branch_to_change(),
            column=column,
            index_type=kind,
            name=name,
            distance_type=metric,
            **parameters,
        )
        self._catalog.create_table_index(request)
        return self

    def drop_index(self, name: str) -> None:
        """Drop an index. Raises TableIndexNotFoundError if there is no such index."""
        request = sdk.DropTableIndexRequest(id=self._id, index_name=name, branch=self._branch_to_change())
        self._catalog.drop_table_index(request)

    # Showing

    def __repr__(self) -> str:
        """Return the address and the version. No request is sent."""
        chosen = {"version": self._selector.version, "tag": self._selector.tag, "branch": self._selector.branch}
        named = [f"{key}={value!r}" for key, value in chosen.items() if value is not None]
        return f"LakeTable({', '.join([repr(self.name), *named])})"

    def _repr_html_(self) -> str:
        heading = format_html_table([repr(self)], [])
        try:
            schema = self.schema
            fields = [[field.name, str(field.type), "" if field.nullable else "not null"] for field in schema]
            rows = self.search().limit(_SHOWN_ROWS).select(schema.names[:_SHOWN_COLUMNS]).to_arrow()
        except LanceNamespaceError as error:
            return heading + format_html_table([type(error).__name__], [[format_value(str(error))]])
        return heading + format_html_table(["column", "type", ""], fields) + format_rows_as_html(rows)

    # Helpers

    @property
    def _id(self) -> list[str]:
        return list(self._identifier)

    def _describe(self, *, detailed: bool = True) -> sdk.DescribeTableResponse:
        return self._catalog.describe_table(
            sdk.DescribeTableRequest(
                id=self._id,
                version=self._selector.version,
                tag=self._selector.tag,
                branch=self._selector.branch,
                load_detailed_metadata=detailed or None,
                check_declared=True,
            )
        )

    def _insert(self, data: Rows, mode: str) -> None:
        request = sdk.InsertIntoTableRequest(id=self._id, mode=mode, branch=self._branch_to_change())
        fits = mode == "append"
        self._send_rows(data, "writing", lambda rows: self._catalog.insert_into_table(request, rows), fits=fits)

    def _send_rows(self, data: Rows, title: str, send: Callable[[Any], T], *, fits: bool = True) -> T:
        """Send rows and return the answer. Unless `fits` is False, types that differ in form are cast."""
        given = to_rows(data)
        if fits and isinstance(given, pa.Table):
            try:
                return send(given)
            except TableSchemaValidationError:
                # Asking for the schema first would cost a request each time.
                fitted = fit_rows(given, self.schema, self._identifier)
                if fitted is given:
                    raise
                return send(fitted)
        with show_reading(given, title, progress=self._progress) as rows:
            return send(fit_rows(rows, self.schema, self._identifier) if fits else rows)

    def _branch_to_change(self) -> str | None:
        if self._selector.version is not None or self._selector.tag is not None:
            raise InvalidInputError(f"{self!r} is an old version, which cannot be changed: use the table itself")
        return self._selector.branch

    def _read_operation(self, version: int) -> str | None:
        request = sdk.DescribeTransactionRequest(id=[*self._id, str(version)])
        try:
            return (self._catalog.describe_transaction(request).properties or {}).get("operation")
        except sdk.TransactionNotFoundError:
            return None  # old writers recorded no transactions

    def _fetch_tags(self, token: str | None) -> tuple[Iterable[tuple[str, Any]], str | None]:
        request = sdk.ListTableTagsRequest(id=self._id, page_token=token, limit=_PAGE)
        page = self._catalog.list_table_tags(request)
        return page.tags.items(), page.page_token

    def _fetch_branches(self, token: str | None) -> tuple[Iterable[tuple[str, Any]], str | None]:
        request = sdk.ListTableBranchesRequest(id=self._id, page_token=token, limit=_PAGE)
        page = self._catalog.list_table_branches(request)
        return page.branches.items(), page.page_token

    def _fetch_indexes(self, token: str | None) -> tuple[Iterable[Any], str | None]:
        request = sdk.ListTableIndicesRequest(id=self._id, page_token=token, limit=_PAGE)
        page = self._catalog.list_table_indices(request)
        return page.indexes, page.page_token


def _to_datetime(millis: int | None) -> datetime | None:
    return None if millis is None else _EPOCH + timedelta(milliseconds=millis)


def _declared_error(identifier: Identifier) -> InvalidTableStateError:
    return InvalidTableStateError(f"Table {format_identifier(identifier)} is declared and has no data yet")
