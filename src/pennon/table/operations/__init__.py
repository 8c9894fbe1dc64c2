"""The operations inside of a table, for every namespace that can open one.

A namespace inherits `TableOperations` and says how a table is opened. Here requests become calls and answers become
responses; what is done with a table stands in the other modules of `pennon.table`, which know no catalog.
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
    """What can be done with the rows, columns, indexes and versions of a table."""
