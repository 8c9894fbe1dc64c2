"""A server as a process, whose log and signals a test can use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import urllib3

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE = 60.0


@dataclass(frozen=True)
class Served:
    """A process of `pennon serve`."""

    process: subprocess.Popen
    url: str
    log: Path

    def get(self, path: str, **headers: str) -> urllib3.BaseHTTPResponse:
        return urllib3.request("GET", self.url + path, headers=headers, retries=False, timeout=PATIENCE)

    def post(self, path: str, body: object) -> urllib3.BaseHTTPResponse:
        return urllib3.request("POST", self.url + path, json=body, retries=False, timeout=PATIENCE)

    def wait_for(self, path: str, status: int) -> urllib3.BaseHTTPResponse:
        """Ask until the answer has this status."""
        deadline = time.monotonic() + PATIENCE
        while (answer := self.get(path)).status != status:
            assert time.monotonic() < deadline, answer.data
        return answer

    def log_lines(self, count: int = 1) -> list[str]:
        """Return the log once it has so many lines: a request is logged after its answer."""
        deadline = time.monotonic() + PATIENCE
        while len(lines := self.log.read_text().splitlines()) < count:
            assert time.monotonic() < deadline, lines
        return lines


@contextmanager
def serving(directory: Path, *arguments: str, root: str | None = None, **environment: str):
    """Serve `root`, or a new directory, until the end of the block."""
    if root is None:
        (directory / "root").mkdir(exist_ok=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PENNON_", "OTEL_"))}
    command = [sys.executable, "-m", "pennon", "serve", "--port", "0", "--json", *arguments]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            command,
            env={**kept, "PENNON_ROOT": root or str(directory / "root"), **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        lines = [process.stdout.readline()]
        while lines[-1] and not lines[-1].startswith("}"):
            lines.append(process.stdout.readline())
        if not lines[-1]:
            pytest.fail((directory / "log").read_text())
        served = Served(process, json.loads("".join(lines))["url"], directory / "log")
        # From the first answer on, the server handles signals.
        served.wait_for("/healthz", 200)
        yield served
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
