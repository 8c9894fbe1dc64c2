"""Materialized views, which a namespace of tables alone cannot have."""

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
    "reading it, so nothing here could ever refresh it; a pipeline (docs/guides/pipelines.md) keeps the result of a "
    "query as a table"
)


class ViewOperations(LanceNamespace):
    """Refusals that say why."""

    @operation(CreateMaterializedViewRequest)
    def create_materialized_view(self, request: CreateMaterializedViewRequest) -> CreateMaterializedViewResponse:
        """Refuse (0): a view that could not be refreshed would be a table that looks like one."""
        raise UnsupportedOperationError(f"Creating view {format_identifier(table_identifier(request.id))}: {_REASON}")

    @operation(RefreshMaterializedViewRequest)
    def refresh_materialized_view(self, request: RefreshMaterializedViewRequest) -> RefreshMaterializedViewResponse:
        """Refuse (0), as creating one."""
        raise UnsupportedOperationError(
            f"refresh_materialized_view of {format_identifier(table_identifier(request.id))}: {_REASON}"
        )
