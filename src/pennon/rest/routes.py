"""The routes of the protocol: one for each operation, as the specification has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import lance_namespace as sdk
from pydantic import BaseModel

Answered = TypeVar("Answered", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class Route(Generic[Answered]):
    """How an operation is requested, and what it answers."""

    operation: str
    """The method of the namespace."""
    path: str
    answer: type[Answered]
    method: Literal["GET", "POST"] = "POST"
    changes: bool = False
    """Whether it changes something, so that it may not simply be sent twice."""
    creates: bool = False
    """Whether it creates a table or a namespace, which servers recognize as their client's own."""
    query: tuple[str, ...] = ()
    """Fields of the request that are also parameters of the query."""
    body: Literal["request", "none", "rows"] = "request"
    body_field: str | None = None
    """The field of the request that is the whole body."""
    answer_field: str | None = None
    """The field of the response that is the whole answer."""


_PAGE = ("page_token", "limit")
_TABLE_PAGE = (*_PAGE, "include_declared")

CREATE_NAMESPACE = Route(
    operation="create_namespace",
    path="namespace/{id}/create",
    answer=sdk.CreateNamespaceResponse,
    changes=True,
    creates=True,
)
LIST_NAMESPACES = Route(
    operation="list_namespaces",
    method="GET",
    path="namespace/{id}/list",
    answer=sdk.ListNamespacesResponse,
    query=_PAGE,
    body="none",
)
DESCRIBE_NAMESPACE = Route(
    operation="describe_namespace", path="namespace/{id}/describe", answer=sdk.DescribeNamespaceResponse
)
DROP_NAMESPACE = Route(
    operation="drop_namespace", path="namespace/{id}/drop", answer=sdk.DropNamespaceResponse, changes=True
)
NAMESPACE_EXISTS = Route(operation="namespace_exists", path="namespace/{id}/exists", answer=sdk.NamespaceExistsResponse)
LIST_TABLES = Route(
    operation="list_tables",
    method="GET",
    path="namespace/{id}/table/list",
    answer=sdk.ListTablesResponse,
    query=_TABLE_PAGE,
    body="none",
)
LIST_ALL_TABLES = Route(
    operation="list_all_tables",
    method="GET",
    path="table",
    answer=sdk.ListTablesResponse,
    query=_TABLE_PAGE,
    body="none",
)
REGISTER_TABLE = Route(
    operation="register_table", path="table/{id}/register", answer=sdk.RegisterTableResponse, changes=True, creates=True
)
DESCRIBE_TABLE = Route(
    operation="describe_table",
    path="table/{id}/describe",
    answer=sdk.DescribeTableResponse,
    query=("with_table_uri", "load_detailed_metadata", "check_declared"),
)
TABLE_EXISTS = Route(operation="table_exists", path="table/{id}/exists", answer=sdk.TableExistsResponse)
DROP_TABLE = Route(
    operation="drop_table", path="table/{id}/drop", answer=sdk.DropTableResponse, changes=True, body="none"
)
DEREGISTER_TABLE = Route(
    operation="deregister_table", path="table/{id}/deregister", answer=sdk.DeregisterTableResponse, changes=True
)
RENAME_TABLE = Route(operation="rename_table", path="table/{id}/rename", answer=sdk.RenameTableResponse, changes=True)
DECLARE_TABLE = Route(
    operation="declare_table", path="table/{id}/declare", answer=sdk.DeclareTableResponse, changes=True, creates=True
)
CREATE_TABLE = Route(
    operation="create_table",
    path="table/{id}/create",
    answer=sdk.CreateTableResponse,
    changes=True,
    creates=True,
    query=("mode", "properties", "storage_options"),
    body="rows",
)

LIST_TABLE_VERSIONS = Route(
    operation="list_table_versions",
    path="table/{id}/version/list",
    answer=sdk.ListTableVersionsResponse,
    query=("branch", *_PAGE, "descending"),
    body="none",
)
CREATE_TABLE_VERSION = Route(
    operation="create_table_version",
    path="table/{id}/version/create",
    answer=sdk.CreateTableVersionResponse,
    changes=True,
)
DESCRIBE_TABLE_VERSION = Route(
    operation="describe_table_version", path="table/{id}/version/describe", answer=sdk.DescribeTableVersionResponse
)
BATCH_DELETE_TABLE_VERSIONS = Route(
    operation="batch_delete_table_versions",
    path="table/{id}/version/delete",
    answer=sdk.BatchDeleteTableVersionsResponse,
    changes=True,
)
BATCH_CREATE_TABLE_VERSIONS = Route(
    operation="batch_create_table_versions",
    path="table/version/batch-create",
    answer=sdk.BatchCreateTableVersionsResponse,
    changes=True,
)
BATCH_COMMIT_TABLES = Route(
    operation="batch_commit_tables",
    path="table/batch-commit",
    answer=sdk.BatchCommitTablesResponse,
    changes=True,
)
RESTORE_TABLE = Route(
    operation="restore_table", path="table/{id}/restore", answer=sdk.RestoreTableResponse, changes=True
)

INSERT_INTO_TABLE = Route(
    operation="insert_into_table",
    path="table/{id}/insert",
    answer=sdk.InsertIntoTableResponse,
    changes=True,
    query=("branch", "mode"),
    body="rows",
)
MERGE_INSERT_INTO_TABLE = Route(
    operation="merge_insert_into_table",
    path="table/{id}/merge_insert",
    answer=sdk.MergeInsertIntoTableResponse,
    changes=True,
    query=(
        "branch",
        "on",
        "when_matched_update_all",
        "when_matched_update_all_filt",
        "when_not_matched_insert_all",
        "when_not_matched_by_source_delete",
        "when_not_matched_by_source_delete_filt",
        "timeout",
        "use_index",
    ),
    body="rows",
)
UPDATE_TABLE = Route(operation="update_table", path="table/{id}/update", answer=sdk.UpdateTableResponse, changes=True)
DELETE_FROM_TABLE = Route(
    operation="delete_from_table", path="table/{id}/delete", answer=sdk.DeleteFromTableResponse, changes=True
)
QUERY_TABLE = Route(operation="query_table", path="table/{id}/query", answer=sdk.QueryTableResponse)
COUNT_TABLE_ROWS = Route(
    operation="count_table_rows",
    path="table/{id}/count_rows",
    answer=sdk.CountTableRowsResponse,
    answer_field="count",
)


class Plan(BaseModel):
    """The answer of explain and analyze."""

    text: str


EXPLAIN_TABLE_QUERY_PLAN = Route(
    operation="explain_table_query_plan", path="table/{id}/explain_plan", answer=Plan, answer_field="text"
)
ANALYZE_TABLE_QUERY_PLAN = Route(
    operation="analyze_table_query_plan", path="table/{id}/analyze_plan", answer=Plan, answer_field="text"
)

ALTER_TABLE_ADD_COLUMNS = Route(
    operation="alter_table_add_columns",
    path="table/{id}/add_columns",
    answer=sdk.AlterTableAddColumnsResponse,
    changes=True,
)
ALTER_TABLE_ALTER_COLUMNS = Route(
    operation="alter_table_alter_columns",
    path="table/{id}/alter_columns",
    answer=sdk.AlterTableAlterColumnsResponse,
    changes=True,
)
ALTER_TABLE_DROP_COLUMNS = Route(
    operation="alter_table_drop_columns",
    path="table/{id}/drop_columns",
    answer=sdk.AlterTableDropColumnsResponse,
    changes=True,
)
ALTER_TABLE_BACKFILL_COLUMNS = Route(
    operation="alter_table_backfill_columns",
    path="table/{id}/backfill_column",
    answer=sdk.AlterTableBackfillColumnsResponse,
    changes=True,
)
UPDATE_TABLE_SCHEMA_METADATA = Route(
    operation="update_table_schema_metadata",
    path="table/{id}/schema_metadata/update",
    answer=sdk.UpdateTableSchemaMetadataResponse,
    changes=True,
    query=("branch",),
    body_field="metadata",
    answer_field="metadata",
)
UPDATE_FIELD_METADATA = Route(
    operation="update_field_metadata",
    path="table/{id}/update_field_metadata",
    answer=sdk.UpdateFieldMetadataResponse,
    changes=True,
)
GET_TABLE_STATS = Route(operation="get_table_stats", path="table/{id}/stats", answer=sdk.GetTableStatsResponse)

CREATE_TABLE_INDEX = Route(
    operation="create_table_index", path="table/{id}/create_index", answer=sdk.CreateTableIndexResponse, changes=True
)
CREATE_TABLE_SCALAR_INDEX = Route(
    operation="create_table_scalar_index",
    path="table/{id}/create_scalar_index",
    answer=sdk.CreateTableScalarIndexResponse,
    changes=True,
)
LIST_TABLE_INDICES = Route(
    operation="list_table_indices", path="table/{id}/index/list", answer=sdk.ListTableIndicesResponse
)
DESCRIBE_TABLE_INDEX_STATS = Route(
    operation="describe_table_index_stats",
    path="table/{id}/index/{index_name}/stats",
    answer=sdk.DescribeTableIndexStatsResponse,
)
DROP_TABLE_INDEX = Route(
    operation="drop_table_index",
    path="table/{id}/index/{index_name}/drop",
    answer=sdk.DropTableIndexResponse,
    changes=True,
    query=("branch",),
    body="none",
)

LIST_TABLE_TAGS = Route(
    operation="list_table_tags",
    path="table/{id}/tags/list",
    answer=sdk.ListTableTagsResponse,
    query=_PAGE,
    body="none",
)
GET_TABLE_TAG_VERSION = Route(
    operation="get_table_tag_version", path="table/{id}/tags/version", answer=sdk.GetTableTagVersionResponse
)
CREATE_TABLE_TAG = Route(
    operation="create_table_tag", path="table/{id}/tags/create", answer=sdk.CreateTableTagResponse, changes=True
)
UPDATE_TABLE_TAG = Route(
    operation="update_table_tag", path="table/{id}/tags/update", answer=sdk.UpdateTableTagResponse, changes=True
)
DELETE_TABLE_TAG = Route(
    operation="delete_table_tag", path="table/{id}/tags/delete", answer=sdk.DeleteTableTagResponse, changes=True
)
LIST_TABLE_BRANCHES = Route(
    operation="list_table_branches",
    path="table/{id}/branches/list",
    answer=sdk.ListTableBranchesResponse,
    query=_PAGE,
    body="none",
)
CREATE_TABLE_BRANCH = Route(
    operation="create_table_branch",
    path="table/{id}/branches/create",
    answer=sdk.CreateTableBranchResponse,
    changes=True,
)
DELETE_TABLE_BRANCH = Route(
    operation="delete_table_branch",
    path="table/{id}/branches/delete",
    answer=sdk.DeleteTableBranchResponse,
    changes=True,
)
DESCRIBE_TRANSACTION = Route(
    operation="describe_transaction", path="transaction/{id}/describe", answer=sdk.DescribeTransactionResponse
)
ALTER_TRANSACTION = Route(
    operation="alter_transaction",
    path="transaction/{id}/alter",
    answer=sdk.AlterTransactionResponse,
    changes=True,
)
CREATE_MATERIALIZED_VIEW = Route(
    operation="create_materialized_view",
    path="materialized_view/{id}/create",
    answer=sdk.CreateMaterializedViewResponse,
    changes=True,
)
REFRESH_MATERIALIZED_VIEW = Route(
    operation="refresh_materialized_view",
    path="materialized_view/{id}/refresh",
    answer=sdk.RefreshMaterializedViewResponse,
    changes=True,
)
