"""Writing a DataFrame to a table: executors write data files, the driver makes one commit.

A write has two halves. `stage` puts data files on storage, where nobody sees them; `publish` makes them a version of
the table. `write` does both. A crash in between leaves files that nothing refers to; the same job, run again, writes
the table once.
"""

from pennon.spark.commits.publication import publish_together
from pennon.spark.commits.publishing import discard, publish, publish_or_discard, readable
from pennon.spark.commits.staged import StagedWrite, WriteResult
from pennon.spark.writing.fragments import FileSettings
from pennon.spark.writing.frames import found, stage, write

__all__ = [
    "FileSettings",
    "StagedWrite",
    "WriteResult",
    "discard",
    "found",
    "publish",
    "publish_or_discard",
    "publish_together",
    "readable",
    "stage",
    "write",
]
