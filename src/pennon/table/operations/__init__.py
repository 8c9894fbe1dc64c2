"""The operations of the namespace interface on the contents of a table.

A namespace inherits `TableOperations` and implements how a table is opened (`TableOpener`). The operations translate
requests and responses. The other modules of `pennon.table` do the work.
"""

from pennon.table.operations.columns import ColumnOperations
from pennon.table.operations.history import HistoryOperations
from pennon.table.operations.indexes import IndexOperations
from pennon.table.operations.rows import RowOperations
from pennon.table.operations.views import ViewOperations

__all__ = ["TableOperations"]


class TableOperations(
    RowOperations,
    ColumnOperations,
    IndexOperations,
    HistoryOperations,
    ViewOperations,
):
    """Operations on the rows, columns, indexes and versions of a table."""
