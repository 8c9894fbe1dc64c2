"""The npm package of LanceDB as a client. It is fetched into a cache outside the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.interop, pytest.mark.soak]
PACKAGES = ("@lancedb/lancedb@0.37.1", "apache-arrow@18")
PROGRAM = Path(__file__).parent / "lancedb_client.mjs"
CACHE = Path(os.environ.get("PENNON_NODE", Path.home() / ".cache" / "pennon" / "node"))


@pytest.fixture(scope="module")
def packages() -> Path:
    """Return the directory in which the packages are installed."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    CACHE.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", *PACKAGES], cwd=CACHE, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"npm cannot fetch the packages: {done.stderr[-500:]}")
    return CACHE


def test_the_npm_package_reads_and_writes_tables(packages, server, space):
    program = shutil.copy(PROGRAM, packages)
    done = subprocess.run(["node", program, server.lance, space], capture_output=True, text=True, check=False)  # noqa: S607
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
