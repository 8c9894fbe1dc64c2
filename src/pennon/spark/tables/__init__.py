"""Writing a DataFrame to a table: executors write data files, and the driver commits once.

A write has two steps. `stage` writes data files, which are not visible yet. `publish` commits them as a version of the
table. `write` does both. A crash in between leaves unused files; if the job is run again, it writes the table once.
"""

from pennon.spark.tables.dataframe_write import find_destination, stage, write
from pennon.spark.tables.fragment_writer import FileSettings
from pennon.spark.tables.publishing import discard, make_readable, publish, publish_or_discard, publish_together
from pennon.spark.tables.staged_write import StagedWrite, WriteResult

__all__ = [
    "FileSettings",
    "StagedWrite",
    "WriteResult",
    "discard",
    "find_destination",
    "make_readable",
    "publish",
    "publish_or_discard",
    "publish_together",
    "stage",
    "write",
]
