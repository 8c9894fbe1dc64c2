"""Operations on vector, scalar and full-text indexes."""

from __future__ import annotations

from lance_namespace import (
    CreateTableIndexRequest,
    CreateTableIndexResponse,
    CreateTableScalarIndexResponse,
    DescribeTableIndexStatsRequest,
    DescribeTableIndexStatsResponse,
    DropTableIndexRequest,
    DropTableIndexResponse,
    ListTableIndicesRequest,
    ListTableIndicesResponse,
)
from lance_namespace_urllib3_client.models.index_content import IndexContent

from pennon.errors import InvalidInputError
from pennon.identifiers import table_identifier
from pennon.paging import select_page
from pennon.requests import operation
from pennon.table import history, index_kinds, indexes
from pennon.table.operations.opening import TableOpener
from pennon.table.version_selector import normalize_branch

_COMPLETE = "SUCCEEDED"


class IndexOperations(TableOpener):
    """Operations on indexes. An index is built before the call returns, so a listed index is complete."""

    @operation(CreateTableIndexRequest)
    def create_table_index(self, request: CreateTableIndexRequest) -> CreateTableIndexResponse:
        """Build an index of any kind.

        Raises TableIndexAlreadyExistsError, TableColumnNotFoundError, NamespaceNotFoundError, TableNotFoundError,
        InvalidInputError, ConcurrentModificationError and TableBranchNotFoundError.
        """
        return CreateTableIndexResponse(transaction_id=self._create_index(request))

    @operation(CreateTableIndexRequest)
    def create_table_scalar_index(self, request: CreateTableIndexRequest) -> CreateTableScalarIndexResponse:
        """Build a scalar or full-text index.

        Raises TableIndexAlreadyExistsError, TableColumnNotFoundError, NamespaceNotFoundError, TableNotFoundError,
        InvalidInputError, ConcurrentModificationError and TableBranchNotFoundError.
        """
        if index_kinds.parse_kind(request.index_type) in index_kinds.VECTOR_KINDS:
            raise InvalidInputError(f"{request.index_type} is not a scalar index: use create_table_index")
        return CreateTableScalarIndexResponse(transaction_id=self._create_index(request))

    @operation(ListTableIndicesRequest)
    def list_table_indices(self, request: ListTableIndicesRequest) -> ListTableIndicesResponse:
        """Return a page of the indexes of the latest or another version, sorted by name.

        Raises NamespaceNotFoundError, TableNotFoundError, TableVersionNotFoundError, InvalidInputError and
        TableBranchNotFoundError.
        """
        identifier = table_identifier(request.id)
        branch = normalize_branch(request.branch)
        dataset = self._open_table(identifier, version=request.version, branch=branch, shared=True)
        found = indexes.list_indexes(dataset)
        names, token = select_page(list(found), request.page_token, request.limit)
        return ListTableIndicesResponse(indexes=[_to_content(found[name]) for name in names], page_token=token)

    @operation(DescribeTableIndexStatsRequest)
    def describe_table_index_stats(self, request: DescribeTableIndexStatsRequest) -> DescribeTableIndexStatsResponse:
        """Return the kind of an index and the number of rows in it.

        Raises TableIndexNotFoundError, NamespaceNotFoundError, TableNotFoundError, TableVersionNotFoundError,
        InvalidInputError and TableBranchNotFoundError.
        """
        identifier = table_identifier(request.id)
        branch = normalize_branch(request.branch)
        dataset = self._open_table(identifier, version=request.version, branch=branch, shared=True)
        found = indexes.describe(dataset, identifier, request.index_name)
        return DescribeTableIndexStatsResponse(
            distance_type=found.metric,
            index_type=found.kind,
            num_indexed_rows=found.rows,
            num_unindexed_rows=found.rows_left,
            num_indices=found.segments,
        )

    @operation(DropTableIndexRequest)
    def drop_table_index(self, request: DropTableIndexRequest) -> DropTableIndexResponse:
        """Drop an index.

        Raises TableIndexNotFoundError, NamespaceNotFoundError, TableNotFoundError, InvalidInputError,
        ConcurrentModificationError and TableBranchNotFoundError.
        """
        identifier = table_identifier(request.id)
        with self._table_to_change(identifier, normalize_branch(request.branch)) as dataset:
            indexes.drop(dataset, identifier, request.index_name)
            return DropTableIndexResponse(transaction_id=history.read_transaction_id(dataset))

    def _create_index(self, request: CreateTableIndexRequest) -> str | None:
        identifier = table_identifier(request.id)
        given = {name: getattr(request, name) for name in index_kinds.PARAMETERS}
        parameters = {name: value for name, value in given.items() if value is not None}
        spec = indexes.IndexSpec(request.column, request.index_type, request.name, parameters)
        with self._table_to_change(identifier, normalize_branch(request.branch)) as dataset:
            indexes.create(dataset, identifier, spec)
            return history.read_transaction_id(dataset)


def _to_content(found: indexes.IndexState) -> IndexContent:
    return IndexContent(
        index_name=found.name,
        index_uuid=found.uuid,
        columns=list(found.columns),
        status=_COMPLETE,
        index_type=found.kind,
        type_url=found.type_url,
        num_indexed_rows=found.rows,
        num_unindexed_rows=found.rows_left,
        size_bytes=found.size_bytes,
        num_segments=found.segments,
        created_at=found.created_at,
        index_version=found.format_version,
        index_details=found.details_json,
    )
