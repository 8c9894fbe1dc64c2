"""Operations on columns and their metadata, and the statistics of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_namespace import (
    AlterTableAddColumnsRequest,
    AlterTableAddColumnsResponse,
    AlterTableAlterColumnsRequest,
    AlterTableAlterColumnsResponse,
    AlterTableBackfillColumnsRequest,
    AlterTableBackfillColumnsResponse,
    AlterTableDropColumnsRequest,
    AlterTableDropColumnsResponse,
    GetTableStatsRequest,
    GetTableStatsResponse,
    UpdateFieldMetadataRequest,
    UpdateFieldMetadataResponse,
    UpdateTableSchemaMetadataRequest,
    UpdateTableSchemaMetadataResponse,
)
from lance_namespace_urllib3_client.models.fragment_stats import FragmentStats
from lance_namespace_urllib3_client.models.fragment_summary import FragmentSummary

from pennon.errors import InvalidInputError, UnsupportedOperationError
from pennon.identifiers import format_identifier, table_identifier
from pennon.requests import operation
from pennon.table import columns, computed_columns, history, metadata
from pennon.table.description import collect_statistics
from pennon.table.json_arrow import parse_data_type
from pennon.table.operations.opening import TableOpener
from pennon.table.version_selector import normalize_branch

if TYPE_CHECKING:
    from pennon.identifiers import Identifier

_FUNCTIONS = "functions that are stored with a table would need a container to run in, which does not exist here"


class ColumnOperations(TableOpener):
    """Operations on columns."""

    @operation(AlterTableAddColumnsRequest)
    def alter_table_add_columns(self, request: AlterTableAddColumnsRequest) -> AlterTableAddColumnsResponse:
        """Add columns by expressions, or declare computed columns.

        Raises TableSchemaValidationError if a column exists, UnsupportedOperationError for virtual columns. Also raises
        NamespaceNotFoundError, TableNotFoundError, InvalidInputError, ConcurrentModificationError and
        TableBranchNotFoundError.
        """
        identifier = table_identifier(request.id)
        if any(entry.virtual_column is not None for entry in request.new_columns):
            raise _virtual_columns_error(identifier)
        new_columns = [columns.NewColumn(entry.name, entry.expression, entry.computed) for entry in request.new_columns]
        with self._table_to_change(identifier, normalize_branch(request.branch)) as dataset:
            columns.add(dataset, identifier, new_columns)
            return AlterTableAddColumnsResponse(version=dataset.version)

    @operation(AlterTableAlterColumnsRequest)
    def alter_table_alter_columns(self, request: AlterTableAlterColumnsRequest) -> AlterTableAlterColumnsResponse:
        """Rename columns, cast them, and change whether they are nullable.

        Raises TableColumnNotFoundError, InvalidTableStateError if an index or a computed column depends on one,
        TableSchemaValidationError if its values do not allow it, UnsupportedOperationError for virtual columns. Also
        raises NamespaceNotFoundError, TableNotFoundError, InvalidInputError, ConcurrentModificationError and
        TableBranchNotFoundError.
        """
        identifier = table_identifier(request.id)
        if any(entry.virtual_column is not None for entry in request.alterations):
            raise _virtual_columns_error(identifier)
        alterations = [
            columns.Alteration(
                entry.path,
                entry.rename,
                None if entry.data_type is None else parse_data_type(entry.data_type),
                entry.nullable,
            )
            for entry in request.alterations
        ]
        with self._table_to_change(identifier, normalize_branch(request.branch)) as dataset:
            columns.alter(dataset, identifier, alterations)
            return AlterTableAlterColumnsResponse(version=dataset.version)

    @operation(AlterTableDropColumnsRequest)
    def alter_table_drop_columns(self, request: AlterTableDropColumnsRequest) -> AlterTableDropColumnsResponse:
        """Drop columns.

        Raises TableColumnNotFoundError, InvalidTableStateError if a computed column reads one. Also raises
        NamespaceNotFoundError, TableNotFoundError, InvalidInputError, ConcurrentModificationError and
        TableBranchNotFoundError.
        """
        identifier = table_identifier(request.id)
        with self._table_to_change(identifier, normalize_branch(request.branch)) as dataset:
            columns.drop(dataset, identifier, request.columns)
            return AlterTableDropColumnsResponse(
                version=dataset.version, transaction_id=history.read_transaction_id(dataset)
            )

    @operation(AlterTableBackfillColumnsRequest)
    def alter_table_backfill_columns(
        self, request: AlterTableBackfillColumnsRequest
    ) -> AlterTableBackfillColumnsResponse:
        """Fill the rows that have no value in a computed column. The call returns when this is done.

        The job id is the id of the transaction, for describe_transaction. If there is nothing to fill, it is that of
        the version that was read. Options for the distribution of work are ignored. Raises UnsupportedOperationError
        for options that would change the result, TableColumnNotFoundError, and InvalidTableStateError if the column is
        not a computed one. Also raises NamespaceNotFoundError, TableNotFoundError, TableVersionNotFoundError,
        InvalidInputError, ConcurrentModificationError and TableBranchNotFoundError.
        """
        identifier = table_identifier(request.id)
        for option in ("num_frags", "cluster", "manifest"):
            if getattr(request, option) is not None:
                raise UnsupportedOperationError(
                    f"alter_table_backfill_columns of {format_identifier(identifier)} does not support {option}: "
                    "there is no cluster"
                )
        branch = normalize_branch(request.branch)
        with self._table_to_change(identifier, branch, version=request.read_version) as dataset:
            computed_columns.backfill(dataset, identifier, request.column, request.where)
            return AlterTableBackfillColumnsResponse(job_id=history.read_transaction_id(dataset) or "")

    @operation(UpdateTableSchemaMetadataRequest)
    def update_table_schema_metadata(
        self, request: UpdateTableSchemaMetadataRequest
    ) -> UpdateTableSchemaMetadataResponse:
        """Replace the metadata of the schema.

        Raises NamespaceNotFoundError, TableNotFoundError, InvalidInputError, ConcurrentModificationError and
        TableBranchNotFoundError.
        """
        identifier = table_identifier(request.id)
        if request.metadata is None:
            raise InvalidInputError(
                f"The metadata for the schema of {format_identifier(identifier)} is missing; it may be empty"
            )
        with self._table_to_change(identifier, normalize_branch(request.branch)) as dataset:
            result = metadata.replace_schema_metadata(dataset, identifier, request.metadata)
            return UpdateTableSchemaMetadataResponse(
                metadata=result, transaction_id=history.read_transaction_id(dataset)
            )

    @operation(UpdateFieldMetadataRequest)
    def update_field_metadata(self, request: UpdateFieldMetadataRequest) -> UpdateFieldMetadataResponse:
        """Merge values into the metadata of columns, or replace it.

        Raises TableColumnNotFoundError, NamespaceNotFoundError, TableNotFoundError, InvalidInputError,
        ConcurrentModificationError and TableBranchNotFoundError.
        """
        identifier = table_identifier(request.id)
        with self._table_to_change(identifier, normalize_branch(request.branch)) as dataset:
            updates = [
                metadata.FieldMetadataUpdate(one.path, one.metadata, bool(one.replace)) for one in request.updates
            ]
            fields = metadata.update_fields(dataset, identifier, updates)
            return UpdateFieldMetadataResponse(version=dataset.version, fields=fields)

    @operation(GetTableStatsRequest)
    def get_table_stats(self, request: GetTableStatsRequest) -> GetTableStatsResponse:
        """Return the numbers of rows, bytes, indexes and fragments.

        Raises NamespaceNotFoundError, TableNotFoundError and TableBranchNotFoundError.
        """
        identifier = table_identifier(request.id)
        statistics = collect_statistics(
            self._open_table(identifier, branch=normalize_branch(request.branch), shared=True)
        )
        return GetTableStatsResponse(
            total_bytes=statistics.total_bytes,
            num_rows=statistics.rows,
            num_indices=statistics.indexes,
            fragment_stats=FragmentStats(
                num_fragments=statistics.fragments,
                num_small_fragments=statistics.small_fragments,
                lengths=FragmentSummary(**vars(statistics.lengths)),
            ),
        )


def _virtual_columns_error(identifier: Identifier) -> UnsupportedOperationError:
    return UnsupportedOperationError(f"Virtual columns of table {format_identifier(identifier)}: {_FUNCTIONS}")
