"""Operations on a table's history: tags, branches, going back to a version, transactions."""

from __future__ import annotations

from lance_namespace import (
    AlterTransactionRequest,
    AlterTransactionResponse,
    CreateTableBranchRequest,
    CreateTableBranchResponse,
    CreateTableTagRequest,
    CreateTableTagResponse,
    DeleteTableBranchRequest,
    DeleteTableBranchResponse,
    DeleteTableTagRequest,
    DeleteTableTagResponse,
    DescribeTransactionRequest,
    DescribeTransactionResponse,
    GetTableTagVersionRequest,
    GetTableTagVersionResponse,
    ListTableBranchesRequest,
    ListTableBranchesResponse,
    ListTableTagsRequest,
    ListTableTagsResponse,
    RestoreTableRequest,
    RestoreTableResponse,
    UpdateTableTagRequest,
    UpdateTableTagResponse,
)
from lance_namespace_urllib3_client.models.branch_contents import BranchContents
from lance_namespace_urllib3_client.models.tag_contents import TagContents

from pennon.errors import InvalidInputError, TableVersionNotFoundError
from pennon.identifiers import format_identifier, table_identifier
from pennon.paging import select_page
from pennon.requests import operation
from pennon.table import branches, history, tags
from pennon.table.operations.opening import TableOpener
from pennon.table.version_selector import find_tag, normalize_branch


class HistoryOperations(TableOpener):
    """What can be done with the versions of a table."""

    @operation(ListTableTagsRequest)
    def list_table_tags(self, request: ListTableTagsRequest) -> ListTableTagsResponse:
        """List tags by name, sorted, in pages; errors 1, 4, 13."""
        there = tags.list_tags(self._open_table(table_identifier(request.id), shared=True))
        names, token = select_page(list(there), request.page_token, request.limit)
        contents = {
            name: TagContents(
                branch=there[name]["branch"],
                version=there[name]["version"],
                manifestSize=there[name]["manifest_size"],
            )
            for name in names
        }
        return ListTableTagsResponse(tags=contents, page_token=token)

    @operation(GetTableTagVersionRequest)
    def get_table_tag_version(self, request: GetTableTagVersionRequest) -> GetTableTagVersionResponse:
        """Tell which version a tag names; errors 1, 4, 8."""
        identifier = table_identifier(request.id)
        dataset = self._open_table(identifier, shared=True)
        found = find_tag(dataset, format_identifier(identifier), request.tag)
        return GetTableTagVersionResponse(version=found["version"], branch=found["branch"])

    @operation(CreateTableTagRequest)
    def create_table_tag(self, request: CreateTableTagRequest) -> CreateTableTagResponse:
        """Name a version; errors 1, 4, 9, 11, 13, 14, 22."""
        identifier = table_identifier(request.id)
        dataset = self._open_table(identifier)
        tags.create(dataset, identifier, request.tag, request.version, normalize_branch(request.branch))
        self._require_same_table(identifier, dataset)
        return CreateTableTagResponse()

    @operation(UpdateTableTagRequest)
    def update_table_tag(self, request: UpdateTableTagRequest) -> UpdateTableTagResponse:
        """Let a tag name another version; errors 1, 4, 8, 11, 14, 22."""
        identifier = table_identifier(request.id)
        dataset = self._open_table(identifier)
        tags.update(dataset, identifier, request.tag, request.version, normalize_branch(request.branch))
        self._require_same_table(identifier, dataset)
        return UpdateTableTagResponse()

    @operation(DeleteTableTagRequest)
    def delete_table_tag(self, request: DeleteTableTagRequest) -> DeleteTableTagResponse:
        """Take a tag away; errors 1, 4, 8."""
        identifier = table_identifier(request.id)
        tags.delete(self._open_table(identifier), identifier, request.tag)
        return DeleteTableTagResponse()

    @operation(CreateTableBranchRequest)
    def create_table_branch(self, request: CreateTableBranchRequest) -> CreateTableBranchResponse:
        """Begin a branch at a version of another one; errors 1, 4, 11, 13, 14, 22 (source), 23."""
        identifier = table_identifier(request.id)
        branches.require_name(request.name)
        dataset = self._open_table(identifier)
        source = normalize_branch(request.from_branch)
        with (
            self._detect_replacement(identifier, dataset, None),
            self._claim_branch(identifier, request.name) as claim,
        ):
            branches.create(dataset, identifier, request.name, source, request.from_version, claim=claim)
        return CreateTableBranchResponse()

    @operation(ListTableBranchesRequest)
    def list_table_branches(self, request: ListTableBranchesRequest) -> ListTableBranchesResponse:
        """List branches by name, sorted, in pages, without the main one; errors 1, 4, 13."""
        there = branches.list_branches(self._open_table(table_identifier(request.id), shared=True))
        names, token = select_page(list(there), request.page_token, request.limit)
        contents = {
            name: BranchContents(
                parentBranch=there[name]["parent_branch"],
                parentVersion=there[name]["parent_version"],
                createAt=there[name]["create_at"],
                manifestSize=there[name]["manifest_size"],
                metadata=there[name].get("metadata") or None,
            )
            for name in names
        }
        return ListTableBranchesResponse(branches=contents, page_token=token)

    @operation(DeleteTableBranchRequest)
    def delete_table_branch(self, request: DeleteTableBranchRequest) -> DeleteTableBranchResponse:
        """Delete a branch with its versions; errors 1, 4, 19 (in use), 22."""
        identifier = table_identifier(request.id)
        dataset = self._open_table(identifier)
        if branches.delete(dataset, identifier, request.name):
            with self._claim_branch(identifier, request.name) as claim:
                if request.name not in branches.list_branches(dataset):
                    claim.delete_leftovers(branch_deleted=True)
        return DeleteTableBranchResponse()

    @operation(RestoreTableRequest)
    def restore_table(self, request: RestoreTableRequest) -> RestoreTableResponse:
        """Make an old version the latest again, by a new version; errors 1, 4, 11, 14, 22."""
        identifier = table_identifier(request.id)
        if request.version < 1:
            raise TableVersionNotFoundError(f"Table {format_identifier(identifier)} has no version {request.version}")
        branch = normalize_branch(request.branch)
        with self._table_to_change(identifier, branch, version=request.version) as dataset:
            return RestoreTableResponse(transaction_id=history.restore(dataset, identifier))

    @operation(DescribeTransactionRequest)
    def describe_transaction(self, request: DescribeTransactionRequest) -> DescribeTransactionResponse:
        """Describe a transaction: the table's identifier, then the transaction's or a version; errors 1, 4, 10, 13."""
        found = self._transaction(request.id)
        return DescribeTransactionResponse(status=history.SUCCEEDED, properties=found.properties)

    @operation(AlterTransactionRequest)
    def alter_transaction(self, request: AlterTransactionRequest) -> AlterTransactionResponse:
        """Apply actions to a committed transaction; 0 for all that would change it. Errors 1, 4, 10, 13."""
        found = self._transaction(request.id)
        history.alter(found, request.actions)
        return AlterTransactionResponse(status=history.SUCCEEDED, properties=found.properties)

    def _transaction(self, names: list[str] | None) -> history.Committed:
        if names is None or len(names) <= 1 or not names[-1]:
            raise InvalidInputError(f"A transaction is named by its table's identifier and its own, got {names!r}")
        identifier = table_identifier(names[:-1])
        return history.find(self._open_table(identifier, shared=True), identifier, names[-1])
