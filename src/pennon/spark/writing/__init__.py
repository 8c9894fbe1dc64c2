"""Writing a DataFrame to a table: executors write data files, and the driver commits once.

A write has two steps. `stage` writes data files, which are not visible yet. `publish` commits them as a version of the
table. `write` does both. A crash in between leaves unused files; if the job is run again, it writes the table once.
"""

from pennon.spark.commits.publish import discard, make_readable, publish, publish_or_discard
from pennon.spark.commits.publish_together import publish_together
from pennon.spark.commits.staged_write import StagedWrite, WriteResult
from pennon.spark.writing.dataframe_write import find_destination, stage, write
from pennon.spark.writing.fragment_writer import FileSettings

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
