"""Maintenance jobs for a table, a namespace or a whole catalog.

The driver plans a job, executors do the work, and the result is a list with one outcome for each table.
docs/guides/jobs.md describes each job and its guarantees.
"""

from pennon.spark.jobs.backfill import backfill
from pennon.spark.jobs.cleanup import cleanup
from pennon.spark.jobs.compact import compact
from pennon.spark.jobs.index import index, optimize_indexes
from pennon.spark.jobs.migrate import migrate
from pennon.spark.jobs.outcome import JobResults, TableOutcome
from pennon.spark.jobs.purge import purge
from pennon.spark.jobs.stats import stats
from pennon.spark.jobs.table_selection import SingleTable
from pennon.spark.jobs.verify import verify

__all__ = [
    "JobResults",
    "SingleTable",
    "TableOutcome",
    "backfill",
    "cleanup",
    "compact",
    "index",
    "migrate",
    "optimize_indexes",
    "purge",
    "stats",
    "verify",
]
