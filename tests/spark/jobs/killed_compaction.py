"""Compact a catalog, and kill this process before the commit of the second table.

usage: killed_compaction.py ROOT STATE MASTER
"""

from __future__ import annotations

import os
import signal
import sys

from pennon.spark import attach
from pennon.spark.session import new_session

if __name__ == "__main__":
    root, state, master = sys.argv[1:]
    spark = new_session("killed", master=master)
    from lance.optimize import Compaction

    from pennon.spark.jobs import compact

    commit = Compaction.commit
    commits = 0

    class Dying:
        """Lance's compaction; its second commit kills the process."""

        plan = Compaction.plan

        @staticmethod
        def commit(*arguments):
            global commits  # noqa: PLW0603 (a script)
            commits += 1
            if commits > 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return commit(*arguments)

    import lance.optimize

    lance.optimize.Compaction = Dying
    compact(attach(spark, root=root), job_id="night", state=state)
