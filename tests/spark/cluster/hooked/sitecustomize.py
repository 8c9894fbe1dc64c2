"""Kills executors during a merge. It is on the path of their Python workers, which import it when they start.

The first worker that has written the rows of its task kills the Java process of its executor before it reports, and so
does the first that has written deletion vectors. By then the driver has the reports of all other tasks, and some of
their inputs are lost.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import signal
import sys
import time
from pathlib import Path

SIGNALS = os.environ.get("PENNON_TEST_SIGNALS")
HOOKED = {
    "pennon.spark.merging.row_changes": "apply_changes",
    "pennon.spark.merging.deletions": "write_deletion_vectors",
}


def kill_after(name, work):
    def worked(*args):
        reports = list(work(*args))
        if reports and _once(name):
            deadline = time.monotonic() + 120
            while not Path(SIGNALS, f"{name} by all others").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            os.kill(_executor(), signal.SIGKILL)
            time.sleep(120)  # until this worker is killed too
        yield from reports

    return worked


def _once(name):
    try:
        os.close(os.open(f"{SIGNALS}/{name}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _executor():
    pid = os.getpid()
    while "java" not in str(Path(f"/proc/{pid}/exe").readlink()):
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


class Hooks(importlib.abc.MetaPathFinder):
    """Installs the hooks in the modules when they are imported."""

    def find_spec(self, name, path, target=None):
        if name not in HOOKED:
            return None
        spec = next(
            found
            for finder in sys.meta_path
            if finder is not self and (found := finder.find_spec(name, path, target)) is not None
        )
        load = spec.loader.exec_module

        def loaded(module):
            load(module)
            function = HOOKED[name]
            setattr(module, function, kill_after(function, getattr(module, function)))

        spec.loader.exec_module = loaded
        return spec


if SIGNALS is not None and not any(type(finder).__name__ == "Hooks" for finder in sys.meta_path):
    sys.meta_path.insert(0, Hooks())
