"""Tables that are larger than the memory of Spark's processes, and tables of extreme shapes.

PENNON_SOAK_GB sets the size of the large tables.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.cluster.large_driver import PROGRAMS

DRIVER = Path(__file__).parent / "cluster" / "large_driver.py"
GIGABYTES = os.environ.get("PENNON_SOAK_GB", "10")


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.timeout(6 * 3600)
@pytest.mark.skipif(
    shutil.which("java") is None and "JAVA_HOME" not in os.environ, reason="Spark needs Java 17 or newer"
)
@pytest.mark.parametrize("program", list(PROGRAMS))
def test_small_executors_can_process(program, tmp_path):
    command = [sys.executable, str(DRIVER), program, str(tmp_path / "root"), GIGABYTES]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, f"{program} failed after: {done.stdout[-2000:]}"
    print(program, json.loads(done.stdout.splitlines()[-1]))
