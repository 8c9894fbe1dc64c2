"""Operations on rows: count, query, insert, merge, update, delete."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

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
from pennon.requests import operation
from pennon.table import changing, ipc, querying, requirements
from pennon.table.changing import Changed, MergeClauses
from pennon.table.operations.opening import TableOpener

if TYPE_CHECKING:
    import pyarrow as pa

_PATIENCE = "30s"
_MODES = {"append": False, "overwrite": True}


def _one_column(fields: dict[str, Any]) -> dict[str, Any]:
    """Read `on` as the OpenAPI file has it, as one path; the SDK has several."""
    on = fields.get("on")
    return {**fields, "on": [on]} if isinstance(on, str) else fields


class RowOperations(TableOpener):
    """What can be done with rows."""

    @operation(CountTableRowsRequest)
    def count_table_rows(self, request: CountTableRowsRequest) -> CountTableRowsResponse:
        """Count the rows, or those that meet a predicate; errors 1, 4, 11, 13, 19, 22."""
        identifier = table_identifier(request.id)
        dataset = self._open_table(identifier, version=request.version, branch=request.branch, shared=True)
        return CountTableRowsResponse(count=querying.count_rows(dataset, identifier, request.predicate))

    @operation(QueryTableRequest)
    def query_table(self, request: QueryTableRequest) -> QueryTableResponse:
        """Search by vectors, by text or both, or just filter; the rows are an Arrow IPC file.

        Errors 1, 4, 11, 12 (columns), 13, 19, 22. A vector search adds `_distance`, a text search `_score`; both
        together are ranked by `_relevance_score`. Several vectors have an answer each, told apart by `query_index`.
        """
        return QueryTableResponse(data=ipc.write_ipc(self._batches(request)))

    @operation(QueryTableRequest)
    def query_batches(self, request: QueryTableRequest) -> pa.RecordBatchReader:
        """Do the same as `query_table`, for answers of any size: rows are read as they are taken."""
        return self._batches(request)

    @operation(ExplainTableQueryPlanRequest)
    def explain_table_query_plan(self, request: ExplainTableQueryPlanRequest) -> str:
        """Tell how a query would be run; errors as those of the query."""
        query = request.query
        identifier = table_identifier(request.id or query.id)
        dataset = self._open_table(
            identifier, version=query.version, branch=request.branch or query.branch, shared=True
        )
        asked = querying.understood(dataset, identifier, query)
        return querying.explained(dataset, asked, verbose=bool(request.verbose))

    @operation(AnalyzeTableQueryPlanRequest)
    def analyze_table_query_plan(self, request: AnalyzeTableQueryPlanRequest) -> str:
        """Run a query and tell what each step of it cost; errors as those of the query."""
        identifier = table_identifier(request.id)
        dataset = self._open_table(identifier, version=request.version, branch=request.branch, shared=True)
        return querying.analyzed(dataset, querying.understood(dataset, identifier, request))

    @operation(InsertIntoTableRequest)
    def insert_into_table(self, request: InsertIntoTableRequest, request_data: bytes) -> InsertIntoTableResponse:
        """Append rows, or replace all of them; a table that is only declared gets its first version.

        The data is an Arrow IPC stream or file, or something to read a stream from, which is read as it is written.
        Errors 1, 4, 13, 14, 19, 20 (columns that do not fit), 22.
        """
        identifier = table_identifier(request.id)
        overwrite = _MODES.get((request.mode or "append").strip().lower())
        if overwrite is None:
            raise InvalidInputError(f"Unknown mode {request.mode!r} of an insert; known: {', '.join(_MODES)}")
        data = ipc.open_ipc(request_data)
        try:
            # Inserting leaves the dataset where it is, so a shared one will do.
            dataset = self._open_table(identifier, branch=request.branch, shared=True)
        except TableIsOnlyDeclaredError:
            filled = self._filled(identifier, data)
            if filled is not None:
                return InsertIntoTableResponse(num_inserted_rows=filled.inserted, version=filled.version)
            dataset = self._open_table(identifier, shared=True)
        with self._change_table(identifier, dataset, request.branch) as change:
            done, change.made = changing.insert(dataset, identifier, data, overwrite=overwrite)
        self._advance_handle(dataset, change.made)
        return InsertIntoTableResponse(num_inserted_rows=done.inserted, version=done.version)

    @operation(MergeInsertIntoTableRequest, upgrade=_one_column)
    def merge_insert_into_table(
        self, request: MergeInsertIntoTableRequest, request_data: bytes
    ) -> MergeInsertIntoTableResponse:
        """Update rows that match, insert those that do not, delete those that have no match, as asked for.

        A table that is only declared is created with the given rows, whatever the clauses are: it has no rows to match.
        Errors 1, 4, 12 (`on`), 13, 14, 19, 20 (columns that do not fit), 22.
        """
        identifier = table_identifier(request.id)
        clauses = _clauses(request)
        data = ipc.open_ipc(request_data)
        try:
            dataset = self._open_table(identifier, branch=request.branch)
        except TableIsOnlyDeclaredError:
            requirements.require_columns(identifier, data.schema, clauses.on)
            filled = self._filled(identifier, data)
            if filled is not None:
                return _merged(filled)
            dataset = self._open_table(identifier)
        with self._change_table(identifier, dataset, request.branch):
            return _merged(changing.merge(dataset, identifier, data, clauses))

    @operation(UpdateTableRequest)
    def update_table(self, request: UpdateTableRequest) -> UpdateTableResponse:
        """Set columns to what expressions give, in all rows or those that meet a predicate.

        Errors 1, 4, 12 (columns), 13, 14, 19, 22; 0 for properties, which are not of the table's rows.
        """
        identifier = table_identifier(request.id)
        if request.properties:
            raise UnsupportedOperationError(f"update_table of {format_identifier(identifier)} does not set properties")
        dataset = self._open_table(identifier, branch=request.branch)
        with self._change_table(identifier, dataset, request.branch) as change:
            done, change.made = changing.update(dataset, identifier, request.updates, request.predicate)
        return UpdateTableResponse(updated_rows=done.updated, version=done.version)

    @operation(DeleteFromTableRequest)
    def delete_from_table(self, request: DeleteFromTableRequest) -> DeleteFromTableResponse:
        """Delete the rows that meet a predicate; errors 1, 4, 13, 14, 19, 22."""
        identifier = table_identifier(request.id)
        dataset = self._open_table(identifier, branch=request.branch)
        with self._change_table(identifier, dataset, request.branch):
            done = changing.delete(dataset, identifier, request.predicate)
        return DeleteFromTableResponse(version=done.version)

    def _batches(self, request: QueryTableRequest) -> pa.RecordBatchReader:
        identifier = table_identifier(request.id)
        dataset = self._open_table(identifier, version=request.version, branch=request.branch, shared=True)
        return querying.batches(dataset, querying.understood(dataset, identifier, request))

    def _filled(self, identifier: Identifier, data: pa.Table | pa.RecordBatchReader) -> Changed | None:
        """Give a declared table its first version; None if somebody else has done so meanwhile."""
        rows = ipc.collected(data)
        try:
            return Changed(self._fill_table(identifier, rows), inserted=rows.num_rows)
        except TableAlreadyExistsError:
            return None


def _clauses(request: MergeInsertIntoTableRequest) -> MergeClauses:
    if not request.on:
        raise InvalidInputError(
            f"Merging into table {format_identifier(table_identifier(request.id))} needs `on`: what to match by"
        )
    patience = durations.parse_milliseconds(request.timeout or _PATIENCE, "The timeout of a merge")
    return MergeClauses(
        on=request.on,
        update_matched=bool(request.when_matched_update_all),
        update_matched_if=request.when_matched_update_all_filt,
        insert_unmatched=bool(request.when_not_matched_insert_all),
        delete_unmatched_by_source=bool(request.when_not_matched_by_source_delete),
        delete_unmatched_by_source_if=request.when_not_matched_by_source_delete_filt,
        use_index=bool(request.use_index),
        patience=timedelta(milliseconds=patience),
    )


def _merged(done: Changed) -> MergeInsertIntoTableResponse:
    return MergeInsertIntoTableResponse(
        num_updated_rows=done.updated,
        num_inserted_rows=done.inserted,
        num_deleted_rows=done.deleted,
        version=done.version,
    )
