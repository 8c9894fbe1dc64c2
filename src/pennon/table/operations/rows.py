"""Operations on rows: count, query, insert, merge, update, delete."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
from lance_namespace import (
    AnalyzeTableQueryPlanRequest,
    CountTableRowsRequest,
    CountTableRowsResponse,
    DeleteFromTableRequest,
    DeleteFromTableResponse,
    ExplainTableQueryPlanRequest,
    InsertIntoTableRequest,
    InsertIntoTableResponse,
    MergeInsertIntoTableRequest,
    MergeInsertIntoTableResponse,
    QueryTableRequest,
    QueryTableResponse,
    UpdateTableRequest,
    UpdateTableResponse,
)

from pennon import durations
from pennon.errors import (
    InvalidInputError,
    TableAlreadyExistsError,
    TableIsOnlyDeclaredError,
    UnsupportedOperationError,
)
from pennon.identifiers import Identifier, format_identifier, table_identifier
from pennon.requests import accept_single_column, operation
from pennon.table import ipc, mutations, querying, requirements
from pennon.table.ipc_file import IpcFile, is_file, load_rows
from pennon.table.operations.opening import TableOpener
from pennon.table.version_selector import normalize_branch

_MERGE_TIMEOUT = "30s"
_MODES = {"append": False, "overwrite": True}


class RowOperations(TableOpener):
    """Operations on rows."""

    @operation(CountTableRowsRequest)
    def count_table_rows(self, request: CountTableRowsRequest) -> CountTableRowsResponse:
        """Return the number of rows, or of those that meet a predicate.

        Raises NamespaceNotFoundError, TableNotFoundError, TableVersionNotFoundError, InvalidInputError,
        InvalidTableStateError and TableBranchNotFoundError.
        """
        identifier = table_identifier(request.id)
        dataset = self._open_table(identifier, version=request.version, branch=request.branch, shared=True)
        return CountTableRowsResponse(count=querying.count_rows(dataset, identifier, request.predicate))

    @operation(QueryTableRequest)
    def query_table(self, request: QueryTableRequest) -> QueryTableResponse:
        """Search by vectors, by text or by both, or filter, and return the rows as an Arrow IPC file.

        A vector search adds `_distance`, a text search `_score`. A search by both is ranked by `_relevance_score`. With
        several vectors, `query_index` is the number of the vector. Raises TableColumnNotFoundError,
        NamespaceNotFoundError, TableNotFoundError, TableVersionNotFoundError, InvalidInputError, InvalidTableStateError
        and TableBranchNotFoundError.
        """
        return QueryTableResponse(data=ipc.write_ipc(self._run_query(request)))

    @operation(QueryTableRequest)
    def query_batches(self, request: QueryTableRequest) -> pa.RecordBatchReader:
        """Return the rows of `query_table` as a stream, for results of any size."""
        return self._run_query(request)

    @operation(ExplainTableQueryPlanRequest)
    def explain_table_query_plan(self, request: ExplainTableQueryPlanRequest) -> str:
        """Return the plan of a query. Raises the errors of the query."""
        query = request.query
        identifier = table_identifier(request.id or query.id)
        dataset = self._open_table(
            identifier, version=query.version, branch=request.branch or query.branch, shared=True
        )
        asked = querying.parse_query(dataset, identifier, query)
        return querying.explain_query(dataset, asked, verbose=bool(request.verbose))

    @operation(AnalyzeTableQueryPlanRequest)
    def analyze_table_query_plan(self, request: AnalyzeTableQueryPlanRequest) -> str:
        """Run a query and return its plan with the cost of each step. Raises the errors of the query."""
        identifier = table_identifier(request.id)
        dataset = self._open_table(identifier, version=request.version, branch=request.branch, shared=True)
        return querying.analyze_query(dataset, querying.parse_query(dataset, identifier, request))

    @operation(InsertIntoTableRequest)
    def insert_into_table(self, request: InsertIntoTableRequest, request_data: bytes) -> InsertIntoTableResponse:
        """Append rows, or replace all of them. A table that is only declared gets its first version.

        The data is an Arrow IPC stream or file, or a source of a stream, which is read while it is written. Raises
        TableSchemaValidationError if the columns do not fit. Also raises NamespaceNotFoundError, TableNotFoundError,
        InvalidInputError, ConcurrentModificationError, InvalidTableStateError and TableBranchNotFoundError.
        """
        identifier = table_identifier(request.id)
        overwrite = _MODES.get((request.mode or "append").strip().lower())
        if overwrite is None:
            raise InvalidInputError(f"Unknown mode {request.mode!r} of an insert; known: {', '.join(_MODES)}")
        data = ipc.open_ipc(request_data)
        if not overwrite and normalize_branch(request.branch) is None and isinstance(data, pa.Table):
            appended = self._append_rows(identifier, data)
            if appended is not None:
                return InsertIntoTableResponse(num_inserted_rows=appended.inserted, version=appended.version)
        try:
            # An insert does not move the dataset, so a shared one is enough.
            dataset = self._open_table(identifier, branch=request.branch, shared=True)
        except TableIsOnlyDeclaredError:
            rows = _collect_rows(data, request_data)
            filled = self._write_first_version(identifier, rows)
            if filled is not None:
                return InsertIntoTableResponse(num_inserted_rows=filled.inserted, version=filled.version)
            data = rows.to_reader() if isinstance(rows, IpcFile) else rows
            dataset = self._open_table(identifier, shared=True)
        with self._change_table(identifier, dataset, request.branch) as change:
            done, change.committed = mutations.insert(dataset, identifier, data, overwrite=overwrite)
        self._advance_handle(dataset, change.committed)
        return InsertIntoTableResponse(num_inserted_rows=done.inserted, version=done.version)

    @operation(MergeInsertIntoTableRequest, upgrade=accept_single_column)
    def merge_insert_into_table(
        self, request: MergeInsertIntoTableRequest, request_data: bytes
    ) -> MergeInsertIntoTableResponse:
        """Update rows that match, insert those that do not, and delete those without a match, as requested.

        A table that is only declared gets all rows, whatever the clauses are: it has no rows to match. Raises
        TableColumnNotFoundError for `on`, TableSchemaValidationError if the columns do not fit. Also raises
        NamespaceNotFoundError, TableNotFoundError, InvalidInputError, ConcurrentModificationError,
        InvalidTableStateError and TableBranchNotFoundError.
        """
        identifier = table_identifier(request.id)
        clauses = _parse_clauses(request)
        data = ipc.open_ipc(request_data)
        try:
            dataset = self._open_table(identifier, branch=request.branch)
        except TableIsOnlyDeclaredError:
            requirements.require_columns(identifier, data.schema, clauses.on)
            rows = _collect_rows(data, request_data)
            filled = self._write_first_version(identifier, rows)
            if filled is not None:
                return _merge_response(filled)
            data = rows.to_reader() if isinstance(rows, IpcFile) else rows
            dataset = self._open_table(identifier)
        with self._change_table(identifier, dataset, request.branch):
            return _merge_response(mutations.merge(dataset, identifier, data, clauses))

    @operation(UpdateTableRequest)
    def update_table(self, request: UpdateTableRequest) -> UpdateTableResponse:
        """Set columns to the values of expressions, in all rows or in those that meet a predicate.

        Raises TableColumnNotFoundError, and UnsupportedOperationError for properties, which are not part of rows. Also
        raises NamespaceNotFoundError, TableNotFoundError, InvalidInputError, ConcurrentModificationError,
        InvalidTableStateError and TableBranchNotFoundError.
        """
        identifier = table_identifier(request.id)
        if request.properties:
            raise UnsupportedOperationError(f"update_table of {format_identifier(identifier)} does not set properties")
        dataset = self._open_table(identifier, branch=request.branch)
        with self._change_table(identifier, dataset, request.branch) as change:
            done, change.committed = mutations.update(dataset, identifier, request.updates, request.predicate)
        return UpdateTableResponse(updated_rows=done.updated, version=done.version)

    @operation(DeleteFromTableRequest)
    def delete_from_table(self, request: DeleteFromTableRequest) -> DeleteFromTableResponse:
        """Delete the rows that meet a predicate.

        Raises NamespaceNotFoundError, TableNotFoundError, InvalidInputError, ConcurrentModificationError,
        InvalidTableStateError and TableBranchNotFoundError.
        """
        identifier = table_identifier(request.id)
        dataset = self._open_table(identifier, branch=request.branch)
        with self._change_table(identifier, dataset, request.branch):
            done = mutations.delete(dataset, identifier, request.predicate)
        return DeleteFromTableResponse(version=done.version)

    def _run_query(self, request: QueryTableRequest) -> pa.RecordBatchReader:
        identifier = table_identifier(request.id)
        dataset = self._open_table(identifier, version=request.version, branch=request.branch, shared=True)
        return querying.run_query(dataset, querying.parse_query(dataset, identifier, request))

    def _write_first_version(self, identifier: Identifier, rows: pa.Table | IpcFile) -> mutations.ChangeResult | None:
        """Write the first version of a declared table. Returns None if another client has written it."""
        try:
            return mutations.ChangeResult(self._fill_table(identifier, rows), inserted=rows.num_rows)
        except TableAlreadyExistsError:
            return None


def _collect_rows(data: pa.Table | pa.RecordBatchReader, source: object) -> pa.Table | IpcFile:
    """Return all rows. If the source is a file, they are read from it again, so that they need not fit into memory."""
    return load_rows(source) if is_file(source) else ipc.collect_rows(data)


def _parse_clauses(request: MergeInsertIntoTableRequest) -> mutations.MergeClauses:
    if not request.on:
        raise InvalidInputError(
            f"Merging into table {format_identifier(table_identifier(request.id))} needs `on`, the columns to match by"
        )
    timeout = durations.parse_milliseconds(request.timeout or _MERGE_TIMEOUT, "The timeout of a merge")
    return mutations.MergeClauses(
        on=request.on,
        update_matched=bool(request.when_matched_update_all),
        update_matched_if=request.when_matched_update_all_filt,
        insert_unmatched=bool(request.when_not_matched_insert_all),
        delete_unmatched_by_source=bool(request.when_not_matched_by_source_delete),
        delete_unmatched_by_source_if=request.when_not_matched_by_source_delete_filt,
        use_index=bool(request.use_index),
        retry_timeout=timedelta(milliseconds=timeout),
    )


def _merge_response(done: mutations.ChangeResult) -> MergeInsertIntoTableResponse:
    return MergeInsertIntoTableResponse(
        num_updated_rows=done.updated,
        num_inserted_rows=done.inserted,
        num_deleted_rows=done.deleted,
        version=done.version,
    )
