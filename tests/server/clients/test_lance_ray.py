"""lance-ray as a client, of a server and of a directory. It is fetched into a cache outside the repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pennon

pytestmark = [pytest.mark.interop, pytest.mark.soak]
PROGRAM = Path(__file__).parent / "lance_ray_client.py"
TOP = Path(__file__).parents[3]
CACHE = Path(os.environ.get("PENNON_RAY", Path.home() / ".cache" / "pennon" / "ray"))


@pytest.fixture(scope="module")
def python() -> Path:
    """Return the Python of an environment with lance-ray and this project."""
    uv = Path(sys.executable).parent / "uv"
    found = CACHE / "bin" / "python"
    if not found.exists():
        _fetch([uv, "venv", "--clear", "--python", sys.executable, CACHE])
    _fetch([uv, "pip", "install", "--python", found, "lance-ray>=0.5,<0.6", "--reinstall-package", "pennon", TOP])
    return found


def _fetch(command: list[str | Path]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{command[0]} cannot fetch what the test needs: {done.stderr[-500:]}")


def run(python: Path, impl: str, properties: dict[str, str], space: str) -> None:
    """Run the program, and assert that it came to its end."""
    command = [python, PROGRAM, impl, json.dumps(properties), space]
    # Ray starts its workers by `python`.
    environment = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "done"


def test_lance_ray_reads_and_writes_tables_of_a_server(python, server, space):
    run(python, "rest", {"uri": server.lance}, space)


@pytest.mark.parametrize("managed", [False, True])
def test_lance_ray_reads_and_writes_tables_of_a_directory(python, tmp_path, managed):
    with pennon.open(tmp_path / "lake") as lake:
        lake.create_namespace("prod")
        if managed:
            lake.manage_versions()
        run(python, "pennon.DirectoryNamespace", {"root": str(tmp_path / "lake")}, "prod")
        assert lake["prod.rays"].count() == 1000
        assert [one.version for one in lake["prod.rays"].history()] == list(range(lake["prod.rays"].version, 0, -1))
