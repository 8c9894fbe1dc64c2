"""Operations on rows: count, query, insert, merge, update, delete."""

from __future__ import annotations

from lance_namespace import CountTableRowsRequest, CountTableRowsResponse

from pennon.identifiers import table_identifier
from pennon.requests import operation
from pennon.table import reading
from pennon.table.operations.opening import OpensTables


class RowOperations(OpensTables):
    """What can be done with rows."""

    @operation(CountTableRowsRequest)
    def count_table_rows(self, request: CountTableRowsRequest) -> CountTableRowsResponse:
        """Count the rows, or those that meet a predicate; errors 1, 4, 11, 13, 22."""
        identifier = table_identifier(request.id)
        dataset = self._open_table(identifier, version=request.version, branch=request.branch)
        return CountTableRowsResponse(count=reading.count(dataset, identifier, request.predicate))
