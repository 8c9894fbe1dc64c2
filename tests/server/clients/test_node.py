"""The npm package of LanceDB as a client. It is fetched into a cache outside the repository."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.node_packages import install_packages

pytestmark = [pytest.mark.interop, pytest.mark.soak]
PACKAGES = ("@lancedb/lancedb@0.37.1", "apache-arrow@18")
PROGRAM = Path(__file__).parent / "lancedb_client.mjs"


@pytest.fixture(scope="module")
def packages() -> Path:
    """Return the directory in which the packages are installed."""
    return install_packages(*PACKAGES)


def test_the_npm_package_reads_and_writes_tables(packages, server, space):
    program = shutil.copy(PROGRAM, packages)
    done = subprocess.run(["node", program, server.lance, space], capture_output=True, text=True, check=False)  # noqa: S607
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
