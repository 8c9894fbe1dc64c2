"""Operations inside tables: rows, columns, indexes, history. The server does the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import lance_namespace as sdk
import pyarrow as pa

from pennon.errors import InvalidInputError
from pennon.http_transport import BadAnswerError
from pennon.requests import accept_single_column, operation
from pennon.rest import routes
from pennon.rest.rows import FILE, FILE_MAGIC, STREAM, make_body
from pennon.rest.server import describe_call
from pennon.table.ipc import open_ipc, read_ipc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pennon.http_transport import AnswerStream
    from pennon.rest.server import RestServer


class TableContents(sdk.LanceNamespace):
    """Operations inside tables."""

    _server: RestServer

    # Rows

    @operation(sdk.CountTableRowsRequest)
    def count_table_rows(self, request: sdk.CountTableRowsRequest) -> sdk.CountTableRowsResponse:
        """Return the number of rows, or of those that meet a predicate."""
        return self._server.call(routes.COUNT_TABLE_ROWS, request)

    @operation(sdk.QueryTableRequest)
    def query_table(self, request: sdk.QueryTableRequest) -> sdk.QueryTableResponse:
        """Search or filter, and return the rows as an Arrow IPC file. Use `query_batches` for large results."""
        answer = self._server.send(routes.QUERY_TABLE, request, accepts=FILE)
        return sdk.QueryTableResponse(data=answer.body)

    @operation(sdk.QueryTableRequest)
    def query_batches(self, request: sdk.QueryTableRequest) -> pa.RecordBatchReader:
        """Search or filter, and return a reader of the rows, which are sent while they are read.

        Raises UnknownOutcomeError while reading if the answer breaks off, BadAnswerError if it is not valid.
        """
        what = describe_call(routes.QUERY_TABLE.operation, request.id)
        answer = self._server.send(routes.QUERY_TABLE, request, accepts=STREAM, streams=True)
        return _read_rows(cast("AnswerStream", answer.stream), what)

    @operation(sdk.ExplainTableQueryPlanRequest)
    def explain_table_query_plan(self, request: sdk.ExplainTableQueryPlanRequest) -> str:
        """Return the plan of a query."""
        return self._server.call(routes.EXPLAIN_TABLE_QUERY_PLAN, request).text

    @operation(sdk.AnalyzeTableQueryPlanRequest)
    def analyze_table_query_plan(self, request: sdk.AnalyzeTableQueryPlanRequest) -> str:
        """Run a query and return its plan with the cost of each step."""
        return self._server.call(routes.ANALYZE_TABLE_QUERY_PLAN, request).text

    @operation(sdk.InsertIntoTableRequest)
    def insert_into_table(
        self, request: sdk.InsertIntoTableRequest, request_data: object
    ) -> sdk.InsertIntoTableResponse:
        """Append rows, or replace all rows.

        The rows are Arrow IPC data in bytes or in an open file, or a pyarrow table or reader, which are sent as a
        stream.
        """
        return self._server.call(routes.INSERT_INTO_TABLE, request, make_body(request_data))

    @operation(sdk.MergeInsertIntoTableRequest, upgrade=accept_single_column)
    def merge_insert_into_table(
        self, request: sdk.MergeInsertIntoTableRequest, request_data: object
    ) -> sdk.MergeInsertIntoTableResponse:
        """Update the rows that match by a column, and insert the others. Rows as for `insert_into_table`."""
        return self._server.call(routes.MERGE_INSERT_INTO_TABLE, request, make_body(request_data))

    @operation(sdk.UpdateTableRequest)
    def update_table(self, request: sdk.UpdateTableRequest) -> sdk.UpdateTableResponse:
        """Update rows by expressions."""
        return self._server.call(routes.UPDATE_TABLE, request)

    @operation(sdk.DeleteFromTableRequest)
    def delete_from_table(self, request: sdk.DeleteFromTableRequest) -> sdk.DeleteFromTableResponse:
        """Delete the rows that meet a predicate."""
        return self._server.call(routes.DELETE_FROM_TABLE, request)

    # Columns

    @operation(sdk.AlterTableAddColumnsRequest)
    def alter_table_add_columns(self, request: sdk.AlterTableAddColumnsRequest) -> sdk.AlterTableAddColumnsResponse:
        """Add columns by expressions, or declare computed columns."""
        return self._server.call(routes.ALTER_TABLE_ADD_COLUMNS, request)

    @operation(sdk.AlterTableAlterColumnsRequest)
    def alter_table_alter_columns(
        self, request: sdk.AlterTableAlterColumnsRequest
    ) -> sdk.AlterTableAlterColumnsResponse:
        """Rename columns, cast them, and change whether they are nullable."""
        return self._server.call(routes.ALTER_TABLE_ALTER_COLUMNS, request)

    @operation(sdk.AlterTableDropColumnsRequest)
    def alter_table_drop_columns(self, request: sdk.AlterTableDropColumnsRequest) -> sdk.AlterTableDropColumnsResponse:
        """Drop columns."""
        return self._server.call(routes.ALTER_TABLE_DROP_COLUMNS, request)

    @operation(sdk.AlterTableBackfillColumnsRequest)
    def alter_table_backfill_columns(
        self, request: sdk.AlterTableBackfillColumnsRequest
    ) -> sdk.AlterTableBackfillColumnsResponse:
        """Fill the rows that have no value in a computed column."""
        return self._server.call(routes.ALTER_TABLE_BACKFILL_COLUMNS, request)

    @operation(sdk.UpdateTableSchemaMetadataRequest)
    def update_table_schema_metadata(
        self, request: sdk.UpdateTableSchemaMetadataRequest
    ) -> sdk.UpdateTableSchemaMetadataResponse:
        """Replace the metadata of the schema."""
        return self._server.call(routes.UPDATE_TABLE_SCHEMA_METADATA, request)

    @operation(sdk.UpdateFieldMetadataRequest)
    def update_field_metadata(self, request: sdk.UpdateFieldMetadataRequest) -> sdk.UpdateFieldMetadataResponse:
        """Merge values into the metadata of columns, or replace it."""
        return self._server.call(routes.UPDATE_FIELD_METADATA, request)

    @operation(sdk.GetTableStatsRequest)
    def get_table_stats(self, request: sdk.GetTableStatsRequest) -> sdk.GetTableStatsResponse:
        """Return the numbers of rows, bytes, indexes and fragments."""
        return self._server.call(routes.GET_TABLE_STATS, request)

    # Indexes

    @operation(sdk.CreateTableIndexRequest)
    def create_table_index(self, request: sdk.CreateTableIndexRequest) -> sdk.CreateTableIndexResponse:
        """Build an index of any kind."""
        return self._server.call(routes.CREATE_TABLE_INDEX, request)

    @operation(sdk.CreateTableIndexRequest)
    def create_table_scalar_index(self, request: sdk.CreateTableIndexRequest) -> sdk.CreateTableScalarIndexResponse:
        """Build a scalar or full-text index."""
        return self._server.call(routes.CREATE_TABLE_SCALAR_INDEX, request)

    @operation(sdk.ListTableIndicesRequest)
    def list_table_indices(self, request: sdk.ListTableIndicesRequest) -> sdk.ListTableIndicesResponse:
        """Return a page of the indexes, sorted by name."""
        return self._server.call(routes.LIST_TABLE_INDICES, request)

    @operation(sdk.DescribeTableIndexStatsRequest)
    def describe_table_index_stats(
        self, request: sdk.DescribeTableIndexStatsRequest
    ) -> sdk.DescribeTableIndexStatsResponse:
        """Return the kind of an index and the number of rows in it."""
        return self._server.call(routes.DESCRIBE_TABLE_INDEX_STATS, request)

    @operation(sdk.DropTableIndexRequest)
    def drop_table_index(self, request: sdk.DropTableIndexRequest) -> sdk.DropTableIndexResponse:
        """Drop an index."""
        return self._server.call(routes.DROP_TABLE_INDEX, request)

    # History

    @operation(sdk.ListTableTagsRequest)
    def list_table_tags(self, request: sdk.ListTableTagsRequest) -> sdk.ListTableTagsResponse:
        """Return a page of the tags, sorted by name."""
        return self._server.call(routes.LIST_TABLE_TAGS, request)

    @operation(sdk.GetTableTagVersionRequest)
    def get_table_tag_version(self, request: sdk.GetTableTagVersionRequest) -> sdk.GetTableTagVersionResponse:
        """Return the version of a tag."""
        return self._server.call(routes.GET_TABLE_TAG_VERSION, request)

    @operation(sdk.CreateTableTagRequest)
    def create_table_tag(self, request: sdk.CreateTableTagRequest) -> sdk.CreateTableTagResponse:
        """Create a tag for a version."""
        return self._server.call(routes.CREATE_TABLE_TAG, request)

    @operation(sdk.UpdateTableTagRequest)
    def update_table_tag(self, request: sdk.UpdateTableTagRequest) -> sdk.UpdateTableTagResponse:
        """Move a tag to another version."""
        return self._server.call(routes.UPDATE_TABLE_TAG, request)

    @operation(sdk.DeleteTableTagRequest)
    def delete_table_tag(self, request: sdk.DeleteTableTagRequest) -> sdk.DeleteTableTagResponse:
        """Delete a tag."""
        return self._server.call(routes.DELETE_TABLE_TAG, request)

    @operation(sdk.CreateTableBranchRequest)
    def create_table_branch(self, request: sdk.CreateTableBranchRequest) -> sdk.CreateTableBranchResponse:
        """Create a branch from a version of another one."""
        return self._server.call(routes.CREATE_TABLE_BRANCH, request)

    @operation(sdk.ListTableBranchesRequest)
    def list_table_branches(self, request: sdk.ListTableBranchesRequest) -> sdk.ListTableBranchesResponse:
        """Return a page of the branches, sorted by name."""
        return self._server.call(routes.LIST_TABLE_BRANCHES, request)

    @operation(sdk.DeleteTableBranchRequest)
    def delete_table_branch(self, request: sdk.DeleteTableBranchRequest) -> sdk.DeleteTableBranchResponse:
        """Delete a branch."""
        return self._server.call(routes.DELETE_TABLE_BRANCH, request)

    @operation(sdk.RestoreTableRequest)
    def restore_table(self, request: sdk.RestoreTableRequest) -> sdk.RestoreTableResponse:
        """Make an earlier version the latest one again."""
        return self._server.call(routes.RESTORE_TABLE, request)

    @operation(sdk.DescribeTransactionRequest)
    def describe_transaction(self, request: sdk.DescribeTransactionRequest) -> sdk.DescribeTransactionResponse:
        """Return the properties of a transaction."""
        return self._server.call(routes.DESCRIBE_TRANSACTION, request)

    @operation(sdk.AlterTransactionRequest)
    def alter_transaction(self, request: sdk.AlterTransactionRequest) -> sdk.AlterTransactionResponse:
        """Apply actions to a transaction."""
        return self._server.call(routes.ALTER_TRANSACTION, request)

    # Materialized views

    @operation(sdk.CreateMaterializedViewRequest)
    def create_materialized_view(
        self, request: sdk.CreateMaterializedViewRequest
    ) -> sdk.CreateMaterializedViewResponse:
        """Create a materialized view."""
        return self._server.call(routes.CREATE_MATERIALIZED_VIEW, request)

    @operation(sdk.RefreshMaterializedViewRequest)
    def refresh_materialized_view(
        self, request: sdk.RefreshMaterializedViewRequest
    ) -> sdk.RefreshMaterializedViewResponse:
        """Refresh a materialized view."""
        return self._server.call(routes.REFRESH_MATERIALIZED_VIEW, request)


class _Prefixed:
    """A stream whose first bytes were read before."""

    def __init__(self, first: bytes, stream: AnswerStream) -> None:
        self._first = first
        self._stream = stream
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        if not self._first:
            return self._stream.read(size)
        if size < 0:
            taken, self._first = self._first + self._stream.read(), b""
        else:
            taken, self._first = self._first[:size], self._first[size:]
            if len(taken) < size:
                taken += self._stream.read(size - len(taken))
        return taken

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True


def _read_rows(stream: AnswerStream, what: str) -> pa.RecordBatchReader:
    """Return a reader of the rows in an answer, which is closed at their end. Nothing in them is trusted."""
    try:
        first = stream.read(len(FILE_MAGIC))
        if first == FILE_MAGIC:
            # Servers that send only files: the footer is at the end.
            rows = read_ipc(first + stream.read())
            stream.close()
            return rows.to_reader()
        opened = cast("pa.RecordBatchReader", open_ipc(_Prefixed(first, stream)))
    except InvalidInputError as error:
        stream.close()
        raise BadAnswerError(f"{what}: the server's answer has no valid rows: {error}") from error
    except BaseException:
        stream.close()
        raise

    def read() -> Iterator[pa.RecordBatch | None]:
        try:
            yield None
            yield from opened
        except InvalidInputError as error:
            raise BadAnswerError(f"{what}: the server's answer has no valid rows: {error}") from error
        finally:
            stream.close()

    batches = read()
    # A generator that has begun is finished also if nobody reads the rows.
    next(batches)
    return pa.RecordBatchReader.from_batches(opened.schema, batches)
