"""Operations on materialized views, which are not supported."""

from __future__ import annotations

from lance_namespace import (
    CreateMaterializedViewRequest,
    CreateMaterializedViewResponse,
    LanceNamespace,
    RefreshMaterializedViewRequest,
    RefreshMaterializedViewResponse,
)

from pennon.errors import UnsupportedOperationError
from pennon.identifiers import format_identifier, table_identifier
from pennon.requests import operation

_REASON = (
    "the query of a materialized view is in a format that its client defines and that a namespace stores without "
    "reading it, so it could never be refreshed; use a pipeline (docs/guides/pipelines.md) to store the result of a "
    "query as a table"
)


class ViewOperations(LanceNamespace):
    """Operations that raise UnsupportedOperationError with the reason."""

    @operation(CreateMaterializedViewRequest)
    def create_materialized_view(self, request: CreateMaterializedViewRequest) -> CreateMaterializedViewResponse:
        """Raise UnsupportedOperationError: a view that cannot be refreshed would only look like one."""
        raise UnsupportedOperationError(f"Creating view {format_identifier(table_identifier(request.id))}: {_REASON}")

    @operation(RefreshMaterializedViewRequest)
    def refresh_materialized_view(self, request: RefreshMaterializedViewRequest) -> RefreshMaterializedViewResponse:
        """Raise UnsupportedOperationError, for the same reason."""
        raise UnsupportedOperationError(
            f"refresh_materialized_view of {format_identifier(table_identifier(request.id))}: {_REASON}"
        )
