"""Operations on columns and their metadata, and statistics of a table."""

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
from pennon.table import columns, computed, history, metadata
from pennon.table.json_arrow import parse_data_type
from pennon.table.operations.opening import TableOpener
from pennon.table.statistics import statistics
from pennon.table.version_selector import normalize_branch

if TYPE_CHECKING:
    from pennon.identifiers import Identifier

_FUNCTIONS = "a function that is stored with the table runs in a container of its own, and there is none here"


class ColumnOperations(TableOpener):
    """What can be done with columns."""

    @operation(AlterTableAddColumnsRequest)
    def alter_table_add_columns(self, request: AlterTableAddColumnsRequest) -> AlterTableAddColumnsResponse:
        """Add columns by expressions, or declare computed ones; errors 0 (functions), 1, 4, 13, 14, 20, 22."""
        identifier = table_identifier(request.id)
        if any(entry.virtual_column is not None for entry in request.new_columns):
            raise _no_functions(identifier)
        wanted = [columns.NewColumn(entry.name, entry.expression, entry.computed) for entry in request.new_columns]
        with self._table_to_change(identifier, normalize_branch(request.branch)) as dataset:
            columns.add(dataset, identifier, wanted)
            return AlterTableAddColumnsResponse(version=dataset.version)

    @operation(AlterTableAlterColumnsRequest)
    def alter_table_alter_columns(self, request: AlterTableAlterColumnsRequest) -> AlterTableAlterColumnsResponse:
        """Rename and cast columns, let them have nulls or not; errors 0, 1, 4, 12, 13, 14, 19, 20, 22."""
        identifier = table_identifier(request.id)
        if any(entry.virtual_column is not None for entry in request.alterations):
            raise _no_functions(identifier)
        wanted = [
            columns.Alteration(
                entry.path,
                entry.rename,
                None if entry.data_type is None else parse_data_type(entry.data_type),
                entry.nullable,
            )
            for entry in request.alterations
        ]
        with self._table_to_change(identifier, normalize_branch(request.branch)) as dataset:
            columns.alter(dataset, identifier, wanted)
            return AlterTableAlterColumnsResponse(version=dataset.version)

    @operation(AlterTableDropColumnsRequest)
    def alter_table_drop_columns(self, request: AlterTableDropColumnsRequest) -> AlterTableDropColumnsResponse:
        """Take columns away; errors 1, 4, 12, 13, 14, 19, 22."""
        identifier = table_identifier(request.id)
        with self._table_to_change(identifier, normalize_branch(request.branch)) as dataset:
            columns.drop(dataset, identifier, request.columns)
            return AlterTableDropColumnsResponse(
                version=dataset.version, transaction_id=history.transaction_id(dataset)
            )

    @operation(AlterTableBackfillColumnsRequest)
    def alter_table_backfill_columns(
        self, request: AlterTableBackfillColumnsRequest
    ) -> AlterTableBackfillColumnsResponse:
        """Fill the rows that have no value in a computed column; errors 0, 1, 4, 11, 12, 13, 14, 19, 22.

        It is done before the answer. The job's id is that of the transaction, which describe_transaction tells of; with
        nothing to fill, that of the version that was looked at. How work is spread has no meaning here, and is ignored;
        what would change the result is refused (0).
        """
        identifier = table_identifier(request.id)
        for option in ("num_frags", "cluster", "manifest"):
            if getattr(request, option) is not None:
                raise UnsupportedOperationError(
                    f"alter_table_backfill_columns of {format_identifier(identifier)}: {option} is for a "
                    "cluster; it is filled here"
                )
        branch = normalize_branch(request.branch)
        with self._table_to_change(identifier, branch, version=request.read_version) as dataset:
            computed.backfill(dataset, identifier, request.column, request.where)
            return AlterTableBackfillColumnsResponse(job_id=history.transaction_id(dataset) or "")

    @operation(UpdateTableSchemaMetadataRequest)
    def update_table_schema_metadata(
        self, request: UpdateTableSchemaMetadataRequest
    ) -> UpdateTableSchemaMetadataResponse:
        """Replace the schema's metadata; errors 1, 4, 13, 14, 22."""
        identifier = table_identifier(request.id)
        if request.metadata is None:
            raise InvalidInputError(
                f"Which metadata shall the schema of {format_identifier(identifier)} have? A map may be empty"
            )
        with self._table_to_change(identifier, normalize_branch(request.branch)) as dataset:
            result = metadata.replace_schema_metadata(dataset, identifier, request.metadata)
            return UpdateTableSchemaMetadataResponse(metadata=result, transaction_id=history.transaction_id(dataset))

    @operation(UpdateFieldMetadataRequest)
    def update_field_metadata(self, request: UpdateFieldMetadataRequest) -> UpdateFieldMetadataResponse:
        """Merge into the metadata of columns, or replace it; errors 1, 4, 12, 13, 14, 22."""
        identifier = table_identifier(request.id)
        with self._table_to_change(identifier, normalize_branch(request.branch)) as dataset:
            updates = [metadata.FieldUpdate(one.path, one.metadata, bool(one.replace)) for one in request.updates]
            fields = metadata.update_fields(dataset, identifier, updates)
            return UpdateFieldMetadataResponse(version=dataset.version, fields=fields)

    @operation(GetTableStatsRequest)
    def get_table_stats(self, request: GetTableStatsRequest) -> GetTableStatsResponse:
        """Count rows, bytes, indexes and fragments; errors 1, 4, 22."""
        identifier = table_identifier(request.id)
        found = statistics(self._open_table(identifier, branch=normalize_branch(request.branch), shared=True))
        return GetTableStatsResponse(
            total_bytes=found.total_bytes,
            num_rows=found.rows,
            num_indices=found.indexes,
            fragment_stats=FragmentStats(
                num_fragments=found.fragments,
                num_small_fragments=found.small_fragments,
                lengths=FragmentSummary(**vars(found.lengths)),
            ),
        )


def _no_functions(identifier: Identifier) -> UnsupportedOperationError:
    return UnsupportedOperationError(f"Virtual columns of table {format_identifier(identifier)}: {_FUNCTIONS}")
