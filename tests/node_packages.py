"""Packages of npm that long tests run. They are fetched into a cache outside the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CACHE = Path(os.environ.get("PENNON_NODE", Path.home() / ".cache" / "pennon" / "node"))


def install_packages(*packages: str) -> Path:
    """Return the directory in which packages are installed. Skips the test if there is no npm, or no registry."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    CACHE.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", *packages], cwd=CACHE, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip(f"npm cannot fetch the packages: {done.stderr[-500:]}")
    return CACHE
