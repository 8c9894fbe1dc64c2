"""Operations on the history of a table: tags, branches, restored versions, transactions."""

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
    """Operations on tags, branches, versions and transactions."""

    @operation(ListTableTagsRequest)
    def list_table_tags(self, request: ListTableTagsRequest) -> ListTableTagsResponse:
        """Return a page of the tags, sorted by name.

        Raises NamespaceNotFoundError, TableNotFoundError and InvalidInputError.
        """
        contents = tags.list_tags(self._open_table(table_identifier(request.id), shared=True))
        names, token = select_page(list(contents), request.page_token, request.limit)
        page = {
            name: TagContents(
                branch=contents[name]["branch"],
                version=contents[name]["version"],
                manifestSize=contents[name]["manifest_size"],
            )
            for name in names
        }
        return ListTableTagsResponse(tags=page, page_token=token)

    @operation(GetTableTagVersionRequest)
    def get_table_tag_version(self, request: GetTableTagVersionRequest) -> GetTableTagVersionResponse:
        """Return the version of a tag.

        Raises TableTagNotFoundError, NamespaceNotFoundError and TableNotFoundError.
        """
        identifier = table_identifier(request.id)
        dataset = self._open_table(identifier, shared=True)
        found = find_tag(dataset, format_identifier(identifier), request.tag)
        return GetTableTagVersionResponse(version=found["version"], branch=found["branch"])

    @operation(CreateTableTagRequest)
    def create_table_tag(self, request: CreateTableTagRequest) -> CreateTableTagResponse:
        """Create a tag for a version.

        Raises TableTagAlreadyExistsError, NamespaceNotFoundError, TableNotFoundError, TableVersionNotFoundError,
        InvalidInputError, ConcurrentModificationError and TableBranchNotFoundError.
        """
        identifier = table_identifier(request.id)
        dataset = self._open_table(identifier)
        tags.create(dataset, identifier, request.tag, request.version, normalize_branch(request.branch))
        self._require_same_table(identifier, dataset)
        return CreateTableTagResponse()

    @operation(UpdateTableTagRequest)
    def update_table_tag(self, request: UpdateTableTagRequest) -> UpdateTableTagResponse:
        """Move a tag to another version.

        Raises TableTagNotFoundError, NamespaceNotFoundError, TableNotFoundError, TableVersionNotFoundError,
        ConcurrentModificationError and TableBranchNotFoundError.
        """
        identifier = table_identifier(request.id)
        dataset = self._open_table(identifier)
        tags.update(dataset, identifier, request.tag, request.version, normalize_branch(request.branch))
        self._require_same_table(identifier, dataset)
        return UpdateTableTagResponse()

    @operation(DeleteTableTagRequest)
    def delete_table_tag(self, request: DeleteTableTagRequest) -> DeleteTableTagResponse:
        """Delete a tag.

        Raises TableTagNotFoundError, NamespaceNotFoundError and TableNotFoundError.
        """
        identifier = table_identifier(request.id)
        tags.delete(self._open_table(identifier), identifier, request.tag)
        return DeleteTableTagResponse()

    @operation(CreateTableBranchRequest)
    def create_table_branch(self, request: CreateTableBranchRequest) -> CreateTableBranchResponse:
        """Create a branch from a version of another one.

        Raises TableBranchAlreadyExistsError, NamespaceNotFoundError, TableNotFoundError, TableVersionNotFoundError,
        InvalidInputError, ConcurrentModificationError and TableBranchNotFoundError.
        """
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
        """Return a page of the branches without the main one, sorted by name.

        Raises NamespaceNotFoundError, TableNotFoundError and InvalidInputError.
        """
        contents = branches.list_branches(self._open_table(table_identifier(request.id), shared=True))
        names, token = select_page(list(contents), request.page_token, request.limit)
        page = {
            name: BranchContents(
                parentBranch=contents[name]["parent_branch"],
                parentVersion=contents[name]["parent_version"],
                createAt=contents[name]["create_at"],
                manifestSize=contents[name]["manifest_size"],
                metadata=contents[name].get("metadata") or None,
            )
            for name in names
        }
        return ListTableBranchesResponse(branches=page, page_token=token)

    @operation(DeleteTableBranchRequest)
    def delete_table_branch(self, request: DeleteTableBranchRequest) -> DeleteTableBranchResponse:
        """Delete a branch with its versions.

        Raises InvalidTableStateError if a branch or tag refers to it. Also raises NamespaceNotFoundError,
        TableNotFoundError and TableBranchNotFoundError.
        """
        identifier = table_identifier(request.id)
        dataset = self._open_table(identifier)
        if branches.delete(dataset, identifier, request.name):
            with self._claim_branch(identifier, request.name) as claim:
                if request.name not in branches.list_branches(dataset):
                    claim.delete_leftovers(branch_deleted=True)
        return DeleteTableBranchResponse()

    @operation(RestoreTableRequest)
    def restore_table(self, request: RestoreTableRequest) -> RestoreTableResponse:
        """Commit an old version again as the latest one.

        Raises NamespaceNotFoundError, TableNotFoundError, TableVersionNotFoundError, ConcurrentModificationError and
        TableBranchNotFoundError.
        """
        identifier = table_identifier(request.id)
        if request.version < 1:
            raise TableVersionNotFoundError(f"Table {format_identifier(identifier)} has no version {request.version}")
        branch = normalize_branch(request.branch)
        with self._table_to_change(identifier, branch, version=request.version) as dataset:
            return RestoreTableResponse(transaction_id=history.restore(dataset, identifier))

    @operation(DescribeTransactionRequest)
    def describe_transaction(self, request: DescribeTransactionRequest) -> DescribeTransactionResponse:
        """Return the properties of a transaction. Raises TransactionNotFoundError.

        Its id is the table's identifier followed by the uuid of the transaction, or by a version. Also raises
        NamespaceNotFoundError, TableNotFoundError and InvalidInputError.
        """
        found = self._find_transaction(request.id)
        return DescribeTransactionResponse(status=history.SUCCEEDED, properties=found.properties)

    @operation(AlterTransactionRequest)
    def alter_transaction(self, request: AlterTransactionRequest) -> AlterTransactionResponse:
        """Check actions on a committed transaction, which cannot be changed.

        Raises UnsupportedOperationError for an action that would change it, TransactionNotFoundError,
        NamespaceNotFoundError, TableNotFoundError and InvalidInputError.
        """
        found = self._find_transaction(request.id)
        history.check_actions(found, request.actions)
        return AlterTransactionResponse(status=history.SUCCEEDED, properties=found.properties)

    def _find_transaction(self, names: list[str] | None) -> history.CommittedTransaction:
        if names is None or len(names) <= 1 or not names[-1]:
            raise InvalidInputError(f"The id of a transaction starts with its table's identifier, got {names!r}")
        identifier = table_identifier(names[:-1])
        return history.find_transaction(self._open_table(identifier, shared=True), identifier, names[-1])
