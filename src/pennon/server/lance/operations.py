"""The operations of the protocol: one row each, from which the routes are made.

The method of the namespace has the name of the operation in snake case. The identifier in the path, query parameters
and the body become the fields of the request.
"""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import lance_namespace as sdk

from pennon.server.lance import needs
from pennon.server.lance.needs import on_namespace, on_root, on_table, on_table_of_transaction
from pennon.server.permissions.rights import Right

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

    from pennon.server.lance.needs import Needs

_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")
_ACCEPTED, _CREATED = 202, 201
_ALL = frozenset({400, 401, 403, 500, 503})
_FINDS = _ALL | {404}
_CREATES = _FINDS | {409}
_LISTS = _FINDS | {406}
_REGISTERS = _CREATES | _LISTS


@dataclass(frozen=True)
class Operation:
    """An operation of the protocol."""

    id: str
    """The `operationId` of the specification."""
    path: str
    request: type[BaseModel]
    needs: Needs
    _: KW_ONLY
    method: Literal["GET", "POST"] = "POST"
    changes: bool
    """Whether it changes something, so that an `Idempotency-Key` counts."""
    status: int = 200
    errors: frozenset[int] = _FINDS
    """The statuses of errors in the specification."""
    perform: Callable[[Any, Any], Any] | None = None
    """Does the operation with the namespace and a request; None if a method of the namespace does it."""
    takes_rows: bool = False
    """Whether the body is an Arrow IPC stream."""
    body_field: str | None = None
    """The field of the request that is the whole body; None if the body is the request."""
    result_field: str | None = None
    """The field of the response that is the whole answer; None if the answer is the response."""
    is_empty: bool = False
    """Whether the answer has no body."""
    lists: Literal["namespaces", "tables"] | None = None
    """The field of the response with the names of a listing."""

    @cached_property
    def call(self) -> str:
        """The method of the namespace."""
        return _CAPITAL.sub("_", self.id).lower()


_change = partial(Operation, changes=True)
_read = partial(Operation, changes=False)

OPERATIONS: tuple[Operation, ...] = (
    _change(
        "CreateNamespace",
        "/namespace/{id}/create",
        sdk.CreateNamespaceRequest,
        needs.to_create_namespace,
        errors=_REGISTERS,
    ),
    _read(
        "ListNamespaces",
        "/namespace/{id}/list",
        sdk.ListNamespacesRequest,
        on_namespace(Right.SEE),
        method="GET",
        errors=_LISTS,
        lists="namespaces",
    ),
    _read("DescribeNamespace", "/namespace/{id}/describe", sdk.DescribeNamespaceRequest, on_namespace(Right.READ)),
    _change(
        "DropNamespace", "/namespace/{id}/drop", sdk.DropNamespaceRequest, needs.to_drop_namespace, errors=_CREATES
    ),
    _read(
        "NamespaceExists", "/namespace/{id}/exists", sdk.NamespaceExistsRequest, on_namespace(Right.SEE), is_empty=True
    ),
    _read(
        "ListTables",
        "/namespace/{id}/table/list",
        sdk.ListTablesRequest,
        on_namespace(Right.SEE),
        method="GET",
        errors=_LISTS,
        lists="tables",
    ),
    _read(
        "ListAllTables", "/table", sdk.ListTablesRequest, on_root(Right.SEE), method="GET", errors=_ALL, lists="tables"
    ),
    _change(
        "RegisterTable", "/table/{id}/register", sdk.RegisterTableRequest, needs.to_create_table, errors=_REGISTERS
    ),
    _read("DescribeTable", "/table/{id}/describe", sdk.DescribeTableRequest, on_table(Right.READ)),
    _read("TableExists", "/table/{id}/exists", sdk.TableExistsRequest, on_table(Right.SEE), is_empty=True),
    _change("DropTable", "/table/{id}/drop", sdk.DropTableRequest, needs.to_drop_table),
    _change("DeregisterTable", "/table/{id}/deregister", sdk.DeregisterTableRequest, on_table(Right.MANAGE)),
    _change("RestoreTable", "/table/{id}/restore", sdk.RestoreTableRequest, on_table(Right.MANAGE)),
    _change("RenameTable", "/table/{id}/rename", sdk.RenameTableRequest, needs.to_rename, errors=_CREATES),
    _change(
        "UpdateTableSchemaMetadata",
        "/table/{id}/schema_metadata/update",
        sdk.UpdateTableSchemaMetadataRequest,
        on_table(Right.MANAGE),
        body_field="metadata",
        result_field="metadata",
    ),
    _read("ListTableVersions", "/table/{id}/version/list", sdk.ListTableVersionsRequest, on_table(Right.READ)),
    _change(
        "CreateTableVersion",
        "/table/{id}/version/create",
        sdk.CreateTableVersionRequest,
        on_table(Right.WRITE),
        errors=_CREATES,
    ),
    _read(
        "DescribeTableVersion", "/table/{id}/version/describe", sdk.DescribeTableVersionRequest, on_table(Right.READ)
    ),
    _change(
        "BatchDeleteTableVersions",
        "/table/{id}/version/delete",
        sdk.BatchDeleteTableVersionsRequest,
        on_table(Right.MANAGE),
    ),
    _change(
        "BatchCreateTableVersions",
        "/table/version/batch-create",
        sdk.BatchCreateTableVersionsRequest,
        needs.to_create_versions,
        errors=_CREATES,
    ),
    _change(
        "BatchCommitTables", "/table/batch-commit", sdk.BatchCommitTablesRequest, needs.to_commit_batch, errors=_CREATES
    ),
    _change(
        "AlterTableAlterColumns", "/table/{id}/alter_columns", sdk.AlterTableAlterColumnsRequest, on_table(Right.MANAGE)
    ),
    _change(
        "UpdateFieldMetadata",
        "/table/{id}/update_field_metadata",
        sdk.UpdateFieldMetadataRequest,
        on_table(Right.MANAGE),
    ),
    _change(
        "AlterTableDropColumns", "/table/{id}/drop_columns", sdk.AlterTableDropColumnsRequest, on_table(Right.MANAGE)
    ),
    _read("GetTableStats", "/table/{id}/stats", sdk.GetTableStatsRequest, on_table(Right.READ)),
    _change(
        "InsertIntoTable", "/table/{id}/insert", sdk.InsertIntoTableRequest, on_table(Right.WRITE), takes_rows=True
    ),
    _change(
        "MergeInsertIntoTable",
        "/table/{id}/merge_insert",
        sdk.MergeInsertIntoTableRequest,
        on_table(Right.WRITE),
        takes_rows=True,
    ),
    _change("UpdateTable", "/table/{id}/update", sdk.UpdateTableRequest, on_table(Right.WRITE)),
    _change("DeleteFromTable", "/table/{id}/delete", sdk.DeleteFromTableRequest, on_table(Right.WRITE)),
    _read("QueryTable", "/table/{id}/query", sdk.QueryTableRequest, on_table(Right.READ)),
    _read(
        "CountTableRows",
        "/table/{id}/count_rows",
        sdk.CountTableRowsRequest,
        on_table(Right.READ),
        result_field="count",
    ),
    _change(
        "CreateTable",
        "/table/{id}/create",
        sdk.CreateTableRequest,
        needs.to_create_table,
        takes_rows=True,
        errors=_CREATES,
    ),
    _read("ExplainTableQueryPlan", "/table/{id}/explain_plan", sdk.ExplainTableQueryPlanRequest, on_table(Right.READ)),
    _read("AnalyzeTableQueryPlan", "/table/{id}/analyze_plan", sdk.AnalyzeTableQueryPlanRequest, on_table(Right.READ)),
    _change("AlterTableAddColumns", "/table/{id}/add_columns", sdk.AlterTableAddColumnsRequest, on_table(Right.MANAGE)),
    _change(
        "AlterTableBackfillColumns",
        "/table/{id}/backfill_column",
        sdk.AlterTableBackfillColumnsRequest,
        on_table(Right.WRITE),
        status=_ACCEPTED,
    ),
    _change(
        "RefreshMaterializedView",
        "/materialized_view/{id}/refresh",
        sdk.RefreshMaterializedViewRequest,
        on_table(Right.WRITE),
        status=_ACCEPTED,
    ),
    _change(
        "CreateMaterializedView",
        "/materialized_view/{id}/create",
        sdk.CreateMaterializedViewRequest,
        needs.to_create_table,
        status=_CREATED,
        errors=_CREATES,
    ),
    _change("CreateTableIndex", "/table/{id}/create_index", sdk.CreateTableIndexRequest, on_table(Right.WRITE)),
    _change(
        "CreateTableScalarIndex", "/table/{id}/create_scalar_index", sdk.CreateTableIndexRequest, on_table(Right.WRITE)
    ),
    _read("ListTableIndices", "/table/{id}/index/list", sdk.ListTableIndicesRequest, on_table(Right.READ)),
    _read(
        "DescribeTableIndexStats",
        "/table/{id}/index/{index_name}/stats",
        sdk.DescribeTableIndexStatsRequest,
        on_table(Right.READ),
    ),
    _change("DropTableIndex", "/table/{id}/index/{index_name}/drop", sdk.DropTableIndexRequest, on_table(Right.WRITE)),
    _read("ListTableTags", "/table/{id}/tags/list", sdk.ListTableTagsRequest, on_table(Right.READ)),
    _read("GetTableTagVersion", "/table/{id}/tags/version", sdk.GetTableTagVersionRequest, on_table(Right.READ)),
    _change("DeclareTable", "/table/{id}/declare", sdk.DeclareTableRequest, needs.to_create_table, errors=_CREATES),
    _change(
        "CreateTableTag", "/table/{id}/tags/create", sdk.CreateTableTagRequest, on_table(Right.WRITE), errors=_CREATES
    ),
    _change("DeleteTableTag", "/table/{id}/tags/delete", sdk.DeleteTableTagRequest, on_table(Right.WRITE)),
    _change("UpdateTableTag", "/table/{id}/tags/update", sdk.UpdateTableTagRequest, on_table(Right.WRITE)),
    _read("ListTableBranches", "/table/{id}/branches/list", sdk.ListTableBranchesRequest, on_table(Right.READ)),
    _change(
        "CreateTableBranch",
        "/table/{id}/branches/create",
        sdk.CreateTableBranchRequest,
        on_table(Right.WRITE),
        errors=_CREATES,
    ),
    _change("DeleteTableBranch", "/table/{id}/branches/delete", sdk.DeleteTableBranchRequest, on_table(Right.WRITE)),
    _read(
        "DescribeTransaction",
        "/transaction/{id}/describe",
        sdk.DescribeTransactionRequest,
        on_table_of_transaction(Right.READ),
    ),
    _change(
        "AlterTransaction",
        "/transaction/{id}/alter",
        sdk.AlterTransactionRequest,
        on_table_of_transaction(Right.MANAGE),
        errors=_CREATES,
    ),
)
"""All operations of the specification, in its order."""
