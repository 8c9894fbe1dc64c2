"""Commands in this process and in their own, on catalogs of every mode."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

# Commands prevent the import of pandas unless it is already imported. Other tests in this process need it.
import pandas as pd
import pytest

from pennon import DirectoryNamespace
from pennon.cli.app import run
from tests.cli.cli_support import ROWS
from tests.support import MODES, ipc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

assert pd


@dataclass(frozen=True)
class Result:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return stdout, parsed as JSON."""
        return json.loads(self.out)


@pytest.fixture(autouse=True)
def _nobodys_settings(monkeypatch, tmp_path):
    """Isolate the tests from settings files and variables of the user."""
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)
    for name in [*os.environ]:
        if name.startswith("PENNON_"):
            monkeypatch.delenv(name)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home / "work")


@pytest.fixture
def pennon(capsys) -> Callable[..., Result]:
    """Run a command in this process; with a root, on that catalog."""

    def call(*arguments: str, root: Path | str | None = None) -> Result:
        capsys.readouterr()
        where = () if root is None else ("--root", str(root))
        code = run([*where, *arguments])
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return call


@pytest.fixture
def process() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command in a process of its own."""

    def call(
        *arguments: str, env: Mapping[str, str] | None = None, python: tuple[str, ...] = (), **options: Any
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *python, "-m", "pennon", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, **(env or {})},
            **options,
        )

    return call


@pytest.fixture
def root(tmp_path) -> Path:
    """Return a root that does not exist yet."""
    return tmp_path / "catalog"


@pytest.fixture
def lake(root) -> Path:
    """Create a catalog in compatibility mode: two root tables, and a namespace with a namespace and tables in it."""
    with DirectoryNamespace(root=str(root)) as namespace:
        namespace.create_namespace({"id": ["prod"], "properties": {"owner": "shop", "api_key": "hunter2hunter2"}})
        namespace.create_namespace({"id": ["prod", "raw"]})
        for identifier in (["plain"], ["my.table"], ["prod", "events"], ["prod", "raw", "clicks"]):
            namespace.create_table({"id": identifier}, ipc(ROWS))
        namespace.declare_table({"id": ["prod", "promised"]})
    return root


@pytest.fixture
def v1_lake(root) -> Path:
    """Create a catalog without a manifest."""
    with DirectoryNamespace(root=str(root), **MODES["v1"]) as namespace:
        for name in ("a", "my.table"):
            namespace.create_table({"id": [name]}, ipc(ROWS))
    return root
